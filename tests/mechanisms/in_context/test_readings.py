"""Readings: answers to clean statistics, by hand, and answers that say no label."""

import numpy as np
import pytest
from scipy.special import log_softmax

from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.readings import (
    KeywordCounts,
    LabelUtilities,
    MeanEmbedding,
    Votes,
    first_lines,
)


class Scripted:
    def __init__(self, texts=(), table=()):
        self.texts, self.table = list(texts), np.array(table)

    def generate(self, prompts):
        return self.texts[: len(prompts)]

    def label_logprobs(self, prompts, labels):
        return self.table[: len(prompts)]


class Letters:
    """Unit vectors by the first letter."""

    def encode(self, texts):
        return np.eye(27)[[ord(text[0]) - 96 if text else 0 for text in texts]]


def test_votes():
    reading = Votes([" positive", " negative", " very negative"])
    said = [
        " Positive.\nmore: text",
        "negative",
        " **negative**",
        " negatively",
        " very negative!",
        "",
        " who knows",
    ]
    answers = reading.ask(Scripted(said), ["p"] * 7)
    assert [reading.label(answer) for answer in answers] == [0, 1, 1, None, 2, None, None]
    np.testing.assert_array_equal(reading.statistic(answers), [1, 2, 1])
    assert reading.off_label(answers) == 3


def test_the_longest_label_wins():
    assert Votes(["new", "new york"]).label(" New York\n") == 1
    assert Votes(["new", "new york"]).label(" New day\n") == 0


def test_label_utilities():
    probabilities = np.array([[0.6, 0.3], [0.01, 0.02], [0.25, 0.25]])
    mechanism = ProductOfExperts(1.0, 3, clip=2.0)
    reading = LabelUtilities([" a", " b"], mechanism)
    answers = reading.ask(Scripted(table=np.log(probabilities)), ["p"] * 3)
    expected = np.maximum(log_softmax(np.log(probabilities), axis=1), -2).sum(axis=0)
    np.testing.assert_allclose(reading.statistic(answers), expected)
    assert reading.off_label(answers) == 1
    vocabulary = LabelUtilities([" a", " b"], ProductOfExperts(1.0, 3, normalisation="vocabulary"))
    np.testing.assert_allclose(
        vocabulary.statistic(np.log(probabilities)), np.maximum(np.log(probabilities), -2).sum(axis=0)
    )


def test_rounding_above_a_probability_of_one():
    """A server may say 1e-7 for the log-probability of a certain label."""
    reading = LabelUtilities([" a", " b"], ProductOfExperts(1.0, 1))
    np.testing.assert_allclose(reading.statistic(np.array([[1e-7, -50.0]])), [0, -2])


def test_mean_embedding():
    reading = MeanEmbedding(Letters())
    answers = reading.ask(Scripted([" alpha beta\nnext: one", "beta", "\n"]), ["p"] * 3)
    assert answers == ["alpha beta", "beta", ""]
    expected = np.zeros(27)
    expected[[0, 1, 2]] = 1 / 3
    np.testing.assert_allclose(reading.statistic(answers), expected)
    assert reading.off_label(answers) == 1


def test_keyword_counts():
    reading = KeywordCounts(["mill", "fire", "river"])
    answers = reading.ask(Scripted([" The mill, the mill!\nfire", "Fire at the mill.", "nothing"]), ["p"] * 3)
    np.testing.assert_array_equal(reading.statistic(answers), [2, 1, 0])
    assert reading.off_label(answers) == 1


def test_first_lines():
    assert first_lines([" a b \nc", "\n\nd", ""]) == ["a b", "d", ""]


@pytest.mark.parametrize("labels", [["only one"], ["a", "a"], "ab", ["a", ""]])
def test_bad_labels(labels):
    with pytest.raises(ValueError, match="labels must be"):
        Votes(labels)
