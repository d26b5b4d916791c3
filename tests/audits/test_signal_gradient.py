"""Ranked signal search on a small embedder: exact slopes, best words by brute force, exact budgets."""

from itertools import product

import numpy as np
import pytest

from dprepro.audits.signal_gradient import SHAKEN, WordCache, _Search, ranked_search
from dprepro.audits.signal_search import Meter

WORDS = tuple(f"w{letter}" for letter in "abcdefghijklmnop")


class Curved:
    """Unit vector of a bent sum of word vectors, each turned by its place; differentiable, and its slopes exact."""

    cost = 3

    def __init__(self, seed=0, dimension=6, words=WORDS, bend=0.4):
        rng = np.random.default_rng(seed)
        self.words, self.bend, self.calls, self.guesses = words, bend, [], 0
        self.table = dict(zip(words, rng.normal(size=(len(words), dimension)), strict=True))
        self.turns = [np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(8)]

    def encode(self, texts):
        self.calls.append(list(texts))
        rows = [self._bent(self._sum([self.table[word] for word in text.split()])) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows])

    def _sum(self, vectors):
        return np.sum([turn @ vector for turn, vector in zip(self.turns, vectors, strict=False)], axis=0)

    def _bent(self, total):
        return total + self.bend * np.tanh(total)

    def slopes(self, sentence, place, anchor):
        self.guesses += 1
        table = np.array([self.table[word] for word in self.words])
        vectors = [self.table[word] for word in sentence]
        vectors[place] = table.mean(axis=0)
        total = self._sum(vectors)
        bent = self._bent(total)
        length = np.linalg.norm(bent)
        outer = (anchor - (bent @ anchor) * bent / length**2) / length
        inner = outer * (1 + self.bend / np.cosh(total) ** 2)
        return table @ (self.turns[place].T @ inner)

    def distance(self, one, other):
        first, second = self.encode([one, other])
        return np.linalg.norm(first - second)

    @property
    def used(self):
        return sum(len(call) for call in self.calls) + self.cost * self.guesses


def search(ranker, budget, seed=0, **options):
    return ranked_search(ranker, budget, np.random.default_rng(seed), **({"progress": False} | options))


def test_slopes_of_the_small_embedder_are_its_gradient():
    ranker = Curved()
    anchor = ranker.encode(["wp wo"])[0]
    neutral, step = np.mean(list(ranker.table.values()), axis=0), 1e-5
    for place, sentence in product((0, 1), (["wa", "wb"],)):
        expected = []
        for word in WORDS:
            ends = []
            for sign in (1, -1):
                vectors = [ranker.table[one] for one in sentence]
                vectors[place] = neutral + sign * step * (ranker.table[word] - neutral)
                bent = ranker._bent(ranker._sum(vectors))
                ends.append(bent @ anchor / np.linalg.norm(bent))
            expected.append((ends[0] - ends[1]) / (2 * step))
        slopes = ranker.slopes(sentence, place, anchor)
        np.testing.assert_allclose(slopes - slopes.mean(), expected, atol=1e-8)


@pytest.mark.parametrize("budget", [6, 7, 50, 51, 123])
def test_budget_is_spent_to_the_last_embedding_and_guesses_count(budget):
    ranker = Curved()
    found = search(ranker, budget, length=3, first=4)
    assert found.embeddings == ranker.used
    assert (
        budget - ranker.cost - 2 <= ranker.used <= budget
    )  # a pair, a guess and a word, or none of the three
    assert ranker.guesses > 0


def test_a_small_budget_is_the_beginning_of_a_large_one():
    short, long = (search(Curved(), budget, length=4) for budget in (180, 500))
    assert long.trajectory[: len(short.trajectory) - 1] == short.trajectory[:-1]


def test_trajectory_rises_and_ends_at_the_pair_it_returns():
    ranker = Curved(dimension=20)
    found = search(ranker, 500, length=4)
    used, distances = np.array(found.trajectory).T
    assert np.all(np.diff(used) > 0)
    assert np.all(np.diff(distances) >= 0)
    assert distances[-1] == found.distance
    assert found.distance == pytest.approx(ranker.distance(found.first, found.second), abs=1e-12)
    assert not found.interrupted


def test_the_best_ranked_words_are_embedded_and_the_best_of_them_is_kept():
    ranker = Curved(seed=2)
    search(ranker, 2 + ranker.cost + 5, length=3, first=5)  # one place of the second sentence
    (first, second), asked = ranker.calls
    anchor = Curved(seed=2).encode([first])[0]
    head, *rest = second.split()
    ranked = np.argsort(ranker.slopes(second.split(), 0, anchor))
    best = [WORDS[row] for row in ranked if WORDS[row] != head][:5]
    assert asked == [" ".join([word, *rest]) for word in best]


def test_until_no_single_word_improves_the_pair():
    words = WORDS[:6]
    ranker = Curved(seed=3, words=words)
    found = search(ranker, 3_000, length=3)
    for side, other in ((found.first, found.second), (found.second, found.first)):
        kept = side.split()
        for place, word in product(range(3), words):
            changed = " ".join([*kept[:place], word, *kept[place + 1 :]])
            assert ranker.distance(changed, other) <= found.distance + 1e-12


