"""The published privacy account of PMixED, as its public code computes it.

Flemings, Razaviyayn and Annavaram (arXiv 2403.15638; public code james-flemings/pmixed, ensemble.py): a query's Renyi
loss of order alpha with s experts drawn, its amplification by Poisson sampling, the radius that spends a given
loss, and the conversion to (epsilon, delta). Neighbours differ by one expert, present or absent.

This account is kept to recompute what was published. It uses D_k(m_i || m_j) <= 4 beta k, the triangle inequality
of zero-concentrated privacy, which needs a ball at every order; the projection looks at one order alone.
`pmixed_bound` has an account that holds, `audits.pmixed_worst` shows how far this one can be off.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]


def rdp_to_epsilon(rdp: float, order: int, delta: float) -> float:
    """Epsilon of an (order, rdp) Renyi guarantee (Canonne, Kamath and Steinke 2020, proposition 12).

    Returns
    -------
    float
        At least 0; 0 for a loss of 0.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    a, loss, d = _order(order), float(in_interval("rdp", rdp, 0, np.inf)), _delta(delta)
    if loss == 0:
        return 0.0
    return max(0.0, loss + math.log1p(-1 / a) - (math.log(d) + math.log(a)) / (a - 1))


def epsilon_to_rdp(epsilon: float, order: int, delta: float) -> float:
    """Renyi loss of this order that converts to `epsilon`, the inverse of `rdp_to_epsilon`.

    Raises
    ------
    ValueError
        The order alone costs more than epsilon: a larger order, epsilon or delta is needed.
    """
    a, d = _order(order), _delta(delta)
    target = float(in_interval("epsilon", epsilon, 0, np.inf, closed="neither"))
    cost = math.log1p(-1 / a) - (math.log(d) + math.log(a)) / (a - 1)
    if target <= cost:
        raise ValueError(f"epsilon must be above {cost:.4g} at order {a} and delta {d:g}, got {target:g}")
    return target - cost


def published_order(epsilon: float, delta: float) -> int:
    """Order that the public code takes for a target: ceil(4 ln(1/delta) / (3 epsilon) + 1).

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    target = float(in_interval("epsilon", epsilon, 0, np.inf, closed="neither"))
    return math.ceil(4 * math.log(1 / _delta(delta)) / (3 * target) + 1)


def published_loss(beta: float, size: int, order: int) -> float:
    """Published Renyi loss of one token when `size` experts were drawn, before amplification.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    a, b = _order(order), float(in_interval("beta", beta, 0, np.inf))
    s = int(positive_count("size", size))
    if s == 1:
        return b * a
    return float(np.logaddexp(np.log1p(-1 / s), 4 * (a - 1) * b * a - math.log(s)) / (a - 1))


def poisson_moment(rate: ArrayLike, order: int, log_moments: ArrayLike) -> FloatArray:
    """Logarithm of E_Q (1 - rate + rate P/Q)^order, from the logarithms of E_Q (P/Q)^k.

    The binomial sum behind Poisson sampling (Zhu and Wang 2019); the terms k = 0 and 1 have no divergence.

    Parameters
    ----------
    rate : array_like, shape (...)
        In [0, 1].
    order : int
    log_moments : array_like, shape (order - 1, ...)
        For k = 2, ..., order; (k - 1) times the Renyi divergence of order k.

    Raises
    ------
    ValueError
        A rate outside [0, 1], or an order below 2.
    """
    t, a = in_interval("rate", rate, 0, 1), _order(order)
    k = np.arange(a + 1.0).reshape(-1, *[1] * t.ndim)
    choose = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    moments = np.concatenate([np.zeros((2, *t.shape)), np.asarray(log_moments, dtype=np.float64)])
    return np.asarray(logsumexp(choose + xlog1py(a - k, -t) + xlogy(k, t) + moments, axis=0))


def published_rdp(beta: float, size: int, order: int, sample_rate: float) -> float:
    """Published Renyi loss of one token after amplification, at a drawn size of `size`.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    a = _order(order)
    moments = [(k - 1) * published_loss(beta, size, k) for k in range(2, a + 1)]
    return float(poisson_moment(in_interval("sample_rate", sample_rate, 0, 1), a, moments)) / (a - 1)


def published_beta(rdp: float, size: int, order: int, sample_rate: float) -> float:
    """Largest beta that `published_rdp` grants for a loss a token; the radius of the ball is beta * order.

    The public code solves this anew for each drawn size, so that larger draws get larger balls.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    loss = float(in_interval("rdp", rdp, 0, np.inf, closed="left"))
    return largest(lambda beta: published_rdp(beta, size, order, sample_rate), loss)


def largest(loss: Callable[[float], float], budget: float) -> float:
    """Largest x >= 0 with loss(x) <= budget for a growing loss: the end of bisection that stays within it.

    Infinity where no x up to a million exceeds the budget (nothing is ever drawn).
    """
    low, high = 0.0, 1e-3
    while loss(high) <= budget:
        low, high = high, 2 * high
        if high > 1e6:
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) <= budget else (low, middle)
    return low


def _order(order: int) -> int:
    return int(positive_count("order", order, minimum=2))


def _delta(delta: float) -> float:
    return float(in_interval("delta", delta, 0, 1, closed="neither"))
