"""The measures of the utility study on texts with known answers, and the study on a corpus of the user's own."""

import functools
import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from dprepro.audits import synbench_by_dp_gen
from dprepro.audits.synbench_tasks import task
from dprepro.audits.synbench_utility import measured, parsed, vectors, yardsticks
from dprepro.mechanisms import dp_finetune
from dprepro.mechanisms.synthesis import dp_gen
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.text.corpora import read_corpus

SETTINGS = {"batch": 8, "steps": 2, "learning_rate": 1e-3, "written": 20, "max_tokens": 8}


@pytest.fixture
def embed(counts_of):
    return counts_of("abcdefghijklmnopqrstuvwxyz")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Make a task of a file in the columns of the map for PsyTAR, as somebody who has it would keep it."""
    folder = tmp_path_factory.mktemp("own")
    kinds = ("none", "drowsiness", "insomnia")
    rows = [f'"{kind} on day {number}, and again, doctor",{kind}' for kind in kinds for number in range(30)]
    (folder / "posts.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return task(read_corpus(folder, "psytar"), 0, private=60, tested=40)


def test_the_private_texts_score_as_scikit_learn_says_and_above_both_guessers(own, embed):
    found = yardsticks(own, embed)
    assert found["micro"] == found["macro"] == 1.0  # the class is a word of the text
    assert found["guess_micro"] == pytest.approx(1 / 3)
    most = max(set(own.labels), key=own.labels.count)
    by_library = f1_score(own.test_labels, [most] * len(own.test_labels), average="macro", zero_division=0)
    assert found["majority_macro"] == pytest.approx(by_library)
    assert (found["private"], found["tested"], found["classes"], found["cut"]) == (
        len(own.texts),
        len(own.test_texts),
        3,
        0,
    )
    assert found["mauve"] > 0.5
    assert found["length"] == found["length_whole"]


def test_labels_that_say_nothing_score_like_a_guesser(own, embed):
    rng = np.random.default_rng(0)
    shuffled = SyntheticTexts(list(own.texts), rng.permutation(own.labels).tolist(), 0)
    found = measured(own, shuffled, embed)
    assert found["micro"] < 0.8
    assert (
        found["mauve"] == measured(own, SyntheticTexts(list(own.texts), list(own.labels), 0), embed)["mauve"]
    )


def test_blank_texts_are_counted_and_leave_a_constant_answer(own, embed):
    wrote = SyntheticTexts([" ", "", "...", "!"] * 5, ["none", "none", "none", "insomnia"] * 5, 10)
    found = measured(own, wrote, embed)
    assert (found["blanks"], found["wordless"], found["texts"], found["distinct"]) == (10, 20, 20, 4)
    share = own.test_labels.count("none") / len(own.test_labels)
    assert found["micro"] == found["micro_words"] == pytest.approx(share)
    assert found["length"] == 1.0  # no text of one word or none among the real ones


def test_one_class_alone_that_has_words_is_the_answer(own, embed):
    wrote = SyntheticTexts(["", "a sleepless night"] * 4, ["none", "insomnia"] * 4, 4)
    share = own.test_labels.count("insomnia") / len(own.test_labels)
    assert measured(own, wrote, embed)["micro"] == pytest.approx(share)


def test_a_corpus_of_ones_own_runs_through_the_study(own, monkeypatch):
    """PsyTAR's columns, DP-Gen with a few steps, the packaged embedder."""
    # Its three private trainings have one account, of a second.
    for asker, name in ((dp_gen, "noise_multiplier_for"), (dp_finetune, "dp_sgd_epsilon")):
        monkeypatch.setattr(asker, name, functools.cache(getattr(asker, name)))
    found = synbench_by_dp_gen.scores(own, 4.0, np.random.default_rng(0), vectors(), **SETTINGS)
    assert float(found["epsilon"]) <= 4.0
    assert found["delta"] == pytest.approx(1 / len(own.texts), rel=1e-5)
    assert found["texts"] == sum(own.counts(20).values())
    assert found == synbench_by_dp_gen.scores(own, 4.0, np.random.default_rng(0), vectors(), **SETTINGS)
    assert found != synbench_by_dp_gen.scores(own, 4.0, np.random.default_rng(1), vectors(), **SETTINGS)
    free = synbench_by_dp_gen.scores(own, math.inf, np.random.default_rng(0), vectors(), **SETTINGS)
    assert (free["epsilon"], free["noise_multiplier"]) == ("inf", 0.0)


def test_keys():
    made, epsilon = parsed("dialogue, inf, 1")
    assert (made.name, epsilon) == ("dialogue", math.inf)
    with pytest.raises(ValueError, match="key must be"):
        parsed("dialogue, inf")
