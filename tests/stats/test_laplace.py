"""Laplace law: noise against scipy, masses against 50-digit arithmetic, expectations against closed forms."""

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest, laplace

from dprepro.stats.laplace import laplace_expectation, laplace_mass, laplace_noise


@pytest.mark.parametrize("n", [1, 16_384, 50_001])
def test_noise_has_the_law(n):
    noise = laplace_noise(n, np.random.default_rng(0))
    assert noise.shape == (n,)
    if n > 1:
        assert kstest(noise, laplace.cdf).pvalue > 1e-3
        # Blocks must not repeat each other: neighbours and block mates are uncorrelated (5 standard errors).
        for lag in (1, 16_383):
            assert abs(np.mean(noise[lag:] * noise[:-lag])) < 5 * 2 / (n - lag) ** 0.5


def exact_mass(low, high):
    with mpmath.workdps(150):  # enough for the difference of two numbers near 1

        def cdf(x):
            return mpmath.exp(x) / 2 if x < 0 else 1 - mpmath.exp(-x) / 2

        return float(cdf(mpmath.mpf(high)) - cdf(mpmath.mpf(low)))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1.0, 2.0),
        (0.0, 1e-12),
        (-1e-13, 1e-13),
        (3.0, 3.0 + 1e-9),
        (-3.0 - 1e-9, -3.0),
        (40.0, 41.0),
        (-200.0, -199.5),
        (-30.0, 0.0),
    ],
)
def test_mass_keeps_its_digits(low, high):
    assert laplace_mass(low, high) == pytest.approx(exact_mass(low, high), rel=2e-15, abs=0)


def test_mass_at_infinity():
    inf = np.inf
    assert laplace_mass([-inf, -inf, 2.0, -inf, 800.0], [inf, 0.0, inf, -2.0, inf]) == pytest.approx(
        [1, 0.5, np.exp(-2) / 2, np.exp(-2) / 2, 0], rel=1e-15
    )
    assert laplace_mass(1.5, 1.5) == 0


def peak(x):
    """Product of a falling and of a rising factor, both steep; its mean is a Beta integral."""
    return (x > 0) * (np.exp(-np.abs(x)) * -np.expm1(-np.abs(x))) ** 300


@pytest.mark.parametrize(
    ("g", "kinks", "exact"),
    [
        (np.ones_like, [], 1.0),
        (lambda x: np.exp(-1e3 * np.abs(x)), [], 1 / 1001),
        (lambda x: np.exp(-1e-3 * np.abs(x)), [], 1 / 1.001),
        (lambda x: (x > 0.3) * 1.0, [0.3], np.exp(-0.3) / 2),
        (lambda x: (x > 400.0) * 1.0, [400.0], np.exp(-400) / 2),
        (lambda x: np.maximum(1 - np.abs(x - 2), 0), [1, 2, 3], np.exp(-2) * (np.cosh(1) - 1)),
        (lambda x: np.exp(-1e4 * np.maximum(x - 7, 0)) * (x > 7), [7], np.exp(-7) / 2 / 10_001),
        (lambda x: np.zeros_like(x), [1.0], 0.0),
        (
            lambda x: (x > 0) * (np.exp(-np.abs(x)) * -np.expm1(-np.abs(x))) ** 300,
            [0, 40],
            float(mpmath.beta(301, 301)) / 2,
        ),
    ],
    ids=["one", "steep", "flat", "jump", "far jump", "hat", "far and steep", "zero", "beta"],
)
def test_expectation_against_closed_forms(g, kinks, exact):
    assert laplace_expectation(g, kinks) == pytest.approx(exact, rel=1e-12, abs=0)


def test_expectation_over_a_jump_that_is_not_named_costs_digits_only():
    assert laplace_expectation(lambda x: (x > 0.3) * 1.0) == pytest.approx(np.exp(-0.3) / 2, rel=1e-10)


def test_expectation_of_what_is_no_number():
    with pytest.raises(ArithmeticError, match="did not converge between"):
        laplace_expectation(lambda x: np.where(x > 2, np.nan, 1.0))


@pytest.mark.parametrize("kinks", [[np.nan], [np.inf, 0.0]])
def test_bad_kinks(kinks):
    with pytest.raises(ValueError, match="kinks must be finite"):
        laplace_expectation(np.ones_like, kinks)
