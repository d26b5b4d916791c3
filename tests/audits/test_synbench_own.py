"""The study on a corpus of one's own and the tables of saved results."""

import numpy as np
import pytest

from dprepro.audits.synbench_own import own_study, table
from dprepro.text.corpora import read_corpus

FEW = {"DP-Gen": {"batch": 8, "steps": 1, "learning_rate": 1e-3, "written": 20, "max_tokens": 6}}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Read two files in the columns of the map for PsyTAR, as somebody who has it would keep it."""
    folder = tmp_path_factory.mktemp("own")
    for kind in ("drowsiness", "insomnia"):
        rows = [f'"{kind} on day {number}, doctor",{kind}' for number in range(30)]
        (folder / f"{kind}.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return read_corpus(folder, "psytar", name="psytar")


def test_a_folder_and_a_column_map_are_all_it_takes(own):
    rng = np.random.default_rng(1)
    scores, baselines = own_study(own, rng, private=30, tested=20, budgets=(4.0,), settings=FEW)
    assert list(scores["generator"]) == ["DP-Gen"]
    assert (scores["domain"][0], scores["epsilon"][0], scores["number"][0]) == ("psytar", 4.0, 0)
    assert scores["spent"][0] <= 4.0
    assert (baselines["macro"][0], baselines["private"][0], baselines["classes"][0]) == (1.0, 30, 2)


def test_bad_input(own):
    rng = np.random.default_rng(1)
    with pytest.raises(
        ValueError, match="settings must name generators among DP-Gen, AUG-PE, DP-Diffusion, got GPT"
    ):
        own_study(own, rng, settings={"GPT": {}})
    with pytest.raises(ValueError, match="kept must be classes of psytar, got nausea"):
        own_study(own, rng, settings=FEW, kept=("nausea", "insomnia"))
    with pytest.raises(ValueError, match="draws must be a whole number of at least 1"):
        own_study(own, rng, settings=FEW, draws=0)


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
