from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import chisquare

from dprepro.mechanisms.prompt.perturbation import PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = (*"abcdefgh", "the", ".")


@dataclass(frozen=True, eq=False)
class Stay(PromptMechanism):
    """Stays where it is with odds exp(epsilon) to 1; a context adds to the logits."""

    vocabulary: Vocabulary
    keep: str = "none"
    where: str = "uniform"
    notion: ClassVar[str] = "local DP"

    @property
    def outside(self):
        return self.where

    def log_channel(self, rows, epsilon, contexts=None):
        logits = np.zeros((len(rows), len(self.vocabulary)))
        inside = np.flatnonzero(np.asarray(rows) >= 0)
        logits[inside, np.asarray(rows)[inside]] = epsilon
        if contexts is not None:
            logits = logits + contexts
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def stated_loss(self, epsilon):
        return epsilon


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(WORDS, np.eye(len(WORDS)))


@pytest.mark.parametrize("contextual", [False, True])
def test_ten_thousand_tokens_follow_the_channel(vocabulary, contextual):
    rng = np.random.default_rng(5)
    mechanism, rows = Stay(vocabulary), np.tile([3, 7], 10_000)
    context = rng.normal(size=(2, len(WORDS)))
    contexts = np.tile(context, (10_000, 1)) if contextual else None
    drawn = mechanism.draw(rows, 1.5, rng, contexts)
    for start, row in enumerate((3, 7)):
        expected = np.exp(mechanism.log_channel([row], 1.5, context[[start]] if contextual else None))[0]
        counts = np.bincount(drawn[start::2], minlength=len(WORDS))
        assert chisquare(counts, expected * 10_000).pvalue > 1e-3


def test_blocks_make_no_difference(vocabulary, monkeypatch):
    rows = np.random.default_rng(0).integers(len(WORDS), size=200)
    whole = Stay(vocabulary).draw(rows, 1.0, np.random.default_rng(1))
    monkeypatch.setattr("dprepro.mechanisms.prompt.perturbation.BLOCK", 25)
    assert (Stay(vocabulary).draw(rows, 1.0, np.random.default_rng(1)) == whole).all()


def test_texts_counts_and_keep_list(vocabulary):
    mechanism = Stay(vocabulary, "both")
    found = mechanism.perturb(["The a b. zzz", "", "c the"], 40.0, np.random.default_rng(2))
    assert found.originals == ("the a b . zzz", "", "c the")
    assert found.kept == 4  # the, a, ., the
    assert found.outside == 1
    assert found.unchanged == 2  # at epsilon 40 words stay; zzz can only be replaced
    assert found.replaced == 1
    assert found.tokens[0][:4] == ("the", "a", "b", ".")
    assert found.tokens[0][4] in WORDS
    assert found.texts[1:] == ("", "c the")


@pytest.mark.parametrize(
    ("outside", "text"), [("kept", "a zzz"), ("dropped", "a"), ("uniform", "a ?"), ("input", "a ?")]
)
def test_tokens_outside_the_vocabulary(vocabulary, outside, text):
    found = Stay(vocabulary, where=outside).perturb(["a zzz"], 50.0, np.random.default_rng(3))
    drawn = found.tokens[0][1]
    assert found.texts[0] == (text if drawn not in WORDS else text.replace("?", drawn))
    assert (drawn in WORDS) == ("?" in text)
    assert found.outside == 1


def test_budget_composes(vocabulary):
    assert Stay(vocabulary).budget(2.0, 7, turns=3) == (2.0, 14.0, 42.0)
    assert Stay(vocabulary).budget(np.inf, 0).text == 0
    with pytest.raises(ValueError, match="turns must be"):
        Stay(vocabulary).budget(1.0, 3, turns=0)


def test_bad_calls(vocabulary):
    rng = np.random.default_rng(0)
    for epsilon in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be in"):
            Stay(vocabulary).perturb(["a"], epsilon, rng)
    with pytest.raises(ValueError, match="texts must be a sequence"):
        Stay(vocabulary).perturb("a", 1.0, rng)
    assert Stay(vocabulary).perturb([], 1.0, rng).texts == ()
