"""Membership attacks on a classifier with the help of shadow models: LiRA, RMIA, and the bare logit without any.

Shadow models are trained as the target model was, on sets that hold a record (in) or not (out). All that an attack
sees is confidences: p = the probability that a model gives the true label of a record, in (0, 1].

- Logits: phi(p) = log(p / (1 - p)) of the target model alone.
- LiRA: Carlini et al., "Membership Inference Attacks From First Principles" (arXiv 2112.03570), Algorithm 1: phi of
  the in models and of the out models are taken for Gaussian, the score is the log-likelihood ratio. Its offline
  variant knows no in models and asks how far above the out models the target model lies.
- RMIA: Zarifzadeh, Liu, Shokri, "Low-Cost High-Power Membership Inference Attacks" (arXiv 2312.03262): the ratio
  p(x | target)/p(x), p(x) the mean over shadow models, is compared with that of records z of the population; the
  score is the share of z which it beats.

High scores mean "in". `each_in_turn` attacks every model of a table with all others as its shadow models, so that M
models give M attacks.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import finite, in_interval

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Attack = Callable[[FloatArray, FloatArray, BoolArray], FloatArray]

_MOST = 1 - 2.0**-53  # the largest float below 1: a confidence of 1 gets the logit 36.7, not infinity
_LEAST_SPREAD = 1e-9  # of logits of shadow models that all say the same


def scaled_logits(confidences: ArrayLike) -> FloatArray:
    """Return phi(p) = log(p / (1 - p)), LiRA's equation 4, under which confidences look Gaussian.

    Parameters
    ----------
    confidences : array_like, any shape
        In (0, 1]; 1 counts as the float before it, so the largest value is 36.7.

    Raises
    ------
    ValueError
        A confidence outside (0, 1].
    """
    return special.logit(np.minimum(_confidences("confidences", confidences), _MOST))


def lira(
    confidences: ArrayLike,
    shadows: ArrayLike,
    included: ArrayLike,
    *,
    online: bool = True,
    shared_variance: bool = True,
) -> FloatArray:
    """Likelihood ratio attack.

    Parameters
    ----------
    confidences : array_like, shape (T,)
        Of the target model in the true labels of T records, in (0, 1].
    shadows : array_like, shape (K, T)
        Of K shadow models.
    included : array_like of bool or 0/1, shape (K, T)
        Which shadow model was trained on which record.
    online : bool
        True: the in and the out models are used. False: the out models only.
    shared_variance : bool
        True: one variance of the in models and one of the out models for all records, the mean over records, as the
        paper does for few shadow models (below 64); False: of each record its own.

    Returns
    -------
    ndarray, shape (T,)
        Online log N(phi; mu_in, s_in^2) - log N(phi; mu_out, s_out^2) in nats. Offline (phi - mu_out)/s_out, which
        orders records as the paper's 1 - Pr[N(mu_out, s_out^2) > phi] does and does not round to 1.

    Raises
    ------
    ValueError
        Confidences outside (0, 1], shapes that do not fit, a record with fewer than two out models, or, online, than
        two in models.

    Notes
    -----
    Variances have the divisor count - 1. Where all shadow models agree on a record to the last bit, its spread is
    taken for 1e-9.
    """
    target, others, inside = _models(confidences, shadows, included)
    _enough(inside, 2, online)
    phi, logits = scaled_logits(target), scaled_logits(others)
    mean_out, spread_out = _gaussian(logits, ~inside, shared_variance)
    distance_out = (phi - mean_out) / spread_out
    if not online:
        return distance_out
    mean_in, spread_in = _gaussian(logits, inside, shared_variance)
    distance_in = (phi - mean_in) / spread_in
    return (distance_out**2 - distance_in**2) / 2 + np.log(spread_out / spread_in)


def rmia(
    confidences: ArrayLike,
    population: ArrayLike,
    shadows: ArrayLike,
    shadows_population: ArrayLike,
    included: ArrayLike,
    *,
    online: bool = True,
    a: float = 0.3,
    gamma: float = 1.0,
) -> FloatArray:
    """Robust membership inference attack.

    Parameters
    ----------
    confidences : array_like, shape (T,)
        Of the target model in the true labels of T records, in (0, 1].
    population : array_like, shape (Z,)
        Of the target model, for records z of the same population that no model was trained on.
    shadows, shadows_population : array_like, shapes (K, T) and (K, Z)
        Of K shadow models.
    included : array_like of bool or 0/1, shape (K, T)
        Which shadow model was trained on which record.
    online : bool
        True: p(x) is the mean of the mean over in models and of that over out models; p(z) the mean over all, which
        are out models. False: out models only, and both p are ((1 + a) mean + 1 - a)/2.
    a : float
        In [0, 1], offline only: in models are taken to have the confidence a p_out + 1 - a. At 1 they are taken for
        out models. The paper picks it by attacking one shadow model with the others.
    gamma : float
        Positive: by which factor x has to beat z.

    Returns
    -------
    ndarray, shape (T,)
        Share of the population with (p(x | target)/p(x)) / (p(z | target)/p(z)) >= gamma, in [0, 1].

    Raises
    ------
    ValueError
        Confidences outside (0, 1], shapes that do not fit, a record without an out model or, online, without an in
        model; a or gamma outside its domain.
    """
    target, others, inside = _models(confidences, shadows, included)
    strangers = _confidences("population", population)
    theirs = _confidences("shadows_population", shadows_population)
    if strangers.ndim != 1 or strangers.size == 0 or theirs.shape != (len(others), strangers.size):
        raise ValueError(
            "population and shadows_population must have shapes (Z,) and (K, Z), Z at least 1, for "
            f"{len(others)} shadow models, got {strangers.shape} and {theirs.shape}"
        )
    share = float(in_interval("a", a, 0, 1))
    factor = float(in_interval("gamma", gamma, 0, np.inf, closed="neither"))
    _enough(inside, 1, online)
    out, never = _mean(others, ~inside), theirs.mean(axis=0)
    if online:
        usual, usual_z = (out + _mean(others, inside)) / 2, never
    else:
        usual, usual_z = ((1 + share) / 2 * p + (1 - share) / 2 for p in (out, never))
    # The smallest ratio that beats k of the sorted ones: no table of all pairs.
    ratio, ratio_z = target / usual, np.sort(factor * strangers / usual_z)
    return np.searchsorted(ratio_z, ratio, side="right") / strangers.size


def each_in_turn(attack: Attack, confidences: ArrayLike, included: ArrayLike) -> FloatArray:
    """Attack every model of a table with all others as its shadow models.

    Parameters
    ----------
    attack : callable
        From (confidences (C,), shadows (K, C), included (K, T)) to scores (T,); ``lira`` as it is. C may exceed T,
        where columns of population records follow those of the targets.
    confidences : array_like, shape (M, C)
        A row for each model.
    included : array_like of bool or 0/1, shape (M, T)

    Returns
    -------
    ndarray, shape (M, T)
        For ``stats.clustered_auc``, with `included`.

    Raises
    ------
    ValueError
        Not two tables of as many rows, at least two; as the attack.
    """
    table, coins = finite("confidences", confidences), _coins(included)
    if table.ndim != 2 or coins.ndim != 2 or len(table) != len(coins) or len(table) < 2:
        raise ValueError(
            "confidences and included must be tables with one row for each of two models or more, "
            f"got shapes {table.shape} and {coins.shape}"
        )
    others = ~np.eye(len(table), dtype=bool)
    return np.array([attack(own, table[rest], coins[rest]) for own, rest in zip(table, others, strict=True)])


def _confidences(name: str, values: ArrayLike) -> FloatArray:
    return in_interval(name, values, 0, 1, closed="right")


def _coins(included: ArrayLike) -> BoolArray:
    coins = finite("included", included)
    if wrong := coins[(coins != 0) & (coins != 1)].tolist():
        raise ValueError(f"included must be true or false, got {wrong[0]:g}")
    return coins == 1


def _models(
    confidences: ArrayLike, shadows: ArrayLike, included: ArrayLike
) -> tuple[FloatArray, FloatArray, BoolArray]:
    target, others = _confidences("confidences", confidences), _confidences("shadows", shadows)
    if target.ndim != 1 or target.size == 0 or others.ndim != 2 or others.shape[1] != target.size:
        raise ValueError(
            "confidences and shadows must have shapes (T,) and (K, T), T at least 1, "
            f"got {target.shape} and {others.shape}"
        )
    coins = _coins(included)
    if coins.shape != others.shape:
        raise ValueError(
            f"included must be true or false for each of shadows, shape {others.shape}, got shape {coins.shape}"
        )
    return target, others, coins


def _enough(inside: BoolArray, least: int, online: bool) -> None:
    for side, members in (("in", inside), ("out", ~inside)):
        counts = members.sum(axis=0)
        if (online or side == "out") and counts.min() < least:
            worst = int(counts.argmin())
            raise ValueError(
                f"included must hold at least {least} shadow model(s) with each record {side}, got "
                f"{int(counts[worst])} of {len(inside)} for record {worst}"
            )


def _mean(values: FloatArray, members: BoolArray) -> FloatArray:
    return np.where(members, values, 0).sum(axis=0) / members.sum(axis=0)


def _gaussian(logits: FloatArray, members: BoolArray, shared: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each record over its models."""
    mean = _mean(logits, members)
    squares = np.where(members, (logits - mean) ** 2, 0).sum(axis=0)
    variance = squares / (members.sum(axis=0) - 1)
    if shared:
        variance = np.full_like(variance, variance.mean())
    return mean, np.maximum(np.sqrt(variance), _LEAST_SPREAD)
