"""The functions of the saved results on a vocabulary of sixty words and a model that is a table."""

import numpy as np
import pytest

from dprepro.audits import prompt_snippets, prompt_study
from dprepro.audits.prompt_snippets import Snippets
from dprepro.audits.prompt_study import similarity, utility
from dprepro.mechanisms.prompt.metric_dp import Custext
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = (*(f"w{i}" for i in range(56)), "good", "bad", "the", ".")
TRAIN = Snippets(["the good w1 .", "w2 bad"] * 10, [True, False] * 10)
TEST = Snippets(["good w5 w1 .", "the bad zebra", "bad good", "w9 good"], [True, False, False, True])


class Model:
    view = "masked"
    vocabulary = Vocabulary(WORDS, np.random.default_rng(0).normal(size=(60, 3)))

    def logits(self, cuts, texts, positions):
        # Always guesses "good".
        return np.tile(np.eye(60, dtype=np.float32)[56], (len(texts), 1))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in (prompt_snippets, prompt_study):
        monkeypatch.setattr(module, "context_model", Model)

    def few(side, number=None):
        return Snippets(*(part[:number] for part in (TRAIN if side == "train" else TEST)))

    monkeypatch.setattr(prompt_study, "snippets", few)


def test_nothing_is_lost_where_nothing_is_replaced():
    found = utility("randomised response, 60", np.random.default_rng(0), sentences=3, masked=2)
    assert found["rouge"] == [1, pytest.approx(2 / 3, abs=1e-4), 1]  # zebra has no row: it is drawn anew
    assert (found["sensitive"], found["kept"], found["unchanged"]) == (7, 2, 6)
    # Masked in two texts: good w5 w1 | bad zebra, of which "good" is guessed; the kept . and the are not.
    assert (found["guessed"], found["asked"], found["guessed kept"], found["asked kept"]) == (1, 5, 0, 2)
    assert found["right"].tolist() == utility("none, 0", None, sentences=3, masked=0)["right"].tolist()
    assert found["right"][:2].tolist() == [1, 1]


def test_all_is_lost_where_all_is_replaced():
    found = utility("randomised response, 0.001", np.random.default_rng(1), sentences=4, masked=1)
    assert found["unchanged"] <= 3
    assert np.mean(found["rouge"]) < 0.6
    assert len(found["right"]) == 4


def test_rows_of_the_table_have_both_ways_to_cut(monkeypatch):
    asked = []

    def mechanism(name, keep):
        asked.append((name, keep))
        return Custext(Model.vocabulary, keep, k=3)

    monkeypatch.setattr(prompt_study, "words_mechanism", mechanism)
    found = similarity("CUSTEXT, stop words", np.random.default_rng(0), sentences=2, epsilons=[0.5, 200])
    assert asked == [("CUSTEXT", "stop words")]
    assert (found["sensitive"], found["kept"], found["outside"]) == (6, 1, 1)
    # At epsilon 200 a word stays; zebra is outside, and kept by the mechanism.
    assert found["200, unchanged"] == 6
    assert found["200, words"] == found["200, whitespace"] == [1, 1]
    assert found["0.5, unchanged"] < 6
    # A mark is a token for one of the two only.
    assert found["0.5, words"] != found["0.5, whitespace"]
