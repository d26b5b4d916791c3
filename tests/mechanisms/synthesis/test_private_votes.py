import dp_accounting
import numpy as np
import pytest
from scipy import stats

from dprepro.mechanisms.synthesis.private_votes import (
    SENSITIVITIES,
    epsilon_of,
    noise_for,
    select,
    vote_counts,
)

# Noise that the public code of AUG-PE states for ten rounds (README, "Calculating the Noise Level"), and the epsilon
# that its notebook dp_budget.ipynb prints for it, at delta = 1/(N ln N). Yelp's 15.34 is above its epsilon of 1.
PUBLISHED = [
    (1_939_290, 1, 15.34, 1.004455),
    (1_939_290, 2, 8.03, 2.002377),
    (1_939_290, 4, 4.24, 4.005258),
    (8_396, 1, 11.60, 0.999986),
    (8_396, 2, 6.22, 1.996654),
    (8_396, 4, 3.38, 3.992231),
    (75_316, 1, 13.26, 0.999232),
    (75_316, 2, 7.01, 1.997191),
    (75_316, 4, 3.75, 3.999169),
]


@pytest.mark.parametrize(("records", "claimed", "noise", "printed"), PUBLISHED)
def test_published_budgets(records, claimed, noise, printed):
    delta = 1 / (records * np.log(records))
    assert epsilon_of(noise, delta, 10) == pytest.approx(printed, abs=1e-6)
    # The noise for the claim is that of the README to its two digits; Yelp's at 1 stays .07 below what it needs.
    short = 0.07 if (records, claimed) == (1_939_290, 1) else 0.011
    assert noise - 0.011 < noise_for(claimed, delta, 10) < noise + short


@pytest.mark.parametrize("rounds", [1, 10, 37])
def test_rounds_compose_as_gaussian_mechanisms(rounds):
    """R rounds against the privacy loss distribution of R Gaussian mechanisms, of another package."""
    noise, delta = 6.0, 1e-5
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), rounds)
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3).compose(event)
    assert epsilon_of(noise, delta, rounds) == pytest.approx(accountant.get_epsilon(delta), abs=2e-3)
    exact = dp_accounting.get_epsilon_gaussian(noise / np.sqrt(rounds), delta)
    assert epsilon_of(noise, delta, rounds) == pytest.approx(exact, rel=1e-9)


def test_noise_and_epsilon_are_inverse_and_end_well():
    budgets = np.array([0.01, 0.5, 1, 4, 50])
    np.testing.assert_allclose(epsilon_of(noise_for(budgets, 1e-4, 7), 1e-4, 7), budgets, rtol=1e-9)
    assert noise_for(np.inf, 1e-5, 10) == 0
    assert epsilon_of(0, 1e-5, 10) == np.inf
    np.testing.assert_allclose(noise_for(1, 1e-5, 10, np.sqrt(2)), np.sqrt(2) * noise_for(1, 1e-5, 10))


def test_votes_by_brute_force():
    rng = np.random.default_rng(0)
    private, candidates = rng.normal(size=(500, 5)), rng.normal(size=(40, 5))
    expected = np.zeros(40)
    for vector in private:
        expected[np.argmin([np.linalg.norm(vector - other) for other in candidates])] += 1
    counts = vote_counts(private, candidates)
    np.testing.assert_array_equal(counts, expected)
    assert counts.sum() == 500


def test_votes_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    private, candidates = rng.normal(size=(50, 3)), rng.normal(size=(7, 3))
    whole = vote_counts(private, candidates)
    monkeypatch.setattr("dprepro.mechanisms.synthesis.private_votes._BLOCK", 8)
    np.testing.assert_array_equal(vote_counts(private, candidates), whole)


def test_votes_of_nobody_and_ties():
    np.testing.assert_array_equal(vote_counts(np.empty((0, 2)), [[0, 0], [1, 1]]), [0, 0])
    # Equal up to the rounding of an embedder: the first of them, whichever is nearer in the last bits.
    candidates = [[1.0, 1e-8], [1.0, 0.0], [0.0, 1.0]]
    np.testing.assert_array_equal(vote_counts([[1.0, 0.0], [0.0, 1.0]], candidates), [1, 0, 1])


@pytest.mark.parametrize("adjacency", SENSITIVITIES)
def test_sensitivity_over_all_neighbours(adjacency):
    """Every text removed in turn, or replaced by every other one: how far the counts of both classes move."""
    rng = np.random.default_rng(2)
    texts = rng.normal(size=(30, 2))
    labels = rng.integers(2, size=30)
    candidates = [rng.normal(size=(9, 2)), rng.normal(size=(9, 2))]

    def counts(keep, also=(), label=0):
        parts = []
        for kind in (0, 1):
            own = texts[keep & (labels == kind)]
            parts.append(vote_counts(np.array([*own, *(also if kind == label else [])]), candidates[kind]))
        return np.concatenate(parts)

    everybody = np.ones(30, dtype=bool)
    whole, moves = counts(everybody), []
    for i in range(30):
        others = everybody & (np.arange(30) != i)
        if adjacency == "add or remove":
            moves.append(np.linalg.norm(whole - counts(others)))
        else:
            moves += [
                np.linalg.norm(whole - counts(others, rng.normal(scale=3, size=(1, 2)), kind))
                for kind in (0, 1)
                for _ in range(10)
            ]
    assert max(moves) == pytest.approx(SENSITIVITIES[adjacency])  # reached, and never exceeded


