"""Demonstrations: draws, retrieval, partitions; the place of the canary; bad input."""

import numpy as np
import pytest

from dprepro.mechanisms.in_context.demonstrations import (
    Demonstration,
    RandomDraw,
    Retrieval,
    check_canary,
    nonsense,
    partitioned,
)
from dprepro.text.corpora import corpus

POOL = [Demonstration(f"text number {i}", "ab"[i % 2]) for i in range(30)]
CANARY = Demonstration("brado kelimo", "maroon")


def rng(seed=0):
    return np.random.default_rng(seed)


def test_white_space_becomes_one_space():
    assert Demonstration(" a\n b ", "c\td") == Demonstration("a b", "c d")
    with pytest.raises(ValueError, match="text of a demonstration must hold a word"):
        Demonstration(" \n")


@pytest.mark.parametrize("seed", range(20))
def test_sides_of_a_run_differ_in_one_partition(seed):
    draw = RandomDraw(POOL, 7)
    streams = [rng(seed), rng(seed)]
    out, into = (draw.draw(canary, stream) for canary, stream in zip((None, CANARY), streams, strict=True))
    assert len(set(out)) == 7
    assert set(out) <= set(POOL)
    assert into.count(CANARY) == 1
    parts_out, parts_in = (partitioned(s, 3, stream) for s, stream in zip((out, into), streams, strict=True))
    assert sorted(map(len, parts_out)) == [2, 2, 3]
    assert sorted(item.text for part in parts_out for item in part) == sorted(item.text for item in out)
    changed = [(a, b) for a, b in zip(parts_out, parts_in, strict=True) if a != b]
    ((a, b),) = changed
    assert sum(x != y for x, y in zip(a, b, strict=True)) == 1
    assert CANARY in b


def test_every_place_gets_the_canary():
    """At random: each of 6 places of the 3 partitions equally often, chi-square with 5 degrees of freedom."""
    counts = np.zeros(6)
    for seed in range(3000):
        dealt = partitioned([CANARY, *POOL[:5]], 3, rng(seed))
        counts[[item for part in dealt for item in part].index(CANARY)] += 1
    assert ((counts - 500) ** 2 / 500).sum() < 20.5  # .999


def test_relevance_by_hand():
    search = Retrieval(POOL, 3, "Who met the cat?")
    assert search.relevance(Demonstration("The cat met a dog, the dog ran.")) == pytest.approx(
        3 / (4 * 6) ** 0.5  # the, cat, met of {who, met, the, cat} and {the, cat, met, a, dog, ran}
    )
    assert search.relevance(Demonstration("...")) == 0


def test_retrieval_keeps_the_places_of_the_others():
    """The canary is the best hit, and yet all other passages stay where they were."""
    passages = [Demonstration(f"alpha {'beta ' * (i % 3)}w{i}") for i in range(12)]
    search = Retrieval(passages, 6, "alpha beta gamma delta")
    canary = Demonstration("alpha beta gamma delta")
    out, into = search.draw(None, rng()), search.draw(canary, rng())
    assert into == [*out[:-1], canary]
    ranked = sorted(passages, key=lambda p: (-search.relevance(p), p.text))
    assert out == ranked[:6]
    # What a cut of the ranking itself would do: the canary comes first and every other passage moves.
    cut = [canary, *ranked][:6]
    assert all(a != b for a, b in zip(cut, out, strict=True))


def test_a_canary_that_is_not_retrieved_changes_nothing():
    search = Retrieval([Demonstration(f"alpha w{i}") for i in range(9)], 4, "alpha")
    assert search.draw(Demonstration("nothing in common"), rng()) == search.draw(None, rng())


def test_nonsense_is_no_word_of_a_corpus():
    canary = nonsense(50, rng(3), "maroon")
    words = canary.text.split()
    assert len(set(words)) == 50
    assert not set(words) & {word for text in corpus("movies").texts for word in text.lower().split()}
    assert nonsense(50, rng(3), "maroon") == canary != nonsense(50, rng(4), "maroon")


def test_bad_input():
    with pytest.raises(ValueError, match="demonstrations must be at least one a partition, got 2 for 3"):
        partitioned(POOL[:2], 3, rng())
    with pytest.raises(ValueError, match="partitions must be a whole number of at least 1, got 0"):
        partitioned(POOL, 0, rng())
    with pytest.raises(ValueError, match="pool must hold the 31 demonstrations of a run, got 30"):
        RandomDraw(POOL, 31)
    with pytest.raises(ValueError, match="pool must hold each text once"):
        Retrieval([*POOL, Demonstration("Text number 3".lower())], 3, "text")
    with pytest.raises(ValueError, match="query must hold a word"):
        Retrieval(POOL, 3, "?!")
    with pytest.raises(
        ValueError, match="canary must not occur among the demonstrations, got 'TEXT.* place 4"
    ):
        check_canary(Demonstration("TEXT  number 4"), POOL)
    check_canary(CANARY, POOL)
    with pytest.raises(ValueError, match="words must be a whole number"):
        nonsense(0, rng())
