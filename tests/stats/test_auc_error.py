"""Mann and Whitney's law against scipy, Hanley and McNeil's error against simulation."""

import numpy as np
import pytest
from scipy import stats

from dprepro.stats import auc_error
from dprepro.stats.auc_error import distinguishable_from, half_p_value, hanley_mcneil_error
from dprepro.stats.tradeoff import auc


@pytest.mark.parametrize(("n", "m"), [(5, 7), (12, 4), (1, 3)])
def test_exact_p_values_are_scipys(n, m):
    rng = np.random.default_rng(0)
    for _ in range(6):
        inside, outside = rng.normal(0.5, 1, n), rng.normal(0, 1, m)
        expected = stats.mannwhitneyu(inside, outside, method="exact").pvalue
        assert half_p_value(auc(inside, outside), n, m) == pytest.approx(expected, abs=1e-12)


def test_the_normal_law_goes_on_where_the_exact_one_ends():
    for area in (0.42, 0.55, 0.6):
        exact, normal = half_p_value(area, 100, 100), half_p_value(area, 101, 100)
        assert normal == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(("n", "m", "ratio"), [(100, 100, 1.07), (20, 501, 1.26), (5, 2001, 2.78)])
def test_the_normal_law_errs_on_the_large_side_in_the_tail(n, m, ratio):
    """As the docstring has it, against the exact law, which a caller gets for 10,000 pairs and fewer only."""
    law = auc_error._mann_whitney(n, m)
    tail = 2 * np.cumsum(law)
    count = int(np.argmin(np.abs(tail - 0.001)))
    normal = 2 * stats.norm.cdf((count / (n * m) - 0.5) / np.sqrt((n + m + 1) / (12 * n * m)))
    assert normal / tail[count] == pytest.approx(ratio, abs=0.01)
    if n * m > 10_000:
        assert half_p_value(count / (n * m), n, m) == pytest.approx(normal)


@pytest.mark.parametrize(("n", "m"), [(40, 40), (25, 80)])
def test_error_of_exponential_scores_is_that_of_simulation(n, m):
    """The approximation is exact for exponential scores: P(in > out) = rate/(1 + rate)."""
    rng = np.random.default_rng(1)
    areas = [auc(rng.exponential(2.0, n), rng.exponential(1.0, m)) for _ in range(1_500)]
    assert np.mean(areas) == pytest.approx(2 / 3, abs=0.01)
    assert np.std(areas) == pytest.approx(hanley_mcneil_error(2 / 3, n, m), rel=0.07)


def test_at_one_half_it_is_mann_and_whitneys_variance():
    assert hanley_mcneil_error(0.5, 30, 70) == pytest.approx(np.sqrt(101 / (12 * 30 * 70)))


def test_an_area_below_one_half_is_its_mirror_image():
    assert hanley_mcneil_error(0.3, 20, 50) == pytest.approx(hanley_mcneil_error(0.7, 50, 20))
    assert half_p_value(0.3, 6, 7) == pytest.approx(half_p_value(0.7, 6, 7))


def test_degenerate_areas():
    assert hanley_mcneil_error([0.0, 1.0], 5, 5) == pytest.approx([0, 0])
    assert half_p_value(0.5, 9, 9) == pytest.approx(1)
    assert half_p_value(1.0, 2, 2) == pytest.approx(2 / 6)


def test_distinguishable_from():
    for area in (0.52, 0.45, 0.6):
        n = distinguishable_from(area, 0.05)
        z = abs(area - 0.5) / np.sqrt((2 * np.array([n - 1, n]) + 1) / (12 * np.array([n - 1, n]) ** 2))
        assert z[0] < 1.959964 <= z[1] + 1e-9
    assert distinguishable_from(0.5, 0.05) is None
    # A level below the spacing of floats at 1.
    n = distinguishable_from(0.6, 2e-17)
    z = 0.1 / np.sqrt((2 * np.array([n - 1, n]) + 1) / (12 * np.array([n - 1, n]) ** 2))
    assert z[0] < stats.norm.isf(1e-17) <= z[1]


@pytest.mark.parametrize(
    ("arguments", "name"), [((1.1, 5, 5), "auc"), ((0.6, 0, 5), "n_in"), ((0.6, 5, 2.5), "n_out")]
)
def test_bad_input(arguments, name):
    for function in (half_p_value, hanley_mcneil_error):
        with pytest.raises(ValueError, match=f"{name} must be"):
            function(*arguments)
    with pytest.raises(ValueError, match="alpha must be"):
        distinguishable_from(0.6, 0.0)
