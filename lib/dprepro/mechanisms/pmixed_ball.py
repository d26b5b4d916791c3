"""Renyi divergence of two distributions, and the projection of an expert onto a ball around the public model.

Flemings, Razaviyayn and Annavaram, "Differentially Private Next-Token Prediction of Large Language Models"
(arXiv 2403.15638), section 4 (RD-mollifiers): the expert p is drawn towards the public p0 along the segment
m = lambda p + (1 - lambda) p0, with the largest lambda whose m is near p0 in both directions.

Both divergences are convex in lambda and 0 at lambda = 0, so they grow with lambda, and bisection finds its end.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb, logsumexp

from dprepro.base.check import finite, in_interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Divergence = Callable[[IntArray, FloatArray], FloatArray]  # of some of the experts, at a weight each

_SUM_ERROR = 1e-5  # float32 probabilities of a language model sum to 1 within this
_HALVINGS = 20  # as the public code: weights fall short by less than 1e-6


class Projection(NamedTuple):
    """Where an expert lands: the mixtures, shape of the experts, and the weight of each expert in its own."""

    mixture: FloatArray
    weight: FloatArray


def distributions(name: str, values: ArrayLike) -> FloatArray:
    """Return distributions over a vocabulary, along the last axis, scaled to sum to 1 exactly.

    Raises
    ------
    ValueError
        For NaN, a negative entry, no vocabulary, or a sum that is not 1 within 1e-5.
    """
    array = finite(name, values)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must hold a probability for each word, got shape {array.shape}")
    in_interval(name, array, 0, 1 + _SUM_ERROR)
    total = array.sum(axis=-1, keepdims=True)
    off = np.abs(total - 1) > _SUM_ERROR
    if off.any():
        raise ValueError(f"{name} must sum to 1 over the vocabulary, got a sum of {total[off][0]:g}")
    return np.asarray(array / total)


def renyi_divergence(p: ArrayLike, q: ArrayLike, order: float) -> FloatArray:
    """Renyi divergence D_order(p || q) along the last axis, in nats.

    Parameters
    ----------
    p, q : array_like, shapes that broadcast, (..., V)
        Distributions.
    order : float
        Above 1, infinity included: the largest log-ratio then.

    Returns
    -------
    array, shape (...)
        Infinity where p has mass and q has none; never negative.

    Raises
    ------
    ValueError
        For an order of 1 or below, other vocabularies, or what is no distribution.
    """
    a = _order("order", order)
    p, q = distributions("p", p), distributions("q", q)
    _same_vocabulary("p", p, "q", q)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.where(p > 0, np.log(p) - np.log(q), -np.inf)  # where p has no mass, nothing is added
        log_terms = np.where(p > 0, np.log(p) + (a - 1) * log_ratio, -np.inf)
    value = logsumexp(log_terms, axis=-1) / (a - 1) if np.isfinite(a) else log_ratio.max(axis=-1)
    return np.maximum(value, 0.0)


def project(
    p: ArrayLike, p0: ArrayLike, radius: float, order: float, reverse_order: float | None = None
) -> Projection:
    """Draw experts towards the public distribution until they lie in the ball.

    Parameters
    ----------
    p : array_like, shape (V,) or (experts, V)
    p0 : array_like, shape (V,)
    radius : float
        In nats, at least 0 (the paper's beta times alpha). At 0 all experts become p0.
    order : float
        D_order(m || p0) is at most the radius. Above 1.
    reverse_order : float, optional
        D_reverse_order(p0 || m) is at most the radius. By default `order`, as published; infinity keeps each
        word at exp(-radius) of its public probability at least.

    Returns
    -------
    Projection
        Weights are never too large: the end of 20 halvings that lies inside the ball. An expert with mass where
        p0 has none gets weight 0. Words without mass on both sides do not matter.

    Raises
    ------
    ValueError
        An argument outside its domain; experts over another vocabulary than p0's.
    """
    a = _order("order", order)
    b = a if reverse_order is None else _order("reverse_order", reverse_order)
    most = float(in_interval("radius", radius, 0, np.inf))
    experts, public = distributions("p", p), distributions("p0", p0)
    if public.ndim != 1 or experts.ndim > 2:
        raise ValueError(
            f"p0 must have shape (V,) and p (experts, V), got {public.shape} and {experts.shape}"
        )
    _same_vocabulary("p", experts, "p0", public)
    rows, support = np.atleast_2d(experts), public > 0
    with np.errstate(over="ignore"):
        excess = rows[:, support] / public[support] - 1  # m / p0 = 1 + weight * excess
    weight = np.zeros(len(rows))
    movable = rows[:, ~support].sum(axis=1) == 0 if most > 0 else np.zeros(len(rows), dtype=bool)
    inner, log_base = excess[movable], np.log(public[support])
    # either divergence grows with the weight: first the largest one forwards, then less if the way back needs it
    forth = _largest(np.ones(len(inner)), most, _forward(inner, log_base, a))
    if np.isinf(b):
        weight[movable] = np.minimum(forth, _floor_weight(inner, most))
    else:
        weight[movable] = _largest(forth, most, _log_ratios(inner, log_base, 1 - b))
    mixture = weight[:, None] * rows + (1 - weight[:, None]) * public
    return Projection(mixture.reshape(experts.shape), weight.reshape(experts.shape[:-1]))


def _largest(high: FloatArray, radius: float, divergence: Divergence) -> FloatArray:
    """Largest weight of each expert up to `high` whose divergence is within the radius, by bisection from inside."""
    high, fits = high.copy(), divergence(np.arange(len(high)), high) <= radius
    low, left = np.where(fits, high, 0.0), np.flatnonzero(~fits)
    for _ in range(_HALVINGS):
        middle = (low[left] + high[left]) / 2
        good = divergence(left, middle) <= radius
        low[left[good]], high[left[~good]] = middle[good], middle[~good]
    return low


def _forward(excess: FloatArray, log_base: FloatArray, order: float) -> Divergence:
    """D_order(m || p0); for small whole orders a polynomial in the weight, whose first moment is 0."""
    if order not in range(2, 33):
        return _log_ratios(excess, log_base, order)
    powers, base, power, found = np.arange(2, int(order) + 1), np.exp(log_base), excess, []
    with np.errstate(over="ignore"):  # an infinite moment leaves no weight
        for _ in powers:
            power = power * excess
            found.append(power @ base)
    moments = np.stack(found, axis=-1)

    def divergence(rows: IntArray, weight: FloatArray) -> FloatArray:
        terms = comb(order, powers) * weight[:, None] ** powers * moments[rows]
        return np.asarray(np.log1p(terms.sum(axis=-1)) / (order - 1))

    return divergence


def _log_ratios(excess: FloatArray, log_base: FloatArray, power: float) -> Divergence:
    """Renyi divergence from E_p0 (m / p0)^power: of order `power` forwards, of order 1 - power backwards."""

    def divergence(rows: IntArray, weight: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log1p(np.maximum(weight[:, None] * excess[rows], -1))
            if np.isinf(power):
                return np.asarray(log_ratio.max(axis=-1))
            terms = log_base + power * log_ratio
            top = terms.max(axis=-1, keepdims=True)
            total = np.log(np.exp(terms - top).sum(axis=-1)) + top[:, 0]
        # infinite where a word of p0 has no mass left
        return np.where(np.isfinite(top[:, 0]), total, np.inf) / (power - 1 if power > 1 else -power)

    return divergence


def _floor_weight(excess: FloatArray, radius: float) -> FloatArray:
    """Largest weight with m >= exp(-radius) p0: the reverse divergence of order infinity, solved."""
    rarest = excess.min(axis=-1, initial=0.0)
    with np.errstate(divide="ignore"):
        weight = np.expm1(-radius) / rarest * (1 - 1e-12)  # rounded inwards
    return np.where(np.expm1(-radius) <= rarest, 1.0, weight)


def _order(name: str, order: float) -> float:
    return float(in_interval(name, order, 1, np.inf, closed="right"))


def _same_vocabulary(name: str, one: FloatArray, other_name: str, other: FloatArray) -> None:
    if one.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"{name} must have {other_name}'s vocabulary of {other.shape[-1]} words, got {one.shape[-1]}"
        )
