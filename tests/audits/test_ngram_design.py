"""Which subset holds which target: balance, independence within a subset, disjoint roles."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.ngram_design import (
    half_and_half,
    inserted_canaries,
    membership_design,
    split_texts,
)

RNG = np.random.default_rng


def test_exact_includes_each_target_in_exactly_half_of_the_subsets():
    included = half_and_half(40, 90, RNG(1))
    assert included.shape == (40, 90)
    assert (included.sum(axis=0) == 20).all()
    assert len({column.tobytes() for column in included.T}) == 90, "one draw for all targets"


@pytest.mark.parametrize("kind", ["exact", "independent"])
def test_the_coins_of_one_subset_are_fair_and_independent(kind):
    rng = RNG(2)
    first = np.array([half_and_half(4, 6, rng, kind)[0] for _ in range(4000)])
    # All 64 patterns of the first subset's six coins are equally likely.
    counts = np.bincount(first @ (1 << np.arange(6)), minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_coins_of_a_target_over_subsets_differ_between_the_two_kinds():
    assert {int(column.sum()) for column in half_and_half(10, 200, RNG(3), "independent").T} > {4, 5, 6}


def test_bad_designs_are_refused():
    with pytest.raises(ValueError, match=r"subsets must be even for an exact half and half, got 5"):
        half_and_half(5, 3, RNG())
    with pytest.raises(ValueError, match=r"kind must be one of 'exact', 'independent'"):
        half_and_half(4, 3, RNG(), "half")
    with pytest.raises(ValueError, match=r"targets must be a whole number of at least 1, got 0"):
        half_and_half(4, 0, RNG())


def test_split_gives_each_text_one_role():
    split = split_texts(1000, [7, 3, 900, 41], 3, RNG(4))
    assert split.outliers.tolist() == [7, 3, 900]
    assert len(split.members) == 3
    parts = np.concatenate([split.outliers, split.members, split.private, split.auxiliary])
    assert sorted(parts) == sorted(set(range(1000)) - {41}), "an outlier that is no target is in no pool"
    assert len(split.private) == 331
    assert len(split.auxiliary) == 662


def test_split_refuses_what_cannot_be_split():
    with pytest.raises(ValueError, match=r"outliers must be at least each=3, got 2"):
        split_texts(100, [1, 2], 3, RNG())
    with pytest.raises(ValueError, match=r"different numbers below 100"):
        split_texts(100, [1, 1, 2], 3, RNG())
    with pytest.raises(ValueError, match=r"different numbers below 100"):
        split_texts(100, [1, 100, 2], 3, RNG())
    with pytest.raises(ValueError, match=r"texts must leave 3 members and a text or more a pool, got 5"):
        split_texts(8, [0, 1, 2], 3, RNG())


def test_references_hold_each_target_twice_and_share_no_text():
    design = membership_design(range(100, 200), range(300, 700), 12, 6, 50, RNG(5))
    assert (design.references_included.sum(axis=0) == 2).all()
    coins = membership_design(range(100, 200), range(300, 700), 12, 6, 50, RNG(5), "independent")
    assert (coins.references_included.sum(axis=0) == 2).all()
    assert (coins.included.sum(axis=0) != 3).any(), "only the subsets have coins of their own"
    assert len(design.references) == 4
    assert len(np.unique(design.references)) == 200
    assert design.references.min() >= 300
    assert design.private.shape == (6, 50)
    assert design.private.max() < 200
    assert all(len(np.unique(row)) == 50 for row in design.private)
    texts, targets = [f"text {i}" for i in range(700)], [f"target {i}" for i in range(12)]
    held = design.subset(2, texts, targets)
    assert held == [texts[i] for i in design.private[2]] + [
        t for t, inside in zip(targets, design.included[2], strict=True) if inside
    ]
    assert {t for r in range(4) for t in design.reference(r, texts, targets) if "target" in t} == set(targets)
    with pytest.raises(ValueError, match=r"targets must be 12 texts, got 3"):
        design.subset(0, texts, targets[:3])


def test_pools_that_are_too_small_are_refused():
    with pytest.raises(ValueError, match=r"auxiliary must hold at least 200 different texts, got 199"):
        membership_design(range(100), range(199), 4, 4, 50, RNG())
    with pytest.raises(ValueError, match=r"private must hold at least 50 different texts, got 49"):
        membership_design(range(49), range(400), 4, 4, 50, RNG())
    with pytest.raises(ValueError, match=r"private must hold at least 2 different texts, got 3"):
        membership_design([1, 1, 2], range(400), 4, 4, 2, RNG())


def test_canaries_begin_like_a_text_and_end_like_none():
    texts = ["one two three four five", "six seven eight", "nine", ""]
    canaries, sources = inserted_canaries(texts, 2, RNG(6))
    assert sorted(sources) == [0, 1]
    for canary, source in zip(canaries, sources, strict=True):
        words, own = canary.split(), texts[source].split()
        assert len(words) == len(own)
        assert words[: len(own) // 2] == own[: len(own) // 2]
        assert set(words) <= {word for text in texts for word in text.split()}
    with pytest.raises(ValueError, match=r"texts must hold 3 of two words or more that fit, got 2"):
        inserted_canaries(texts, 3, RNG())


def test_a_canary_that_does_not_fit_gets_another_ending():
    texts = [f"begin{i} with {'x' * i} end" for i in range(1, 40)]
    canaries, sources = inserted_canaries(texts, 10, RNG(7), lambda canary: len(canary) <= 30)
    assert max(map(len, canaries)) <= 30
    assert all(c.split()[:2] == texts[s].split()[:2] for c, s in zip(canaries, sources, strict=True))
    assert len({len(texts[s]) for s in sources}) > 5, "long sources are not passed over"
    with pytest.raises(ValueError, match=r"that fit, got 0"):
        inserted_canaries(texts, 1, RNG(8), lambda canary: False)
