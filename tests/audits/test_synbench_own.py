"""The study on a corpus of one's own and the tables of saved results."""

import json

import numpy as np
import pytest

from dprepro.audits import synbench_own
from dprepro.audits.synbench_own import own_study, table
from dprepro.text.corpora import read_corpus

ALL = {
    "DP-Gen": {"batch": 24, "steps": 1, "learning_rate": 1e-3, "written": 20, "max_tokens": 6},
    "AUG-PE": {"pool": 8, "rounds": 1, "variations": 1, "written": 20, "max_tokens": 6},
    "DP-Diffusion": {"batch": 24, "steps": 1, "learning_rate": 1e-3, "written": 20, "denoising": 2},
}


@pytest.fixture(autouse=True)
def light(monkeypatch, counts_of):
    monkeypatch.setattr(synbench_own, "vectors", lambda: counts_of("cghotu"))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Read two files in the columns of the map for PsyTAR, as somebody who has it would keep it."""
    folder = tmp_path_factory.mktemp("own")
    for kind in ("drowsiness", "insomnia"):
        rows = [f'"{kind} on day {number}, doctor",{kind}' for number in range(30)]
        (folder / f"{kind}.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return read_corpus(folder, "psytar", name="psytar")


def test_a_folder_and_a_column_map_are_all_it_takes_for_each_generator(tmp_path):
    """Discharge summaries as n2c2 has them, in two files: longer than a generator's window, one there twice."""
    for disease, word in (("asthma", "cough"), ("gout", "toe")):
        notes = [{"text": f"{word} since day {n}, " + "seen again, " * 30} for n in range(24)]
        lines = [json.dumps({**note, "disease": disease, "judgment": "Y"}) for note in [*notes, notes[0]]]
        (tmp_path / f"{disease}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    source = read_corpus(tmp_path, "n2c2_2008", name="notes")
    scores, baselines = own_study(
        source, np.random.default_rng(1), private=24, tested=16, budgets=(2.0, np.inf), settings=ALL
    )
    assert scores.groupby("generator").size().to_dict() == dict.fromkeys(ALL, 2)
    private = baselines["private"][0]
    assert baselines["cut"][0] == private == 24
    assert (baselines["macro"][0], baselines["classes"][0]) == (1.0, 2)  # the class is a word of the text
    assert set(zip(scores["domain"], scores["number"], strict=True)) == {("notes", 0)}
    deltas = {"AUG-PE": 1 / (private * np.log(private))}
    for name, rows in scores.groupby("generator"):
        spent = rows.set_index("epsilon")["spent"]
        assert 1.8 < spent[2.0] <= 2.0 + 1e-6, name
        assert spent[np.inf] == np.inf, name
        assert rows["delta"].to_numpy() == pytest.approx(deltas.get(name, 1 / private), rel=1e-5)
        noise = rows.set_index("epsilon")["noise_multiplier"]
        assert noise[2.0] > noise[np.inf] == 0, name
        assert (abs(rows["texts"] - 20) <= 1).all(), name
        assert rows["macro"].between(0, 1).all(), name
    votes = scores[scores["generator"] == "AUG-PE"]
    assert votes["random_rounds"].notna().all()
    assert votes["unchanged"].eq(0).all()  # one round varies nothing


def test_a_pool_that_is_too_small_for_the_classes_of_a_set_is_named(own):
    with pytest.raises(ValueError, match="pool must be at least 2 texts for each of 2 classes, got 3"):
        own_study(
            own,
            np.random.default_rng(1),
            private=30,
            tested=20,
            budgets=(4.0,),
            settings={"AUG-PE": {**ALL["AUG-PE"], "pool": 3}},
        )


def test_bad_input(own):
    rng = np.random.default_rng(1)
    with pytest.raises(
        ValueError, match="settings must name generators among DP-Gen, AUG-PE, DP-Diffusion, got GPT"
    ):
        own_study(own, rng, settings={"GPT": {}})
    with pytest.raises(ValueError, match="kept must be classes of psytar, got nausea"):
        own_study(own, rng, settings=ALL, kept=("nausea", "insomnia"))
    with pytest.raises(ValueError, match="draws must be a whole number of at least 1"):
        own_study(own, rng, settings=ALL, draws=0)


def test_a_table_has_the_budget_asked_for_and_the_epsilon_spent():
    found = table(
        {
            "AUG-PE": {
                "a, inf, 1": {"epsilon": "inf", "macro": 0.5},
                "a, 4, 0": {"epsilon": "3.99", "macro": 0.25},
            }
        }
    )
    assert found["epsilon"].tolist() == [np.inf, 4.0]
    assert found["spent"].tolist() == [np.inf, 3.99]
    assert found["number"].tolist() == [1, 0]
