"""Votes for words, and propose-test-release against enumeration, simulation and the privacy of its parts."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, gumbel_r, kstest, norm

from dprepro.mechanisms.in_context.keywords import StableKeywords, keyword_votes
from dprepro.stats.gdp import gdp_delta, mu_to_epsilon

UNIVERSE = ["train", "late", "snow", "the", "!", "Oslo"]
COUNTS_IN = np.array([9.0, 9.0, 4.0, 1.0, 0.0, 0.0])
COUNTS_OUT = np.array([9.0, 8.0, 4.0, 0.0, 1.0, 0.0])


def test_each_answer_votes_once_for_a_word():
    answers = ["The train, the TRAIN was late!", "Snow; train.", "", "late late late"]
    np.testing.assert_array_equal(keyword_votes(answers, UNIVERSE), [2, 2, 1, 0, 0, 0])


def test_stop_words_and_punctuation_are_arguments():
    answers = ["The train!", "the snow in Oslo"]
    np.testing.assert_array_equal(
        keyword_votes(answers, UNIVERSE, stop_words=(), drop_punctuation=False), [1, 0, 1, 2, 1, 1]
    )
    np.testing.assert_array_equal(keyword_votes(answers, UNIVERSE, stop_words={"train"}), [0, 0, 1, 2, 0, 1])
    assert keyword_votes(["No"], ["no"])[0] == 0


@pytest.mark.parametrize(
    ("answers", "universe", "message"),
    [
        ([], ["a"], "answers must be at least 1 text"),
        ("one text", ["a"], "answers must be at least 1 text"),
        ([1], ["a"], "answers must be texts, got 1"),
        (["a"], ["snow", "Snow"], "universe must hold distinct words, got 2 of which 1 are"),
    ],
)
def test_bad_answers(answers, universe, message):
    with pytest.raises(ValueError, match=message):
        keyword_votes(answers, universe)


def mechanism(**arguments):
    return StableKeywords(
        **({"choice_epsilon": 2.0, "sigma": 0.5, "failure": 0.01, "delta": 0.05, "largest": 3} | arguments)
    )


@pytest.mark.parametrize(("adjacency", "largest"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_sensitivity_of_the_gaps_by_enumeration(adjacency, largest):
    answers = np.array(list(product([0, 1], repeat=4)))
    tested, worst, unstable = StableKeywords(1.0, 1.0, largest=3), 0.0, 0.0
    for first, rest, other in product(answers, answers, answers):
        before = first + 2 * rest
        after = before + other if adjacency == "add-remove" else before - first + other
        gaps = tested.gaps([before, after])
        worst = max(worst, np.abs(gaps[0] - gaps[1]).max())
        for k in range(1, 4):
            tops = [set(np.argsort(-row, kind="stable")[:k]) for row in (before, after)]
            if tops[0] != tops[1]:
                unstable = max(unstable, gaps[0, k - 1], gaps[1, k - 1])
    assert worst == largest
    assert unstable <= largest  # so a gap above 2 means that the words are the same


def test_claim_adds_up():
    for adjacency, moves in (("replace-one", 2.0), ("add-remove", 1.0)):
        tested = mechanism(adjacency=adjacency)
        assert tested.epsilon == pytest.approx(moves * 2.0 + mu_to_epsilon(moves / 1.0, 0.04), rel=1e-12)
    # Step 1 alone, by the definition of the exponential mechanism: the choice moves by at most exp(Delta epsilon).
    rng = np.random.default_rng(0)
    for _ in range(200):
        gaps = rng.integers(0, 5, size=6)
        logs = [2.0 / 2 * x for x in (gaps, gaps + rng.integers(-1, 2, size=6))]
        ratio = np.subtract(*(row - np.log(np.exp(row).sum()) for row in logs))
        assert np.abs(ratio).max() <= 2.0


def test_test_of_an_unstable_gap_passes_with_the_failure_probability():
    tested = mechanism(largest=1)
    flat = np.zeros((1, 4))
    # All words tie, the first is released where the test passes: a black box that waits for it sees delta_0.
    rate = tested.success(flat, np.array([1.0, 0, 0, 0]), flat[0], "black", 0.5)[0, 0]
    assert rate == pytest.approx(0.01, rel=1e-12)
    assert norm.sf(tested.margin / (2 * 0.5)) == pytest.approx(0.01, rel=1e-12)


def test_release_by_its_three_steps():
    tested, n = mechanism(), 40_000
    released = tested.release(np.tile(COUNTS_IN, (n, 1)), np.random.default_rng(1))
    assert released.shape == (n, 5)
    gaps = np.array([0.0, 5.0, 3.0])
    np.testing.assert_array_equal(tested.gaps([COUNTS_IN])[0], gaps)
    noisy = gaps + gumbel_r(scale=1.0).rvs((200_000, 3), random_state=2)
    share = np.bincount(np.argmax(noisy, axis=1), minlength=3) / 200_000
    found = np.bincount(released[:, 0].astype(int) - 1, minlength=3) / n
    np.testing.assert_allclose(found, share, atol=4 * (0.25 / n + 0.25 / 200_000) ** 0.5)
    for k in (1, 2, 3):
        rows = released[released[:, 0] == k]
        centre = max(2.0, gaps[k - 1]) - norm.isf(0.01, scale=1.0)
        if len(rows) > 100:
            assert kstest(rows[:, 1], norm(centre, 1.0).cdf).pvalue > 1e-3
        passed = rows[:, 1] > 2
        np.testing.assert_array_equal(
            rows[passed, 2:], np.tile([0, 1, 2][:k] + [-1] * (3 - k), (passed.sum(), 1))
        )
        assert np.all(rows[~passed, 2:] == -1)


@pytest.mark.parametrize("view", ["white", "black"])
@pytest.mark.parametrize("third", [np.array([0.0, 0, 4, 9, 9, 1]), np.array([9.0, 9.0, 3.0, 3.0, 0.0, 0.0])])
def test_success_against_simulation(view, third):
    tested, n = mechanism(), 40_000
    counts_out = np.array([9.0, 3.0, 0.0, 4.0, 0.0, 0.0])  # other words at k = 2
    for row in (COUNTS_IN, counts_out, third):
        released = tested.release(np.tile(row, (n, 1)), np.random.default_rng(3))
        score = tested.score(released, COUNTS_IN, counts_out, view)
        for threshold in (-200.0, -100.0, -3.0, 0.0, 0.5, 1.0, 2.0, 100.0, 101.0):
            exact = tested.success(row[None, :], COUNTS_IN, counts_out, view, threshold)[0, 0]
            hits = np.sum(score >= threshold)
            assert binom.ppf(5e-5, n, exact) <= hits <= binom.ppf(1 - 5e-5, n, exact)


def test_equal_gaps_give_level_scores():
    tested = mechanism(largest=2)
    counts = np.array([5.0, 4.0, 0.0, 0.0])
    rates = tested.success([counts], counts, counts, "white", [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(rates, [[1, 1, 0]], atol=1e-12)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_claim_holds_on_a_worst_case(adjacency):
    # delta(epsilon) from the exact rates of the likelihood ratio: max over thresholds of TPR - e^epsilon FPR.
    tested = StableKeywords(1.0, 1.0, failure=0.01, delta=0.05, largest=3, adjacency=adjacency)
    pairs = [
        ([3.0, 2, 0, 0, 0], [2.0, 2, 1, 0, 0]),
        ([9.0, 5, 5, 0, 0], [9.0, 6, 4, 0, 0]),
        ([4.0, 2, 2, 0, 0], [4.0, 1, 2, 1, 0]),
    ]
    if adjacency == "add-remove":
        pairs = [([3.0, 2, 1, 0, 0], [2.0, 2, 0, 0, 0]), ([9.0, 6, 5, 0, 0], [9.0, 5, 5, 0, 0])]
    thresholds = np.linspace(-100, 100, 4001)
    for pair in pairs:
        for counts_in, counts_out in (pair, pair[::-1]):
            sides = np.array([counts_in, counts_out])
            tpr, fpr = tested.success(sides, *sides, "white", thresholds)
            assert np.max(tpr - np.exp(tested.epsilon) * fpr) <= tested.delta
    moves = 2.0 if adjacency == "replace-one" else 1.0
    assert gdp_delta(tested.epsilon - moves, moves / 2) == pytest.approx(0.04)


def test_400_000_rows():
    released = mechanism().release(np.tile(COUNTS_IN, (400_000, 1)), np.random.default_rng(4))
    assert len(released) == 400_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"choice_epsilon": 0.0}, r"choice_epsilon must be in \(0, inf\), got 0"),
        ({"sigma": 0.0}, r"sigma must be in \(0, inf\), got 0"),
        ({"failure": 0.05}, r"failure must be in \(0, 0.05\), got 0.05"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got 1"),
        ({"largest": 0}, "largest must be a whole number of at least 1, got 0"),
        ({"adjacency": "swap"}, "adjacency must be one of 'replace-one', 'add-remove'"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        mechanism(**arguments)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, 2.0, 3.0]], r"counts must have shape \(n, V\) with V >= 4 words, got \(1, 3\)"),
        ([[1.0, 2.0, 3.0, 0.5]], "counts must be whole numbers of at least 0, got 0.5"),
        ([[1.0, 2.0, 3.0, -1.0]], "counts must be whole numbers of at least 0, got -1"),
        ([[1.0, 2.0, 3.0, np.nan]], "counts must be finite, got 1 of 4"),
        (np.zeros((1, 2, 4)), r"counts must have shape \(n, V\)"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(ValueError, match=message):
        mechanism().release(counts, np.random.default_rng(0))


def test_unknown_view():
    with pytest.raises(ValueError, match="view must be one of 'white', 'black', got 'grey'"):
        mechanism().score(np.zeros((1, 5)), COUNTS_IN, COUNTS_OUT, "grey")