def test_noise_on_counts_is_gaussian_of_the_stated_size():
    """Choices between two candidates, one vote apart: the chance that noise turns them round is known."""
    noise, runs = 1.5, 4000
    rng = np.random.default_rng(3)
    wrong = sum(select([3, 4], 1, noise, -np.inf, rng)[0][0] == 0 for _ in range(runs))
    chance = stats.norm.cdf(-1 / (np.sqrt(2) * noise))
    low, high = stats.binom.interval(0.999, runs, chance)
    assert low <= wrong <= high
    # And that a candidate without a vote passes the threshold.
    passed = sum(select([0], 1, noise, 2.0, rng)[1] for _ in range(runs))
    low, high = stats.binom.interval(0.999, runs, stats.norm.sf(2 / noise))
    assert low <= passed <= high


def test_selection_without_noise_is_the_order_of_votes():
    rng = np.random.default_rng(4)
    chosen, passed = select([5, 0, 9, 2, 0], 3, 0.0, 0.0, rng)
    assert chosen.tolist() == [2, 0, 3]
    assert passed == 3
    # At the threshold is not above it; then others fill up, each of them with the same chance.
    found = [select([5, 2, 9, 2, 2], 3, 0.0, 2.0, rng) for _ in range(900)]
    assert all(chosen[:2].tolist() == [2, 0] and passed == 2 for chosen, passed in found)
    third = np.bincount([chosen[2] for chosen, _ in found], minlength=5)[[1, 3, 4]]
    assert stats.chisquare(third).pvalue > 1e-3
    # Ties above the threshold are in random order too.
    first = np.bincount([select([1, 1, 1], 1, 0.0, 0.0, rng)[0][0] for _ in range(900)], minlength=3)
    assert stats.chisquare(first).pvalue > 1e-3


@pytest.mark.parametrize(
    ("private", "candidates", "named"),
    [
        ([[1.0, 2.0]], np.empty((0, 2)), "m at least 1"),
        ([[1.0, 2.0]], [[1.0]], "private and candidates must have shapes"),
        ([[np.nan, 2.0]], [[1.0, 1.0]], "private must be finite"),
    ],
)
def test_bad_vectors_are_named(private, candidates, named):
    with pytest.raises(ValueError, match=named):
        vote_counts(private, candidates)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0.0, 0.1, 1), "epsilon must be"),
        ((1.0, 0.0, 1), "delta must be"),
        ((1.0, 0.1, 0), "rounds must be"),
        ((1.0, 0.1, 1, 0.0), "sensitivity must be"),
        ((1.0, 0.1, 1, [1.0, np.nan]), "sensitivity must be"),
    ],
)
def test_bad_budgets_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        noise_for(*arguments)


def test_a_budget_may_be_a_list_in_every_argument():
    found = noise_for([1, 2], [1e-5, 1e-6], [10, 5], [1.0, 2.0])
    alone = [noise_for(1, 1e-5, 10), noise_for(2, 1e-6, 5, 2.0)]
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_allclose(epsilon_of(list(found), [1e-5, 1e-6], [10, 5], [1.0, 2.0]), [1, 2], rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kept": 0}, "kept must be a whole number of at least 1, got 0"),
        ({"kept": -1}, "kept must be a whole number of at least 1, got -1"),
        ({"kept": 4}, "kept must be at most the number of counts, got 4 of 3"),
        ({"kept": 1.5}, "kept must be a whole number"),
        ({"noise": -1.0}, r"noise must be in \[0, inf\), got -1"),
        ({"noise": np.nan}, "noise must be in .*, got nan"),
        ({"noise": np.inf}, "noise must be in .*, got inf"),
        ({"threshold": np.nan}, "threshold must be in .*, got nan"),
        ({"counts": []}, r"counts must have shape \(m,\), m at least 1, got \(0,\)"),
        ({"counts": 3}, r"counts must have shape \(m,\), m at least 1, got \(\)"),
        ({"counts": [[1, 2]]}, "counts must have shape"),
        ({"counts": [1, np.nan, 2]}, "counts must be finite"),
    ],
)
def test_bad_elections_are_named(changes, named):
    wanted = {"counts": [1, 2, 3], "kept": 2, "noise": 1.0, "threshold": 0.0, **changes}
    with pytest.raises(ValueError, match=named):
        select(**wanted, rng=np.random.default_rng(0))
