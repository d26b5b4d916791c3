"""Oracles: literals from mpmath (60 digits) and dp_accounting 0.6.0, and both packages called directly."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given
from hypothesis import strategies as st

from dprepro.stats.gdp import (
    analytic_gaussian_sigma,
    classical_gaussian_sigma,
    epsilon_to_mu,
    gdp_delta,
    mu_to_epsilon,
)


def exact_delta(epsilon, mu):
    """Corollary 2.13 as printed, in arithmetic that can afford it."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(float(epsilon)), mpmath.mpf(float(mu))
        return float(mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


# mpmath, 60 digits. The printed formula returns nan or loses all digits on the last three.
@pytest.mark.parametrize(
    ("epsilon", "mu", "delta"),
    [
        (1, 1, 0.126936737506644),
        (8, 1, 3.65082168742179e-15),
        (700, 30, 3.06417043851217e-17),
        (1000, 40, 2.53629651495655e-7),
    ],
)
def test_delta_against_60_digits(epsilon, mu, delta):
    assert gdp_delta(epsilon, mu) == pytest.approx(delta, rel=1e-12)
    assert mu_to_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-12)
    assert epsilon_to_mu(epsilon, delta) == pytest.approx(mu, rel=1e-12)


@given(mu=st.floats(1e-6, 60), u=st.floats(-9, 37))
def test_delta_against_mpmath_wherever_it_is_a_normal_float(mu, u):
    epsilon = max(0.0, mu * (u + mu / 2))
    expected = exact_delta(epsilon, mu)
    if expected > 1e-290:
        assert gdp_delta(epsilon, mu) == pytest.approx(expected, rel=2e-12)


