"""Gaussian differential privacy: mu, (epsilon, delta) and the noise of the Gaussian mechanism.

Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Corollary 2.13: a mu-GDP mechanism is
(epsilon, delta)-DP for exactly those pairs with

    delta(epsilon, mu) = Phi(-u) - exp(epsilon) Phi(-v),   u = epsilon/mu - mu/2,   v = epsilon/mu + mu/2,

which is also Theorem 8 of Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (2018),
with mu = sensitivity/sigma. As written it overflows or loses every digit. But
exp(epsilon) phi(v) = phi(u), so

    delta(epsilon, mu) = phi(u) (M(u) - M(v)),   M(x) = Phi(-x)/phi(x) (the Mills ratio),

where nothing overflows and phi(u), which carries the size of delta, is a factor whose logarithm is -u^2/2.
Both inversions are Newton's method on log delta, which is concave in epsilon and in mu: from a start on the
right side every step stays on that side, so convergence is monotone and needs no bracket. A step the other
way can only be rounding, and is not taken.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import in_interval

FloatArray = NDArray[np.float64]

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_MAX_STEPS = 100
_STEP_TOLERANCE = 1e-10  # convergence is quadratic: the error after such a step is at rounding level
_LARGEST = 1e154  # its square is still a float


def gdp_delta(epsilon: ArrayLike, mu: ArrayLike) -> FloatArray:
    """Smallest delta for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : array_like
        Privacy loss in nats, in [0, inf).
    mu : array_like
        In [0, inf]; broadcast against `epsilon`. 0 gives 0, infinity gives 1.

    Returns
    -------
    ndarray or scalar
        delta in [0, 1]; 0 where it is below the smallest float.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Dong, Roth, Su (2022), Corollary 2.13, in the form given at the top of this module.
    """
    epsilon = in_interval("epsilon", epsilon, 0, np.inf, closed="left")
    mu = in_interval("mu", mu, 0, np.inf)
    epsilon, mu = np.broadcast_arrays(epsilon, mu)
    delta = np.where(np.isinf(mu), 1.0, 0.0)
    inner = (mu > 0) & np.isfinite(mu)
    delta[inner] = np.exp(_log_delta(epsilon[inner], mu[inner])[0])
    return delta[()]


def mu_to_epsilon(mu: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Smallest epsilon for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu : array_like
        In [0, inf]; 0 gives 0, infinity gives infinity (unless delta is 1).
    delta : array_like
        In [0, 1]; broadcast against `mu`. 0 gives infinity for mu > 0: Gaussian noise is never pure DP.

    Returns
    -------
    ndarray or scalar
        epsilon >= 0 in nats; 0 where delta(0, mu) is at most `delta` already.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Inverse of `gdp_delta` in epsilon. delta is the convolution of a normal density with the log-concave
    t -> max(0, 1 - exp(-t)), hence log-concave in epsilon (Prekopa). Since delta <= Phi(-u), the epsilon with
    Phi(-u) = delta is at or above the root: Newton starts there and descends.
    """
    mu = in_interval("mu", mu, 0, np.inf)
    delta = in_interval("delta", delta, 0, 1)
    mu, delta = np.broadcast_arrays(mu, delta)
    epsilon = np.where((mu > 0) & (delta < 1), np.inf, 0.0)
    epsilon[special.erf(mu / np.sqrt(8)) <= delta] = 0.0
    inner = np.isinf(epsilon) & (mu < _LARGEST) & (delta > 0)
    m, target = mu[inner], np.log(delta[inner])
    e = m * (m / 2 - special.ndtri(delta[inner]))
    for _ in range(_MAX_STEPS if e.size else 0):
        log_delta, gap, mills_v = _log_delta(e, m)
        # d log(delta) / d epsilon = -M(v) / (M(u) - M(v))
        step = np.maximum((target - log_delta) * gap / mills_v, 0.0)
        e = np.maximum(e - step, 0.0)
        if np.all(step <= _STEP_TOLERANCE * (e + m)):
            break
    epsilon[inner] = e
    return epsilon[()]


