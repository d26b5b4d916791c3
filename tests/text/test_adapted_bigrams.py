"""Adapted bigrams: against the two formulas on counts by hand, at their limits, and on bad shards."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from dprepro.text.adapted_bigrams import AdaptedBigrams

V = 7


def shards(seed=0, experts=3, rows=20):
    rng = np.random.default_rng(seed)
    return [[[0, *rng.integers(0, V - 1, 8).tolist()] for _ in range(rows)] for _ in range(experts)]


def test_against_the_formulas():
    texts, a, b = shards(), 11.0, 3.0
    p0 = np.random.default_rng(1).dirichlet(np.ones(V))
    experts = AdaptedBigrams(texts, V, a, b)
    for before in range(V):
        found = experts.distributions(before, p0)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-14)
        for rows, law in zip(texts, found, strict=True):
            words = Counter(word for row in rows for word in row[1:])
            pairs = Counter(pair for row in rows for pair in pairwise(row))
            seen = sum(count for (h, _), count in pairs.items() if h == before)
            for w in range(V):
                unigram = (words[w] + a * p0[w]) / (sum(words.values()) + a)
                assert law[w] == pytest.approx((pairs[before, w] + b * unigram) / (seen + b), rel=1e-12)


def test_limits():
    texts, p0 = shards(), np.full(V, 1 / V)
    np.testing.assert_allclose(AdaptedBigrams(texts, V, 1e12, 1e12).distributions(2, p0), [p0] * 3, rtol=1e-6)
    words = np.bincount(np.concatenate([row[1:] for row in texts[0]]), minlength=V)
    close = AdaptedBigrams(texts, V, 1e-9, 1e12).distributions(2, p0)[0]
    np.testing.assert_allclose(close, words / words.sum(), atol=1e-6)
    # a word that no row has comes from p0 alone, after every token
    assert np.all(AdaptedBigrams(texts, V).distributions(2, p0)[:, V - 1] > 0)


def test_short_rows_count_for_nothing():
    texts = shards()
    p0 = np.full(V, 1 / V)
    more = [[*rows, [3], []] for rows in texts]
    np.testing.assert_array_equal(
        AdaptedBigrams(more, V).distributions(1, p0), AdaptedBigrams(texts, V).distributions(1, p0)
    )
    assert len(AdaptedBigrams(texts, V)) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shards": []}, "shards must hold at least one shard"),
        ({"shards": [[[0, 1, 2]]]}, "at least 100 tokens each, got 2 in shard 0"),
        ({"shards": [*shards(), []]}, "got 0 in shard 3"),
        ({"vocabulary": 4}, "tokens from 0 to 3, got [45] in shard 0"),
        ({"shards": [[[0, -1] * 200]]}, "got -1 in shard 0"),
        ({"unigram_weight": 0}, "unigram_weight must be in"),
        ({"bigram_weight": -1}, "bigram_weight must be in"),
        ({"fewest": 0}, "fewest must be"),
    ],
)
def test_bad_ensembles(change, message):
    with pytest.raises(ValueError, match=message):
        AdaptedBigrams(**{"shards": shards(), "vocabulary": V, **change})


def test_bad_questions():
    experts = AdaptedBigrams(shards(), V)
    with pytest.raises(ValueError, match=r"public must have the experts' 7 tokens, got shape \(6,\)"):
        experts.distributions(1, np.full(6, 1 / 6))
    with pytest.raises(ValueError, match="before must be a token from 0 to 6, got 7"):
        experts.distributions(7, np.full(V, 1 / V))
    with pytest.raises(ValueError, match="before must be a whole number"):
        experts.distributions(-1, np.full(V, 1 / V))
