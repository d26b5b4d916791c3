"""The exact law of a score: against loops over all counts, simulation, and its expansion in 1/sqrt(n)."""

from math import comb, exp, inf, isnan, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from dprepro.stats.score_law import score_law, score_moments


def looped(rates, n, epsilon, delta):
    """Moments by a plain double loop over every pair of counts."""
    (a, b), ratio = rates, exp(epsilon)
    terms = []
    for x in range(n + 1):
        for y in range(n + 1):
            u, v = x / n, y / n
            chance = comb(n, x) * a**x * (1 - a) ** (n - x) * comb(n, y) * b**y * (1 - b) ** (n - y)
            sigma = sqrt((u * (1 - u) + ratio**2 * v * (1 - v)) / n)
            terms.append((chance, (u - ratio * v - delta) / max(sigma, 1 / n)))
    mean = sum(p * z for p, z in terms)
    central = [sum(p * (z - mean) ** k for p, z in terms) for k in (2, 3)]
    return mean, sqrt(central[0]), central[1] / central[0] ** 1.5


@pytest.mark.parametrize(
    ("rates", "n", "epsilon", "delta"),
    [
        ((0.4, 0.2), 25, 1.0, 0.0),
        ((0.03, 0.01), 60, 1.0, 0.001),
        ((0.9, 0.05), 30, 2.0, 0.1),
        ((1.0, 0.3), 20, 0.5, 0),
    ],
)
def test_moments_equal_those_of_a_double_loop(rates, n, epsilon, delta):
    assert score_moments(rates, n, epsilon, delta) == pytest.approx(
        looped(rates, n, epsilon, delta), rel=1e-10
    )


@pytest.mark.parametrize(
    ("rates", "n"), [((0.18, 0.07), 750), ((0.003, 0.001), 5000), ((1e-5, 4e-6), 10**6), ((0.5, 0.5), 10**4)]
)
def test_what_is_left_out_is_below_a_trillionth(rates, n):
    score, chance = score_law(rates, n, 1.0)
    assert score.shape == chance.shape
    assert abs(chance.sum() - 1) < 1e-12


def test_law_against_a_simulation():
    rates, n, runs, rng = (0.0263, 0.0263 / exp(1)), 750, 200_000, np.random.default_rng(1)
    x, y = rng.binomial(n, rates[0], runs) / n, rng.binomial(n, rates[1], runs) / n
    drawn = (x - exp(1) * y) / np.maximum(np.sqrt((x * (1 - x) + exp(2) * y * (1 - y)) / n), 1 / n)
    score, chance = score_law(rates, n, 1.0)
    for cut in (-1.5, 0, 1.5, 3):
        exact = chance[score >= cut].sum()
        assert abs(np.mean(drawn >= cut) - exact) < norm.isf(1e-5) * sqrt(exact * (1 - exact) / runs)
    moments = score_moments(rates, n, 1.0)
    assert abs(drawn.mean() - moments.mean) < norm.isf(1e-5) * moments.sd / sqrt(runs)


def test_the_mean_at_the_boundary_is_positive_and_of_order_one_over_sqrt_n():
    b, ratio = 0.0097, exp(1)
    a, n = ratio * b, 40_000
    variance = a * (1 - a) + ratio**2 * b * (1 - b)
    covariance = a * (1 - a) * (1 - 2 * a) - ratio**3 * b * (1 - b) * (1 - 2 * b)
    leading = -covariance / (2 * variance**1.5 * sqrt(n))
    found = score_moments((a, b), n, 1.0)
    assert found.mean == pytest.approx(leading, rel=0.02)
    assert found.mean == pytest.approx((ratio - 1) / (2 * sqrt(n * a * (1 + ratio))), rel=0.05)
    assert found.mean / score_moments((a, b), 4 * n, 1.0).mean == pytest.approx(2, rel=0.01)


def test_no_variance_has_no_skewness():
    found = score_moments((0.0, 0.0), 10, 1.0)
    assert found[:2] == (0, 0)
    assert isnan(found.skewness)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": (1.1, 0.1)}, "rates must be in"),
        ({"rates": (0.1, float("nan"))}, "rates must be in"),
        ({"n": 0}, "n must be a whole number"),
        ({"n": 2.5}, "n must be a whole number"),
        ({"epsilon": -1}, "epsilon must be in"),
        ({"epsilon": inf}, "epsilon must be in"),
        ({"delta": 1.0}, "delta must be in"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        score_law(**{"rates": (0.2, 0.1), "n": 10, "epsilon": 1.0, **change})
