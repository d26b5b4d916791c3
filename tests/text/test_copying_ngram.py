"""The n-gram of the prompt itself: probabilities by hand, copying, temperature."""

import numpy as np
import pytest

from dprepro.text.copying_ngram import CopyingNGram

PROMPT = "x y : good\nz y : bad\nv y : bad\nx y :"


def test_probabilities_by_hand():
    """After "b a": a b a c -> order 0: a 2, b 1, c 1 of 4; order 1 after a: b 1, c 1; order 2 after (b, a): c 1."""
    model = CopyingNGram(order=3, prior=0.5)
    names, probability = model.next_words(["a", "b", "a", "c", "b", "a"])
    assert names == ["", "a", "b", "c"]
    zero = (np.array([0, 3, 2, 1]) + 0.5 / 4) / 6.5
    one = (np.array([0, 0, 1, 1]) + 0.5 * zero) / 2.5
    two = (np.array([0, 0, 0, 1]) + 0.5 * one) / 1.5
    np.testing.assert_allclose(probability, two)
    assert probability.sum() == pytest.approx(1)


def test_it_copies_what_stood_behind_the_same_words():
    four, two = CopyingNGram(order=4), CopyingNGram(order=2)
    assert four.generate([PROMPT]) == [" good"]
    assert two.generate([PROMPT]) == [" bad"]  # it sees ":" alone
    assert four.generate(["x y : good\nz y : bad\nv y : bad\nw y :"]) == [" bad"]


def test_label_logprobs():
    model = CopyingNGram(order=4)
    table = np.exp(model.label_logprobs([PROMPT], [" good", " bad", " never seen"]))
    names, probability = model.next_words(PROMPT.replace("\n", " \n ").split(" "))
    np.testing.assert_allclose(table[0, :2], [probability[names.index(word)] for word in ("good", "bad")])
    assert table[0, 0] > 0.9 > table[0, 1] > table[0, 2] > 0
    first = probability[names.index("")]
    assert table[0, 2] < first  # two words that the prompt lacks


def test_temperature_gives_the_stated_shares():
    """P^(1/T), from 2,000 draws; limits of 4 standard deviations."""
    drawn = CopyingNGram(order=2, prior=0.5, max_words=1, temperature=2.0, rng=np.random.default_rng(1))
    names, probability = drawn.next_words(["x", "y", ":", "good", "\n", "y", ":", "bad", "\n", "y", ":"])
    wanted = probability**0.5 / (probability**0.5).sum()
    said = drawn.generate(["x y : good\ny : bad\ny :"] * 2000)
    for word in ("good", "bad", "x"):
        share = wanted[names.index(word)]
        assert abs(said.count(f" {word}") / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5
    cold = CopyingNGram(order=2, max_words=1)
    assert len(set(cold.generate(["x y : good\ny : bad\ny :"] * 20))) == 1


def test_bad_arguments():
    with pytest.raises(ValueError, match="rng must be a numpy.random.Generator above temperature 0"):
        CopyingNGram(temperature=0.5)
    with pytest.raises(ValueError, match="temperature must be in"):
        CopyingNGram(temperature=-1)
    with pytest.raises(ValueError, match="order must be a whole number"):
        CopyingNGram(order=0)
    with pytest.raises(ValueError, match="prompts must be texts that are not empty"):
        CopyingNGram().generate([""])