# dp_accounting 0.6.0: get_epsilon_gaussian(1/mu, 1e-5).
@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (0.1, 0.340669364684326),
        (0.5, 1.99309140441512),
        (1, 4.37717809568122),
        (2, 9.9972561464343),
        (5, 33.1037323359225),
        (10, 91.8172896246637),
        (100, 5425.50984614743),
    ],
)
def test_epsilon_against_dp_accounting_literals(mu, epsilon):
    assert mu_to_epsilon(mu, 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_epsilon_against_dp_accounting_called():
    for mu in (0.02, 0.3, 1.7, 6.0, 25.0):
        for delta in (1e-12, 1e-6, 1e-2, 0.3):
            expected = get_epsilon_gaussian(1 / mu, delta)
            assert mu_to_epsilon(mu, delta) == pytest.approx(expected, rel=1e-8, abs=1e-10)


# mpmath, 60 digits; L2 sensitivity 1, delta = 1e-5.
@pytest.mark.parametrize(
    ("epsilon", "sigma"),
    [
        (0.1, 30.7495661319774),
        (1, 3.73063163481594),
        (2, 1.99381244564354),
        (4, 1.08116184952024),
        (8, 0.600229072198952),
        (16, 0.344177428496394),
        (64, 0.126713902247018),
    ],
)
def test_analytic_sigma_against_60_digits(epsilon, sigma):
    assert analytic_gaussian_sigma(epsilon, 1e-5) == pytest.approx(sigma, rel=1e-12)
    assert analytic_gaussian_sigma(epsilon, 1e-5, math.sqrt(2)) == pytest.approx(
        math.sqrt(2) * sigma, rel=1e-12
    )


def test_epsilon_zero_is_exact_and_immediate():
    # At epsilon = 0 the root is closed: delta = 2 Phi(mu/2) - 1.
    assert analytic_gaussian_sigma(0, 1e-6) == pytest.approx(398942.2804, abs=1e-4)
    assert gdp_delta(0, 1e-9) == pytest.approx(1e-9 / math.sqrt(2 * math.pi), rel=1e-12)


# True epsilon of the classical sigma at delta = 1e-5 (mpmath, 60 digits).
@pytest.mark.parametrize(
    ("nominal", "true"), [(1, 0.7509769569), (4, 3.511178397), (8, 7.914369768), (16, 18.89892887)]
)
def test_classical_sigma_is_not_what_it_says(nominal, true):
    assert mu_to_epsilon(1 / classical_gaussian_sigma(nominal, 1e-5), 1e-5) == pytest.approx(true, rel=1e-9)


def test_classical_sigma_under_noises_above_8_42():
    for epsilon, enough in [(8.41977, True), (8.41978, False)]:
        assert (classical_gaussian_sigma(epsilon, 1e-5) >= analytic_gaussian_sigma(epsilon, 1e-5)) == enough


def test_degenerate_limits():
    np.testing.assert_array_equal(gdp_delta([0, 3, 3, 0], [0, 0, np.inf, np.inf]), [0, 0, 1, 1])
    np.testing.assert_array_equal(mu_to_epsilon([0, 0, np.inf, np.inf], [0, 1e-5, 0.5, 1]), [0, 0, np.inf, 0])
    assert mu_to_epsilon(1, 0) == np.inf
    assert mu_to_epsilon(1e-6, 1e-5) == 0
    assert mu_to_epsilon(0.2, 0.9) == 0  # sigma = 5, one step, delta = .9: never negative
    np.testing.assert_array_equal(
        epsilon_to_mu([1, 1, np.inf, np.inf], [0, 1, 0.1, 0]), [0, np.inf, np.inf, 0]
    )


def test_extremes_neither_overflow_nor_stall():
    assert gdp_delta(1e300, 1e-300) == 0
    assert gdp_delta(0, 1e300) == 1
    # So far out the root is sqrt(2 epsilon) (1 - O(1/mu)).
    np.testing.assert_allclose(epsilon_to_mu(1e300, [1e-300, 1e-5, 0.5]), np.sqrt(2e300), rtol=1e-12)
    np.testing.assert_allclose(mu_to_epsilon(1e150, [1e-300, 1e-5, 0.5]), 0.5e300, rtol=1e-12)
    assert epsilon_to_mu(1e-12, 1 - 2**-53) == pytest.approx(epsilon_to_mu(0, 1 - 2**-53), rel=1e-6)


@given(mu=st.floats(1e-3, 100), log_delta=st.floats(-600, -0.01))
def test_round_trips(mu, log_delta):
    delta = math.exp(log_delta)
    epsilon = mu_to_epsilon(mu, delta)
    if epsilon > 1e-6:
        assert gdp_delta(epsilon, mu) == pytest.approx(delta, rel=1e-10)
        assert epsilon_to_mu(epsilon, delta) == pytest.approx(mu, rel=1e-11)
    else:
        assert gdp_delta(epsilon, mu) <= delta * (1 + 1e-9)


@given(epsilon=st.floats(0, 50), mu=st.floats(1e-3, 20), step=st.floats(1e-3, 5), delta=st.floats(1e-12, 0.9))
def test_monotone(epsilon, mu, step, delta):
    assert gdp_delta(epsilon + step, mu) <= gdp_delta(epsilon, mu) <= gdp_delta(epsilon, mu + step)
    assert mu_to_epsilon(mu, delta) <= mu_to_epsilon(mu + step, delta)
    assert epsilon_to_mu(epsilon, delta) < epsilon_to_mu(epsilon + step, delta)


def test_broadcasting_agrees_with_scalars():
    mu, delta = np.array([[0.05], [1.0], [9.0]]), np.array([1e-9, 1e-5, 0.1, 0.6])
    epsilon = mu_to_epsilon(mu, delta)
    assert epsilon.shape == (3, 4)
    for i, j in np.ndindex(3, 4):
        assert epsilon[i, j] == pytest.approx(mu_to_epsilon(mu[i, 0], delta[j]), rel=1e-12)
    assert analytic_gaussian_sigma([1, 2], 1e-5, [[1.0], [2.0]]).shape == (2, 2)
    assert isinstance(gdp_delta(1, 1), float)
    assert mu_to_epsilon(np.empty(0), 1e-5).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gdp_delta(-1, 1), r"epsilon must be in \[0, inf\), got -1"),
        (lambda: gdp_delta(1, -2), r"mu must be in \[0, inf\], got -2"),
        (lambda: mu_to_epsilon(1, 1.5), r"delta must be in \[0, 1\], got 1.5"),
        (lambda: mu_to_epsilon([1, np.nan], 0.1), r"mu must be in \[0, inf\], got nan"),
        (lambda: epsilon_to_mu(-0.1, 0.1), r"epsilon must be in \[0, inf\], got -0.1"),
        (lambda: analytic_gaussian_sigma(1, 0), r"delta must be in \(0, 1\), got 0"),
        (lambda: analytic_gaussian_sigma(1, 1), r"delta must be in \(0, 1\), got 1"),
        (lambda: analytic_gaussian_sigma(-1, 0.1), r"epsilon must be in \[0, inf\), got -1"),
        (lambda: analytic_gaussian_sigma(1, 0.1, 0), r"sensitivity must be in \(0, inf\), got 0"),
        (lambda: classical_gaussian_sigma(0, 0.1), r"epsilon must be in \(0, inf\), got 0"),
        (lambda: classical_gaussian_sigma(1, 1), r"delta must be in \(0, 1\), got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
