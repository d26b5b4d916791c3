"""Oracles: the capital by a plain loop, values of a separate computation, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dprepro.stats.betting import betting_interval
from dprepro.stats.bounds import hoeffding_radius
from dprepro.stats.gdp import epsilon_to_mu
from dprepro.stats.tradeoff import epsilon_gdp


def rejected(values, m, alpha, sign):
    """Section 4.4 of Waudby-Smith and Ramdas (2024), one value after the other."""
    n, capital = len(values), 1.0
    total, squares = 0.5, 0.25
    for seen, x in enumerate(values):
        bet = math.sqrt(2 * math.log(2 / alpha) / (n * squares / (seen + 1)))
        bet = min(bet, 0.75 / m if sign > 0 else 0.75 / (1 - m))
        capital *= 1 + sign * bet * (x - m)
        if capital >= 2 / alpha:
            return True
        total += x
        squares += (x - total / (seen + 2)) ** 2
    return False


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60), alpha=st.floats(0.01, 0.5))
def test_ends_separate_rejected_from_kept(values, alpha):
    low, high = betting_interval(values, alpha)
    mean = np.mean(values)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1
    if low > 1e-6:
        assert rejected(values, low * (1 - 1e-9), alpha, +1)
    if high < 1 - 1e-6:
        assert rejected(values, high + (1 - high) * 1e-9, alpha, -1)
    for inner, sign in ((low + 1e-7, +1), (high - 1e-7, -1)):
        # Beyond the sample mean the search does not go: an interval without its own mean helps nobody.
        if 0 < inner < 1 and (inner < mean if sign > 0 else inner > mean):
            assert not rejected(values, inner, alpha, sign)


# 2,000 constant values: the success rates of the best attack on a Gaussian release, in closed form. The first
# column takes a two-sided interval at .025 for each rate; the second only the end it needs, one-sided at .025.
@pytest.mark.parametrize(("epsilon", "two_sided", "one_sided"), [(8, 7.904, 7.919), (16, 15.726, 15.768)])
def test_constant_values_give_nearly_the_whole_epsilon(epsilon, two_sided, one_sided):
    mu = epsilon_to_mu(epsilon, 1e-5)
    tpr, fpr = np.full(2000, special.ndtr(mu / 2)), np.full(2000, special.ndtr(-mu / 2))
    for alpha, expected in ((0.025, two_sided), (0.05, one_sided)):
        bound = epsilon_gdp(betting_interval(tpr, alpha)[0], betting_interval(fpr, alpha)[1], 1e-5)
        assert bound == pytest.approx(expected, abs=6e-4)


def test_constant_values_beat_hoeffding_by_far():
    low, high = betting_interval(np.full(2000, 0.6), 0.05)
    assert high - low < 0.15 * 2 * hoeffding_radius(2000, 0.05)
    assert betting_interval(np.zeros(2000), 0.05)[0] == 0
    assert betting_interval(np.ones(2000), 0.05)[1] == 1
    assert betting_interval([0.3], 0.05) == (0, 1)  # one value rejects nothing


def test_mirror_image():
    values = np.random.default_rng(13).beta(2, 5, 300)
    low, high = betting_interval(values, 0.05)
    mirrored = betting_interval(1 - values, 0.05)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng, shape: (rng.random(shape) < 0.02) * 1.0, 0.02),
        (lambda rng, shape: rng.beta(0.5, 0.5, shape), 0.5),
        (lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.8, 0.3), 0.75),  # one vote in ten differs
    ],
    ids=["rare", "arcsine", "votes"],
)
def test_coverage_on_each_side(draw, mean):
    repeats, alpha = 600, 0.1
    ends = np.array(
        [betting_interval(values, alpha) for values in draw(np.random.default_rng(14), (repeats, 150))]
    )
    limit = stats.binom.ppf(0.999, repeats, alpha / 2)
    assert np.count_nonzero(ends[:, 0] > mean) <= limit
    assert np.count_nonzero(ends[:, 1] < mean) <= limit


@pytest.mark.parametrize(
    ("values", "alpha", "message"),
    [
        ([], 0.05, "values must be a one-dimensional array of at least 1 values"),
        ([[0.5]], 0.05, "values must be a one-dimensional array"),
        ([0.5, 1.5], 0.05, r"values must be in \[0, 1\], got 1.5"),
        ([0.5, np.nan], 0.05, "values must be free of NaN"),
        ([0.5], 1, r"alpha must be in \(0, 1\), got 1"),
    ],
)
def test_bad_input(values, alpha, message):
    with pytest.raises(ValueError, match=message):
        betting_interval(values, alpha)
