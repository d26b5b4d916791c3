"""The best of many thresholds: against attacks simulated score by score, and against exact chances."""

import numpy as np
import pytest
from scipy import stats

from dprepro.stats.gdp import epsilon_to_mu
from dprepro.stats.picked_threshold import least_epsilons, picked_bound
from dprepro.stats.tradeoff import epsilon_kairouz, roc
from dprepro.stats.two_sample import largest_tpr

RANGE = (0.1, 0.2)


def scores_on_the_edge(epsilon, delta, n, rng):
    """Scores whose ROC curve is the edge of the region: "out" uniform, "in" by the inverse of the edge on a grid."""
    grid = np.linspace(0, 1, 2_001)
    inside = np.interp(rng.random(n), largest_tpr(grid, epsilon, delta), grid)
    return -inside, -rng.random(n)


def picked(scores, delta):
    _, tpr, fpr = roc(*scores)
    allowed = (fpr >= RANGE[0] - 1e-9) & (fpr <= RANGE[1] + 1e-9)
    return epsilon_kairouz(tpr, fpr, delta)[allowed].max(initial=0.0)


@pytest.mark.parametrize(("epsilon", "estimate", "n"), [(0.5, 0.9, 40), (1.0, 1.2, 30)])
def test_the_chance_is_that_of_attacks_simulated_score_by_score(epsilon, estimate, n):
    rng = np.random.default_rng(1)
    seen = sum(picked(scores_on_the_edge(epsilon, 0.0, n, rng), 0.0) >= estimate - 1e-9 for _ in range(800))
    drawn = int((least_epsilons(estimate, n, n, RANGE, 4_000, rng) <= epsilon).sum())
    # Two estimates of one chance: Fisher's exact test, seeded, at a level that 1 seed in 1,000 misses.
    assert stats.fisher_exact([[seen, 800 - seen], [drawn, 4_000 - drawn]]).pvalue > 1e-3


def test_no_mechanism_of_the_region_does_better_than_its_edge():
    """A Gaussian release with the same epsilon at the same delta has a lower maximum."""
    rng, n, delta, estimate = np.random.default_rng(2), 50, 0.02, 1.0
    mu = float(epsilon_to_mu(0.5, delta))
    seen = sum(picked((rng.normal(mu, 1, n), rng.normal(0, 1, n)), delta) >= estimate for _ in range(800))
    edge = np.mean(least_epsilons(estimate, n, n, RANGE, 4_000, rng, delta=delta) <= 0.5)
    assert seen / 800 < edge + 3 * np.sqrt(edge / 800)


def test_one_threshold_has_an_exact_chance():
    """m = 1, rate 0: the best in has rank below the only out. n draws against one: integral of 1 - (1 - G(u))^n."""
    n, epsilon = 3, 0.8
    u = np.linspace(0, 1, 100_001)
    # With delta = .3 an estimate of 0 at rate 0 needs TPR >= .3, one of three.
    shown = largest_tpr(u, epsilon, 0.3)
    exact = np.trapezoid(1 - (1 - shown) ** n, u)
    least = least_epsilons(0.0, n, 1, (0.0, 0.0), 40_000, np.random.default_rng(4), delta=0.3)
    assert np.mean(least <= epsilon) == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 40_000))


def test_the_bound_keeps_its_level_where_an_attack_reaches_epsilon():
    """On the edge itself 95 % bounds exceed epsilon in 5 % of attacks; 300 attacks, limit of 1 seed in 1,000."""
    rng, n, epsilon = np.random.default_rng(5), 40, 0.5
    above = 0
    for _ in range(300):
        estimate = float(picked(scores_on_the_edge(epsilon, 0.0, n, rng), 0.0))
        above += picked_bound(least_epsilons(estimate, n, n, RANGE, 399, rng), 0.05) > epsilon
    assert above <= stats.binom.isf(1e-3, 300, 0.05)
    assert above >= 1  # it is not so cautious that it says nothing


def test_same_seed_same_draws_and_more_targets_a_larger_bound():
    bounds = [
        picked_bound(least_epsilons(np.log(3.8), n, n, RANGE, 999, np.random.default_rng(0)), 0.05)
        for n in (50, 50, 200, 800)
    ]
    assert bounds[0] == bounds[1] < bounds[2] < bounds[3] < np.log(3.8)


def test_bad_input():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="fpr_range must hold a multiple"):
        least_epsilons(1.0, 10, 4, (0.1, 0.2), 10, rng)
    with pytest.raises(ValueError, match="fpr_range must be in"):
        least_epsilons(1.0, 10, 10, (0.1, 1.2), 10, rng)
    with pytest.raises(ValueError, match="estimate must be"):
        least_epsilons(-1.0, 10, 10, RANGE, 10, rng)
    with pytest.raises(ValueError, match="runs must be"):
        least_epsilons(1.0, 10, 10, RANGE, 0, rng)
    for ends in ((0.2, 0.1), 0.1, (0.1, 0.15, 0.2)):
        with pytest.raises(ValueError, match="fpr_range must be two ends"):
            least_epsilons(1.0, 10, 10, ends, 10, rng)
    for least in (1.0, "a", None, [], np.full(40, np.nan)):
        with pytest.raises(ValueError, match="least must be"):
            picked_bound(least, 0.05)
    with pytest.raises(ValueError, match="at least 19 entries"):
        picked_bound(np.ones(18), 0.05)
    assert picked_bound(np.arange(19.0), 0.05) == 0.0
