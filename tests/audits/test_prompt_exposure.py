"""The functions of the saved results on a vocabulary of sixty words and a model that is a table."""

import numpy as np
import pytest

from dprepro.audits import prompt_exposure, prompt_snippets
from dprepro.audits.prompt_attacks import nearest_success, neighbour_reach
from dprepro.audits.prompt_exposure import bayes, kept_words, nearest, token_prior
from dprepro.audits.prompt_report import kept_by_label, nearest_by_mechanism
from dprepro.audits.prompt_snippets import Snippets
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = (*(f"w{i}" for i in range(58)), "the", ".")
TEXTS = {
    "train": Snippets(["the w1 w1 w2 .", "w3 w1", "the w2 zebra .", ". . w4"], [True, False, True, False]),
    "test": Snippets(["the w5 w1 .", "w2 the", "the"], [True, False, True]),
}


class Model:
    view = "masked"
    vocabulary = Vocabulary(WORDS, np.random.default_rng(0).normal(size=(60, 3)))

    def logits(self, cuts, texts, positions):
        return np.random.default_rng(1).normal(size=(10, 60))[texts].astype(np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(prompt_snippets, "context_model", Model)
    monkeypatch.setattr(prompt_exposure, "context_model", Model)

    def few(side, number=None):
        return Snippets(*(part[:number] for part in TEXTS[side]))

    monkeypatch.setattr(prompt_exposure, "snippets", few)


RNG = np.random.default_rng(0)


def test_the_prior_is_that_of_sensitive_train_tokens():
    rows, prior = token_prior(3)
    assert [WORDS[row] for row in rows] == [
        "w1",
        "w2",
        "w3",
    ]  # w3 and w4 occur once each: the lower row first
    assert prior.tolist() == [3 / 6, 2 / 6, 1 / 6]


@pytest.mark.parametrize("name", prompt_snippets.MECHANISMS)
def test_nearest_adds_up_outputs_and_the_tokens_of_a_snippet(name):
    keys = [f"{name}, {epsilons}, {part}" for epsilons in ("2.5", "1 4") for part in range(7)]
    items = {key: nearest(key, RNG, sentences=3, ks=[1, 4, 8], parts=7) for key in keys}
    (found,) = nearest_by_mechanism(items).values()
    assert found["sensitive"].tolist() == [2, 1, 0]
    assert found["kept"].tolist() == [2, 1, 1]
    mechanism = prompt_snippets.pieces_mechanism(name)
    contexts = Model().logits([], np.array([0, 0, 1]), None) if name == "Cape" else None
    reach = neighbour_reach(Model.vocabulary, (1, 4, 8))
    for epsilon in (1, 2.5, 4):
        whole = nearest_success(mechanism, [5, 1, 2], epsilon, reach, contexts)
        for k, column in zip((1, 4, 8), whole.T, strict=True):
            wanted = [column[:2].sum(), column[2], 0]
            np.testing.assert_allclose(found[f"{epsilon:g}, {k}"], wanted, rtol=1e-12)
        # The one nearest word is the output.
        stays = np.exp(mechanism.log_channel([5, 1, 2], epsilon, contexts))[np.arange(3), [5, 1, 2]]
        np.testing.assert_allclose(found[f"{epsilon:g}, 1"], [stays[:2].sum(), stays[2], 0], rtol=1e-12)


@pytest.mark.parametrize("name", prompt_snippets.MECHANISMS)
def test_among_all_words_the_original_always_is(name):
    found = nearest(f"{name}, 2.5, 0", RNG, sentences=3, ks=[60], parts=1)
    np.testing.assert_allclose(found["2.5, 60"], [2, 1, 0], atol=2e-6)
    assert neighbour_reach(Model.vocabulary, (1,)).max() == 0


@pytest.mark.parametrize(("name", "times"), [("CUSTEXT", 1), ("SANTEXT", 0)])
def test_a_token_outside_the_vocabulary_is_counted_once(name, times, monkeypatch):
    monkeypatch.setattr(
        prompt_exposure, "snippets", lambda side, number: Snippets(["zebra", "w5"][:number], [True, False])
    )
    items = {
        f"{name}, 3, {i}": nearest(f"{name}, 3, {i}", RNG, sentences=2, ks=[2], parts=4) for i in range(4)
    }
    found = nearest_by_mechanism(items)[name]["3, 2"]
    assert found[0] == times
    assert 0 < found[1] < 1


def test_bayes_knows_more_than_chance():
    found = bayes("randomised response, 3", RNG, prior_size=3, places=2, sentences=3)
    stay = np.exp(3) / (np.exp(3) + 59)
    # Named itself: the token that came out, if it is one of the three; else the most frequent.
    other = 1 / (np.exp(3) + 59)
    assert found["success"] == pytest.approx([stay + 57 * other / 2])
    assert found["chance"] == 0.5
    cape = bayes("Cape, 3", np.random.default_rng(3), prior_size=3, places=2, sentences=3)
    assert len(cape["success"]) == 2
    assert all(0.5 <= value <= 1 for value in cape["success"])


def test_kept_words_against_the_whole_text(monkeypatch):
    many = Snippets(["the w1", "w2 ."] * 20, [True, False] * 20)
    monkeypatch.setattr(prompt_exposure, "snippets", lambda side: many)
    items = {
        f"sentiment, {what}": kept_words(f"sentiment, {what}", RNG) for what in ("text", "stop words", "none")
    }
    found = kept_by_label(items)
    assert found == {"sentiment": {"texts": 40, "chance": 0.5, "text": 40, "stop words": 40, "none": 20}}
