"""F1 against scikit-learn, the guessers against small cases by hand, all outcomes counted, and simulation."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import f1_score

from dprepro.stats.f1 import constant_guesser, f1, random_guesser


def test_f1_against_scikit_learn():
    rng = np.random.default_rng(1)
    for _ in range(50):
        true, predicted = rng.choice(["a", "b", "c", "d"], (2, int(rng.integers(1, 30)))).tolist()
        found = f1(true, predicted)
        for average, value in found._asdict().items():
            assert value == pytest.approx(f1_score(true, predicted, average=average, zero_division=0))


def test_f1_by_hand_with_a_class_that_is_never_said():
    found = f1(["a", "a", "b"], ["a", "c", "a"])
    assert found.micro == pytest.approx(1 / 3)
    assert found.macro == pytest.approx((2 / 4 + 0 + 0) / 3)  # a: one hit of two texts and two answers


def test_a_constant_guesser_by_hand():
    found = constant_guesser(["a"] * 3 + ["b"], "a")
    assert found == (0.75, pytest.approx((2 * 0.75 / 1.75) / 2))
    with pytest.raises(ValueError, match="answer must be one of"):
        constant_guesser(["a", "b"], "c")


def test_the_random_guesser_against_all_answers_that_there_are():
    true = ["a", "a", "b", "c", "c"]
    # As classes count those that occur in the truth: a class never answered has F1 0, as scikit-learn has it.
    every = [
        f1_score(true, answers, average="macro", labels=["a", "b", "c"], zero_division=0)
        for answers in itertools.product("abc", repeat=5)
    ]
    assert random_guesser(true) == (pytest.approx(1 / 3), pytest.approx(np.mean(every)))


@pytest.mark.parametrize("bad", [[], "ab", [None, "a"], [1.0, 2.0]])
def test_what_is_no_sequence_of_labels_is_refused(bad):
    with pytest.raises(ValueError, match="true must be a sequence of at least one label"):
        f1(bad, ["a", "b"])
    with pytest.raises(ValueError, match="predicted must be a sequence of at least one label"):
        f1(["a", "b"], bad)
    with pytest.raises(ValueError, match="true must be a sequence of at least one label"):
        random_guesser(bad)
    with pytest.raises(ValueError, match="true must be a sequence of at least one label"):
        constant_guesser(bad, "a")


def test_labels_of_another_number_are_refused():
    with pytest.raises(ValueError, match="one label for each of the 2 in true, got 1"):
        f1(["a", "b"], ["a"])
