"""A privacy account of PMixED that holds, for one sampled token; neighbours differ by one expert or by one record.

Every projected expert m has D_a(m || p0) <= r and m >= exp(-r) p0 (`pmixed_ball.project` with reverse_order = inf),
and r does not depend on how many experts were drawn. Let S be the others that were drawn, Q their mean (p0 if there
are none), s = |S| + 1. The token comes from Q without the expert, and with it from

    (1 - p) Q + p ((1 - 1/s) Q + m_i / s)  =  (1 - t) Q + t m_i,   t = p / s:

one expert among s is the same as sampling at rate p/s. Its likelihood ratio R = m_i / Q has, for k <= a,
E_Q R^k <= exp((k - 1) rho) with rho = r if Q = p0 and 2 r otherwise: Q >= exp(-r) p0 gives one factor, the ball the
other. Adding the expert costs the binomial sum of `poisson_moment` at rate t. Removing it costs
E_Q (1 - t + t R)^(1 - a), which a parabola above the curve on R >= 0 bounds. Moments are jointly convex, so both may
be averaged over S, whose size is Binomial(N - 1, p). Nothing here is taken from the published proof.

A record that comes or goes leaves its expert in place, with m' for m = m_i. Let W = (1 - t) Q + t m', R = m / W and
R' = m' / W, whose moments are as above, and D = R - R', of mean 0. The loss is E_W (1 + t D)^a. Where D < 0 the terms
from the third on lower it, t D being -1 at least; where D > 0, D is below R and below (R - 1)+ + (1 - R')+.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlogy
from scipy.stats import binom

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.pmixed_account import largest, poisson_moment

FloatArray = NDArray[np.float64]


UNITS = ("expert", "record")


def sound_rdp(radius: float, order: int, sample_rate: float, n_experts: int, unit: str = "expert") -> float:
    """Renyi loss of one token.

    Parameters
    ----------
    radius : float
        Of the ball, the same for every drawn size, in nats; at least 0.
    order : int
        Of the loss and of the ball, at least 2.
    sample_rate : float
        Chance of each expert to be drawn, in [0, 1].
    n_experts : int
        N of the larger database.
    unit : {"expert", "record"}
        What neighbours differ by: an expert present or absent, or an expert that is another one because a record
        of its shard is present or absent.

    Returns
    -------
    float
        The larger of both directions.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    r = float(in_interval("radius", radius, 0, np.inf, closed="left"))
    a = int(positive_count("order", order, minimum=2))
    p, n = float(in_interval("sample_rate", sample_rate, 0, 1)), int(positive_count("n_experts", n_experts))
    size = np.arange(1, n + 1)  # with the expert
    weight = binom.logpmf(size - 1, n - 1, p)
    t = p / size
    if one_of("unit", unit, UNITS) == "record":
        return max(0.0, float(logsumexp(weight + _changed(t, a, r)))) / (a - 1)
    rho = np.where(size == 1, r, 2 * r)
    added = poisson_moment(t, a, np.arange(1, a)[:, None] * rho)
    worst = max(logsumexp(weight + added), logsumexp(weight + _removed(t, a, rho)))
    return max(0.0, float(worst)) / (a - 1)


def sound_radius(rdp: float, order: int, sample_rate: float, n_experts: int, unit: str = "expert") -> float:
    """Largest radius whose `sound_rdp` is at most `rdp`; infinity if nothing is ever drawn.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    budget = float(in_interval("rdp", rdp, 0, np.inf, closed="left"))
    return largest(lambda radius: sound_rdp(radius, order, sample_rate, n_experts, unit), budget)


def _removed(t: FloatArray, a: int, rho: FloatArray) -> FloatArray:
    """Logarithm of a bound of E_Q (1 - t + t R)^(1 - a), for R >= 0 with mean 1.

    With z = t (R - 1) >= -t: ((1 + z)^(1-a) - 1 - (1-a) z) / z^2 falls in z, so its value at -t bounds it, and
    E_Q (R - 1)^2 <= exp(rho) - 1. Where that is worse, convexity in t: 1 - t + t E_Q R^(1-a).
    """
    with np.errstate(divide="ignore", over="ignore"):
        kept = np.log1p(-t)
        # t^2 times that value; by Taylor's remainder, which is larger, where the difference would lose its digits
        exact = np.expm1((1 - a) * kept) - (a - 1) * t
        parabola = np.where(t > 1e-4, exact, a * (a - 1) / 2 * t**2 * np.exp(-(a + 1) * kept))
        spread = (
            np.log(np.maximum(-np.expm1(-rho), 1e-300)) + rho
        )  # log(exp(rho) - 1); no -inf beside t = 1's inf
        quadratic = np.logaddexp(0, np.log(parabola) + spread)
        linear = np.logaddexp(kept, np.log(t) + (a - 1) * rho)
    return np.minimum(quadratic, linear)


def _changed(t: FloatArray, a: int, r: float) -> FloatArray:
    """Logarithm of a bound of E_W (1 + t D)^a: of two for each moment of D, the second the better for large r."""
    k = np.arange(2, a + 1)[:, None]
    power = 2 * r * (k - 1)  # log E_W R^k
    with np.errstate(divide="ignore", over="ignore"):
        # E (R - 1)+^k <= E R^k - 1 and E (1 - R')+^k <= E R'^2 - 1; the square needs no sign, so both count twice
        near = np.log(np.expm1(power) + np.expm1(2 * r)) + np.where(k == 2, 1, k - 1) * np.log(2)
        far = power + np.where(k == 2, np.log(2), 0)  # E D^2 <= E R^2 + E R'^2
        terms = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1) + xlogy(k, t) + np.minimum(near, far)
    return np.logaddexp(0, logsumexp(terms, axis=0))