def test_a_new_climb_starts_from_the_best_pair_with_some_words_drawn_anew():
    ranker, rng = Curved(dimension=20), np.random.default_rng(1)
    with Meter(ranker, 2_000, False) as meter:
        climbs = _Search(ranker, meter, 2_000)
        assert climbs.start(rng.integers(len(WORDS), size=(2, 6)))
        climbs.sweep(8)
        best = climbs.pair.copy()
        seen = np.zeros((2, 6), dtype=bool)
        for _ in range(20):
            shaken = climbs.best_shaken(rng)
            assert ((shaken != best).sum(axis=1) <= SHAKEN).all()  # of the best, not of the one before
            seen |= shaken != best
            climbs.start(shaken)
        assert seen.all()


def test_no_text_is_embedded_twice_for_one_place():
    ranker = Curved()
    search(ranker, 900, length=2)
    asked = [tuple(sorted(call)) for call in ranker.calls[1:]]
    assert len(set(asked)) == len(asked)
    assert all(len(set(call)) == len(call) for call in asked)


class Blind(Curved):
    """Ranks at random, for as much."""

    def slopes(self, sentence, place, anchor):
        super().slopes(sentence, place, anchor)
        return np.random.default_rng(self.guesses).random(len(self.words))


def test_ranking_beats_chance_at_the_same_budget():
    words = tuple(f"w{number}" for number in range(300))

    def mean(kind):
        return np.mean([search(kind(seed, 24, words), 300, seed, first=4).distance for seed in range(12)])

    assert mean(Curved) > mean(Blind) + 0.03


def test_word_cache_ranks_by_the_words_alone_and_its_guesses_are_free():
    encoder = Curved(bend=0.0)
    cache = WordCache(encoder, WORDS)
    assert [len(call) for call in encoder.calls] == [len(WORDS)]
    anchor = encoder.encode(["wa wb"])[0]
    expected = [encoder.encode([word])[0] @ anchor for word in WORDS]
    np.testing.assert_allclose(cache.slopes(["wa", "wb"], 0, anchor), expected, atol=1e-12)
    before = encoder.used
    found = search(cache, 100, length=3)
    assert found.embeddings == encoder.used - before == 100


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.full((16, 6), np.nan), "embeddings of words must be finite"),
        (np.zeros(6), r"embeddings of 16 words must have shape \(16, d\), got \(6,\)"),
        (np.zeros((15, 6)), r"embeddings of 16 words must have shape \(16, d\), got \(15, 6\)"),
    ],
)
def test_word_caches_that_are_none(found, message):
    encoder = Curved()
    encoder.encode = lambda texts: found
    with pytest.raises(ValueError, match=message):
        WordCache(encoder, WORDS)


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        (np.full(6, np.nan), "anchor must be finite"),
        (np.zeros(5), r"anchor must have shape \(6,\), got \(5,\)"),
        (np.zeros((1, 6)), r"anchor must have shape \(6,\), got \(1, 6\)"),
    ],
)
def test_anchors_that_are_none(anchor, message):
    with pytest.raises(ValueError, match=message):
        WordCache(Curved(), WORDS).slopes(["wa"], 0, anchor)


def test_one_text_is_no_list_of_words():
    with pytest.raises(ValueError, match="words must be a list of words, got 'wa wb'"):
        WordCache(Curved(), "wa wb")


class Interrupted(Curved):
    after = 7

    def encode(self, texts):
        if len(self.calls) == self.after:
            raise KeyboardInterrupt
        return super().encode(texts)


def test_interrupt_keeps_the_best_pair():
    found = search(Interrupted(), 900)
    assert found.interrupted
    assert found.distance == pytest.approx(Curved().distance(found.first, found.second), abs=1e-12)
    assert found.embeddings <= 900
    assert found.distance >= found.trajectory[0][1]


def test_interrupt_before_anything_was_found():
    ranker = Interrupted()
    ranker.after = 0
    with pytest.raises(KeyboardInterrupt):
        search(ranker, 900)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 5}, "budget must be a whole number of at least 6, got 5"),
        ({"length": 1}, "length must be a whole number of at least 2, got 1"),
        ({"first": 0}, "first must be a whole number of at least 1, got 0"),
        ({"growth": 0.9}, r"growth must be in \[1, inf\), got 0.9"),
    ],
)
def test_bad_arguments_cost_no_embedding(options, message):
    ranker = Curved()
    with pytest.raises(ValueError, match=message):
        search(ranker, **({"budget": 300} | options))
    assert ranker.used == 0


@pytest.mark.parametrize("words", [(), ("wa",), ("wa", "wa", "wb")])
def test_words_must_be_two_and_each_once(words):
    ranker = Curved()
    ranker.words = words
    with pytest.raises(ValueError, match="words must hold at least 2 words, each once"):
        search(ranker, 300)


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        (np.zeros(3), r"slopes must have shape \(16,\), got \(3,\)"),
        (np.full(16, np.nan), "slopes must be finite"),
    ],
)
def test_rankers_that_are_none(slopes, message):
    ranker = Curved()
    ranker.slopes = lambda *_: slopes
    with pytest.raises(ValueError, match=message):
        search(ranker, 300)


def test_embedders_that_are_none():
    ranker = Curved()
    ranker.encode = lambda texts: np.ones((len(texts), 4))
    with pytest.raises(ValueError, match="embeddings must be of Euclidean length 1, got 2"):
        search(ranker, 300)
