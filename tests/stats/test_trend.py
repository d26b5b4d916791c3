"""Kendall's exact test against scipy and enumeration; the chi-bar-square mixture against simulation."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dprepro.stats.trend import fall, fall_p_value, noise_needed, trend


@pytest.mark.parametrize("values", [[1, 4, 2, 3, 5], [3, 1, 2], [5, 4, 3, 2, 1, 0], [1, 2]])
def test_one_series_without_ties_is_kendalls_exact_test(values):
    order = range(len(values))
    found = trend([values])
    for p, side in ((found.p_rising, "greater"), (found.p_falling, "less")):
        assert p == pytest.approx(stats.kendalltau(order, values, method="exact", alternative=side).pvalue)


def s_of(values):
    return sum(np.sign(b - a) for a, b in itertools.combinations(values, 2))


def test_two_series_with_ties_against_all_arrangements_of_both():
    first, second = [2.0, 1.0, 1.0, 3.0], [0.5, 0.5, 0.9]
    found = trend([first, second])
    sums = np.array(
        [s_of(a) + s_of(b) for a in itertools.permutations(first) for b in itertools.permutations(second)]
    )
    assert found.s == s_of(first) + s_of(second) == 1 + 2
    assert found.pairs == 5 + 2
    assert found.p_rising == pytest.approx(np.mean(sums >= found.s))
    assert found.p_falling == pytest.approx(np.mean(sums <= found.s))


def test_flat_series_say_nothing():
    assert trend([[1, 1, 1], [2, 2]]) == (0, 0, 1.0, 1.0)
    assert fall([2, 2, 2]) == 0
    assert fall_p_value([2, 2, 2], 1.0) == 1.0
    assert noise_needed([1, 2, 3], 0.05) == 0


def test_fall_of_a_case_worked_by_hand():
    """(3, 1) is nearest to (2, 2); a rise before and after changes nothing."""
    assert fall([3, 1]) == pytest.approx(np.sqrt(2))
    assert fall([0, 3, 1, 9]) == pytest.approx(np.sqrt(2))
    # Two values: a fall is seen in half of the cases, then chi-square with one degree of freedom.
    assert fall_p_value([3, 1], 1.0) == pytest.approx(stats.chi2.sf(2, 1) / 2)


@pytest.mark.parametrize("n", [3, 5])
def test_the_chance_under_a_flat_truth_is_that_of_simulation(n):
    rng = np.random.default_rng(0)
    p = np.array([fall_p_value(values, 2.0) for values in rng.normal(7, 2, (1_500, n))])
    for level in (0.05, 0.3):
        assert abs(np.sum(p <= level) - 1_500 * level) < 3.3 * np.sqrt(1_500 * level * (1 - level))


def test_a_rising_truth_is_accused_no_more_often():
    rng = np.random.default_rng(1)
    truth = np.array([0, 0, 1, 1, 5])
    p = np.array([fall_p_value(truth + noise, 1.0) for noise in rng.normal(0, 1, (800, 5))])
    assert np.sum(p <= 0.1) <= stats.binom.isf(1e-3, 800, 0.1)


def test_noise_needed_is_where_the_chance_is_alpha():
    values = [59.6, 56.1, 43.4, 36.9, 65.8]
    assert fall_p_value(values, noise_needed(values, 0.01)) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("values", [[1.0], list(range(9)), [[1, 2], [3, 4]], [1, np.nan]])
def test_bad_series(values):
    for call in (lambda: trend([values]), lambda: fall(values), lambda: fall_p_value(values, 1.0)):
        with pytest.raises(ValueError, match="must"):
            call()


def test_other_bad_input():
    for series in ([], None, 1.0, (values for values in ([1, 2],))):
        with pytest.raises(ValueError, match="series must be a sequence of at least one series"):
            trend(series)
    with pytest.raises(ValueError, match="sd must be"):
        fall_p_value([1, 2], 0.0)
    with pytest.raises(ValueError, match="alpha must be"):
        noise_needed([2, 1], 0.7)