def epsilon_to_mu(epsilon: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Largest mu for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : array_like
        In [0, inf].
    delta : array_like
        In [0, 1]; broadcast against `epsilon`. 0 gives 0; 1 gives infinity.

    Returns
    -------
    ndarray or scalar
        mu >= 0.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Inverse of `gdp_delta` in mu, where d log(delta) / d mu = 1 / (M(u) - M(v)). The gap M(u) - M(v) grows
    with mu (M is convex and falling; u falls, and v either falls more slowly or rises), so log delta is
    concave. Both delta <= Phi(-u) and delta <= delta(0, mu) give a mu at or below the root: Newton starts at
    the larger one and climbs. At epsilon = 0 the second is the root itself.
    """
    epsilon = in_interval("epsilon", epsilon, 0, np.inf)
    delta = in_interval("delta", delta, 0, 1)
    epsilon, delta = np.broadcast_arrays(epsilon, delta)
    mu = np.where((delta == 1) | (np.isinf(epsilon) & (delta > 0)), np.inf, 0.0)
    inner = np.isfinite(epsilon) & (delta > 0) & (delta < 1)
    e, d = epsilon[inner], delta[inner]
    at_zero = np.sqrt(8) * special.erfinv(d)
    m = np.maximum(at_zero, _mu_from_tail(e, -special.ndtri(d)))
    target = np.log(d)
    for _ in range(_MAX_STEPS if m.size else 0):
        log_delta, gap, _ = _log_delta(e, m)
        step = np.where(e > 0, np.maximum((target - log_delta) * gap, 0.0), 0.0)
        m = m + step
        if np.all(step <= _STEP_TOLERANCE * m):
            break
    mu[inner] = m
    return mu[()]


def analytic_gaussian_sigma(epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0) -> FloatArray:
    """Smallest standard deviation of Gaussian noise that gives (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : array_like
        In [0, inf); 0 is allowed.
    delta : array_like
        In (0, 1).
    sensitivity : array_like
        L2 sensitivity, in (0, inf). sigma has its unit.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Balle and Wang (2018), Algorithm 1: sigma = sensitivity / mu with mu = `epsilon_to_mu`.
    """
    epsilon = in_interval("epsilon", epsilon, 0, np.inf, closed="left")
    delta = in_interval("delta", delta, 0, 1, closed="neither")
    sensitivity = in_interval("sensitivity", sensitivity, 0, np.inf, closed="neither")
    return sensitivity / epsilon_to_mu(epsilon, delta)


def classical_gaussian_sigma(
    epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0
) -> FloatArray:
    """Textbook noise sensitivity * sqrt(2 ln(1.25/delta)) / epsilon of the Gaussian mechanism.

    Parameters
    ----------
    epsilon : array_like
        In (0, inf).
    delta : array_like
        In (0, 1).
    sensitivity : array_like
        L2 sensitivity, in (0, inf).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Dwork and Roth, "The Algorithmic Foundations of Differential Privacy" (2014), Theorem A.1, proven for
    epsilon < 1 only. It adds too much noise for small epsilon and, at delta = 1e-5, too little above 8.42.
    """
    epsilon = in_interval("epsilon", epsilon, 0, np.inf, closed="neither")
    delta = in_interval("delta", delta, 0, 1, closed="neither")
    sensitivity = in_interval("sensitivity", sensitivity, 0, np.inf, closed="neither")
    return sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def _log_delta(epsilon: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log delta, the gap M(u) - M(v) and M(v): the one kernel of this module, for finite mu > 0."""
    with np.errstate(over="ignore"):
        ratio = np.minimum(epsilon / mu, _LARGEST)
    u, v = np.maximum(ratio - mu / 2, -8.5), ratio + mu / 2  # u = -8.5: delta is 1 to within an ulp
    gap, mills_v = _mills_gap(u, v, mu), _mills(v)
    log_phi = -(u**2) / 2 - _LOG_SQRT_2PI
    with np.errstate(divide="ignore"):
        log_delta = log_phi + np.log(gap)
    # Close to delta = 1 the digits are in 1 - delta = phi(u) (M(-u) + M(v)).
    near_one = u < -1
    complement = _mills(-u[near_one]) + mills_v[near_one]
    log_delta[near_one] = np.log1p(-np.exp(log_phi[near_one]) * complement)
    return log_delta, gap, mills_v


def _mills(x: FloatArray) -> FloatArray:
    """Mills ratio Phi(-x)/phi(x); overflows below x = -37."""
    return np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))


def _mills_gap(u: FloatArray, v: FloatArray, mu: FloatArray) -> FloatArray:
    """M(u) - M(v) for u < v, v - u = mu, without cancellation where mu is small."""
    gap = _mills(u) - _mills(v)
    small = mu < 0.1
    if small.any():
        # M' (x) = x M(x) - 1, so the gap is the integral of 1 - x M(x) over a short interval: Gauss-Legendre.
        x = u[small, None] + mu[small, None] * (_NODES + 1) / 2
        gap[small] = mu[small] * (_minus_mills_slope(x) @ _WEIGHTS) / 2
    return gap


def _minus_mills_slope(x: FloatArray) -> FloatArray:
    """1 - x M(x), by its asymptotic series where x M(x) is close to 1."""
    with np.errstate(divide="ignore"):
        s = 1 / x**2
    series = s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s * (1 - 9 * s))))
    return np.where(x > 60, series, 1 - x * _mills(x))


def _mu_from_tail(epsilon: FloatArray, quantile: FloatArray) -> FloatArray:
    """The mu > 0 with epsilon/mu - mu/2 = quantile, in the form of the quadratic that does not cancel."""
    root = np.hypot(quantile, np.sqrt(2 * epsilon))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(quantile > 0, 2 * epsilon / (quantile + root), root - quantile)
