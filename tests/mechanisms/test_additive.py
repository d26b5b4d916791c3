"""Noisy counts: probabilities against mpmath, printed scenarios and simulation; the true epsilon."""

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, kstest, laplace, norm

from dprepro.mechanisms.additive import GaussianCount, LaplaceCount
from dprepro.mechanisms.events import Exactly, Interval, OneOf

X, NEIGHBOUR = np.zeros(10), np.eye(10)[0]
INTERVALS = [(-np.inf, 0.0), (0.0, 0.5), (-3.0, 2.0), (12.0, 13.0), (1.0, np.inf), (30.0, np.inf)]


def laplace_cdf(z):
    return mpmath.exp(z) / 2 if z < 0 else 1 - mpmath.exp(-z) / 2


@pytest.mark.parametrize(("low", "high"), INTERVALS)
@pytest.mark.parametrize("count", [0, 1])
def test_probabilities_against_many_digits(low, high, count):
    x = NEIGHBOUR * count
    for mechanism, cdf, width in (
        (LaplaceCount(0.5), laplace_cdf, 0.5),
        (GaussianCount(1.5), mpmath.ncdf, 1.5),
    ):
        with mpmath.workdps(250):  # enough for the difference of two numbers near 1
            upper, lower = (cdf((mpmath.mpf(end) - count) / width) for end in (high, low))
            exact = float(upper - lower)
        assert mechanism.probability(x, Interval(low, high)) == pytest.approx(exact, rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("mechanism", "high", "expected"),
    [
        # ReTiDP, scenarios (a) and (b): before and after, recomputed by hand
        (LaplaceCount(1.0), 0, (0.5, np.exp(-1) / 2)),
        (LaplaceCount(0.5), 0, (0.5, np.exp(-2) / 2)),
        (LaplaceCount(1.0), -1, (np.exp(-1) / 2, np.exp(-2) / 2)),
        (GaussianCount(2**0.5), -1, (norm.cdf(-(0.5**0.5)), norm.cdf(-(2**0.5)))),
    ],
)
def test_scenarios(mechanism, high, expected):
    event = Interval(high=high)
    assert [mechanism.probability(x, event) for x in (X, NEIGHBOUR)] == pytest.approx(expected, rel=1e-14)


def test_scenarios_to_the_digits_of_a_table():
    values = [
        (LaplaceCount(1.0), 0, [0.5, 0.18394]),
        (LaplaceCount(0.5), 0, [0.5, 0.06767]),
        (LaplaceCount(1.0), -1, [0.18394, 0.06767]),
        (GaussianCount(2**0.5), -1, [0.23975, 0.07865]),
    ]
    for mechanism, high, printed in values:
        for x, value in zip((X, NEIGHBOUR), printed, strict=True):
            assert abs(mechanism.probability(x, Interval(high=high)) - value) <= 5.01e-6


@pytest.mark.parametrize("mechanism", [LaplaceCount(0.7), GaussianCount(0.7)])
def test_simulation_has_the_declared_law(mechanism):
    x, n = [1.0, 0.0, 0.5], 40_000
    outputs = mechanism(x, n, np.random.default_rng(2))
    law = laplace if isinstance(mechanism, LaplaceCount) else norm
    assert outputs.shape == (n,)
    assert outputs.dtype == np.float64
    assert kstest(outputs, law(1.5, 0.7).cdf).pvalue > 1e-3
    for event in (Interval(high=0.8), Interval(1.4, 1.6), Interval(low=3.0)):
        probability, hits = mechanism.probability(x, event), event(outputs).sum()
        assert binom.ppf(1e-6, n, probability) <= hits <= binom.ppf(1 - 1e-6, n, probability)


def log_ratio(mechanism, event):
    return np.log(mechanism.probability(X, event) / mechanism.probability(NEIGHBOUR, event))


def test_true_epsilon_is_reached_and_never_exceeded():
    mechanism = LaplaceCount(0.4)
    ratios = [log_ratio(mechanism, Interval(low, low + 0.1)) for low in np.arange(-3, 4, 0.1)]
    assert np.max(np.abs(ratios)) == pytest.approx(mechanism.true_epsilon, rel=1e-12)
    assert mechanism.true_epsilon == 2.5


def test_the_gaussian_ratio_grows_without_end():
    assert GaussianCount(10.0).true_epsilon == np.inf
    for tail in (-5, -10, -30):
        assert log_ratio(GaussianCount(1.0), Interval(high=tail)) > -tail


def test_same_seed_same_outputs():
    for mechanism in (LaplaceCount(1.0), GaussianCount(1.0)):
        first, second = (mechanism(X, 100, np.random.default_rng(1)) for _ in range(2))
        assert np.array_equal(first, second)


@pytest.mark.parametrize("mechanism", [LaplaceCount, GaussianCount])
@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, np.inf])
def test_bad_width(mechanism, width):
    with pytest.raises(ValueError, match=r"(scale|sigma) must be in \(0, inf\), got"):
        mechanism(width)


@pytest.mark.parametrize("mechanism", [LaplaceCount(1.0), GaussianCount(1.0)])
@pytest.mark.parametrize(
    ("x", "n", "message"),
    [
        ([], 1, "x must be a one-dimensional array of at least 1"),
        ([[0.0]], 1, "x must be a one-dimensional array"),
        ([np.nan], 1, "x must be free of NaN"),
        ([2.0], 1, r"x must be in \[0, 1\], got 2"),
        ([0.0], 0, "n must be a whole number of at least 1, got 0"),
        ([0.0], 1.5, "n must be a whole number"),
    ],
)
def test_bad_runs(mechanism, x, n, message):
    with pytest.raises(ValueError, match=message):
        mechanism(x, n, np.random.default_rng(0))


@pytest.mark.parametrize("mechanism", [LaplaceCount(1.0), GaussianCount(1.0)])
@pytest.mark.parametrize("event", [OneOf([1]), Exactly([1]), None])
def test_events_that_do_not_apply(mechanism, event):
    with pytest.raises(
        ValueError, match=r"event must be an Interval for (Laplace|Gaussian)Count\(\w+=1.0\), got"
    ):
        mechanism.probability(X, event)
