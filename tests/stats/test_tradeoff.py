import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dprepro.stats.gdp import gdp_delta
from dprepro.stats.tradeoff import auc, epsilon_gdp, epsilon_kairouz, epsilon_standard, roc

rates = st.floats(0, 1)
inner_rates = st.floats(1e-6, 1 - 1e-6)
scores = st.lists(st.integers(-4, 4), min_size=1, max_size=30)


# Worked by hand from Theorem 2.1 of Kairouz et al. (2015).
@pytest.mark.parametrize(
    ("tpr", "fpr", "delta", "epsilon"),
    [
        (0.8, 0.01, 1e-5, 4.382014134595756),
        (0.38, 0.1, 0, 1.33500106673234),
        (1, 0, 0, np.inf),
        (0.5, 0.5, 0, 0),
        (0.5, 0.5, 1e-5, 0),
        (0.99, 0.2, 0, np.log(80)),  # the second line is the larger one
        (0, 0, 0, 0),
        (1, 1, 0, 0),
        (0.3, 0.9, 0, 0),
        (1, 0, 1, 0),
        (1e-5, 0, 1e-5, 0),
        (1, 0.75, 0.25, 0),  # log(.75/.75) and log(0/0): on the corner of the region of epsilon = 0
    ],
)
def test_kairouz(tpr, fpr, delta, epsilon):
    assert epsilon_kairouz(tpr, fpr, delta) == pytest.approx(epsilon, rel=1e-12, abs=1e-14)


def test_standard_is_the_first_line_only():
    assert epsilon_standard(0.99, 0.2, 0) == pytest.approx(np.log(0.99 / 0.2))
    assert epsilon_standard(0.8, 0.01, 1e-5) == pytest.approx(4.382014134595756, rel=1e-12)
    assert epsilon_standard(1, 0, 1e-5) == np.inf
    assert epsilon_standard(0, 0, 0) == 0
    assert epsilon_standard(1e-6, 0.5, 1e-5) == 0
    assert epsilon_standard(0.1, 0.9, 0) == 0


def test_gdp_inverts_the_gaussian_curve():
    fpr, mu = np.array([1e-9, 0.01, 0.5, 0.98]), 1.7
    tpr = special.ndtr(special.ndtri(fpr) + mu)
    np.testing.assert_allclose(gdp_delta(epsilon_gdp(tpr, fpr, 1e-5), mu), 1e-5, rtol=1e-6)
    np.testing.assert_array_equal(
        epsilon_gdp([1, 0, 1, 0.3, 0.5, 1], [0, 0, 1, 0.9, 0, 0.4], 1e-5), [np.inf, 0, 0, 0, np.inf, np.inf]
    )


def in_region(tpr, fpr, delta, epsilon, slack=0.0):
    growth = np.exp(epsilon)
    return tpr <= growth * fpr + delta + slack and 1 - fpr <= growth * (1 - tpr) + delta + slack


@given(tpr=inner_rates, fpr=inner_rates, delta=rates)
def test_kairouz_is_the_least_epsilon_whose_region_holds_the_point(tpr, fpr, delta):
    least = epsilon_kairouz(tpr, fpr, delta)
    assert in_region(tpr, fpr, delta, least, slack=1e-12)
    assert least == 0 or not in_region(tpr, fpr, delta, least * (1 - 1e-6) - 1e-9)
    assert epsilon_standard(tpr, fpr, delta) <= least


@given(tpr=rates, fpr=rates, step=rates, delta=st.floats(1e-9, 0.5))
def test_monotone_in_both_rates(tpr, fpr, step, delta):
    for convert in (epsilon_standard, epsilon_gdp, epsilon_kairouz):
        value = convert(tpr, fpr, delta)
        assert value >= 0
        assert convert(min(1, tpr + step), fpr, delta) >= value
        assert convert(tpr, max(0, fpr - step), delta) >= value


def test_conversions_broadcast():
    tpr, fpr = np.array([[0.2], [0.9]]), np.array([0.0, 0.1, 0.5])
    for convert in (epsilon_standard, epsilon_gdp, epsilon_kairouz):
        grid = convert(tpr, fpr, 1e-5)
        assert grid.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            assert grid[i, j] == pytest.approx(convert(tpr[i, 0], fpr[j], 1e-5), rel=1e-13)
        assert isinstance(convert(0.5, 0.1, 0), float)


def test_roc_worked_by_hand():
    thresholds, tpr, fpr = roc([3, 1, 1, 0], [1, 0])
    np.testing.assert_array_equal(thresholds, [np.inf, 3, 1, 0])
    np.testing.assert_array_equal(tpr, [0, 0.25, 0.75, 1])
    np.testing.assert_array_equal(fpr, [0, 0, 0.5, 1])


def test_all_scores_equal():
    thresholds, tpr, fpr = roc([2.0] * 5, [2.0] * 3)
    np.testing.assert_array_equal(thresholds, [np.inf, 2.0])
    assert auc([2.0] * 5, [2.0] * 3) == 0.5
    for f in (0, 0.01, 0.3, 1):
        assert np.interp(f, fpr, tpr) == pytest.approx(f)


@given(inside=scores, outside=scores)
def test_auc_and_roc_against_all_pairs(inside, outside):
    pairs = [(a > b) + 0.5 * (a == b) for a, b in itertools.product(inside, outside)]
    assert auc(inside, outside) == pytest.approx(np.mean(pairs))
    assert auc(inside, outside) == pytest.approx(1 - auc(outside, inside))
    thresholds, tpr, fpr = roc(inside, outside)
    assert np.trapezoid(tpr, fpr) == pytest.approx(np.mean(pairs))
    for t, a, b in zip(thresholds, tpr, fpr, strict=True):
        assert a == pytest.approx(np.mean(np.array(inside) >= t), abs=1e-15)
        assert b == pytest.approx(np.mean(np.array(outside) >= t), abs=1e-15)


def test_auc_against_mann_whitney():
    rng = np.random.default_rng(5)
    inside, outside = rng.normal(1, 1, 300).round(1), rng.normal(0, 1, 200).round(1)
    expected = stats.mannwhitneyu(inside, outside).statistic / (300 * 200)
    assert auc(inside, outside) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon_standard(1.2, 0, 0), r"tpr must be in \[0, 1\], got 1.2"),
        (lambda: epsilon_kairouz(1, -0.1, 0), r"fpr must be in \[0, 1\], got -0.1"),
        (lambda: epsilon_gdp(1, 0, np.nan), r"delta must be in \[0, 1\], got nan"),
        (lambda: roc([], [1.0]), "scores_in must be a one-dimensional array of at least 1 values"),
        (lambda: roc([1.0], [1.0, np.inf]), "scores_out must be finite"),
        (lambda: auc([1.0, np.nan], [1.0]), "scores_in must be free of NaN"),
        (lambda: auc([1.0], [[1.0]]), "scores_out must be a one-dimensional array"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
