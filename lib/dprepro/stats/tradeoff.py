"""From an attack's error rates to epsilon, and from scores to error rates.

An attack decides "in" or "out"; TPR and FPR are its chances of "in" when the canary is in and out. Each
``epsilon_*`` is the least epsilon that a mechanism with these exact rates can have: a point estimate when the
rates are estimates, a lower bound when they are confidence limits (``stats.lower_bound``). Three conversions:

- standard: the one inequality TPR <= exp(epsilon) FPR + delta of the definition;
- Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy" (2015), Theorem 2.1: all points of
  the privacy region, so the same inequality for the complement too (1 - FPR <= exp(epsilon) (1 - TPR) + delta);
- GDP: Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Definition 2.2: the Gaussian trade-off curve through
  the point, then its epsilon. It claims more than the rates show, and is right for Gaussian releases only.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import finite, in_interval, sample
from dprepro.stats.gdp import mu_to_epsilon

FloatArray = NDArray[np.float64]


def epsilon_standard(tpr: ArrayLike, fpr: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Least epsilon with tpr <= exp(epsilon) fpr + delta: max(0, log((tpr - delta)/fpr)).

    Parameters
    ----------
    tpr, fpr : array_like
        Rates in [0, 1]; broadcast.
    delta : array_like
        In [0, 1].

    Returns
    -------
    ndarray or scalar
        epsilon >= 0 in nats. Infinity for fpr = 0 and tpr > delta: the estimate at that point, never a bound,
        since no number of trials shows fpr = 0. An attack that errs the other way round (tpr < fpr) gives 0;
        `epsilon_kairouz` looks at the complement as well.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    tpr, fpr, delta = _rates(tpr, fpr, delta)
    return _log_ratio(tpr - delta, fpr)


def epsilon_kairouz(tpr: ArrayLike, fpr: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Least epsilon whose privacy region holds the point: the larger of the two lines that bound it.

    Parameters
    ----------
    tpr, fpr, delta : array_like
        As for `epsilon_standard`.

    Returns
    -------
    ndarray or scalar
        max(0, log((tpr - delta)/fpr), log((1 - delta - fpr)/(1 - tpr))). Infinity where a denominator is 0 and its
        numerator is not: for fpr = 0 and tpr > delta, for tpr = 1 and fpr < 1 - delta.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Kairouz, Oh, Viswanath (2015), Theorem 2.1. The two lines of the mirrored region (tpr < fpr) are left out:
    the attack chooses which decision it calls "in".
    """
    tpr, fpr, delta = _rates(tpr, fpr, delta)
    return np.maximum(_log_ratio(tpr - delta, fpr), _log_ratio(1 - delta - fpr, 1 - tpr))


def epsilon_gdp(tpr: ArrayLike, fpr: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Epsilon at `delta` of the Gaussian mechanism whose trade-off curve passes through the point.

    Parameters
    ----------
    tpr, fpr, delta : array_like
        As for `epsilon_standard`.

    Returns
    -------
    ndarray or scalar
        ``mu_to_epsilon(max(0, Phi^-1(tpr) - Phi^-1(fpr)), delta)``; infinity if tpr = 1 or fpr = 0 and tpr > fpr.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Dong, Roth, Su (2022), Definition 2.2 and Corollary 2.13. Assumes Gaussian noise: for another release it can
    exceed the epsilon that the mechanism has.
    """
    tpr, fpr, delta = _rates(tpr, fpr, delta)
    # Where tpr <= fpr the quantiles may both be infinite; their difference is not needed there.
    better = tpr > fpr
    mu = special.ndtri(np.where(better, tpr, 0.5)) - special.ndtri(np.where(better, fpr, 0.5))
    return mu_to_epsilon(mu, delta)


def roc(scores_in: ArrayLike, scores_out: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rates of "in iff score >= threshold" at every threshold that makes a difference.

    Parameters
    ----------
    scores_in, scores_out : array_like, shapes (n,) and (m,)
        Finite scores of trials with the canary in and out.

    Returns
    -------
    thresholds, tpr, fpr : ndarray, shape (k + 1,)
        Falling thresholds: infinity, where both rates are 0, then the k distinct scores. Equal scores are one
        block and enter a rate together, so with all scores equal the curve has two points and TPR at FPR f,
        read off linearly, is f.

    Raises
    ------
    ValueError
        If an array is empty, is not one-dimensional, or holds a number that is not finite.
    """
    inside, outside = (
        np.sort(sample(name, finite(name, scores)))
        for name, scores in (("scores_in", scores_in), ("scores_out", scores_out))
    )
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]
    tpr, fpr = (1 - np.searchsorted(side, thresholds, side="left") / side.size for side in (inside, outside))
    return np.r_[np.inf, thresholds], np.r_[0.0, tpr], np.r_[0.0, fpr]


def auc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Chance that a random "in" score exceeds a random "out" score, a tie counting one half.

    Parameters
    ----------
    scores_in, scores_out : array_like, shapes (n,) and (m,)
        Scores without NaN.

    Returns
    -------
    float
        The area under the curve of `roc`, by ranks (Mann and Whitney 1947); .5 if all scores are equal.

    Raises
    ------
    ValueError
        If an array is empty, is not one-dimensional, or holds NaN.
    """
    inside, outside = sample("scores_in", scores_in), np.sort(sample("scores_out", scores_out))
    below, not_above = (np.searchsorted(outside, inside, side=side) for side in ("left", "right"))
    return float((below.sum() + not_above.sum()) / (2 * inside.size * outside.size))


def _rates(tpr: ArrayLike, fpr: ArrayLike, delta: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    return in_interval("tpr", tpr, 0, 1), in_interval("fpr", fpr, 0, 1), in_interval("delta", delta, 0, 1)


def _log_ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """max(0, log(numerator/denominator)), with 0 where the numerator is not positive, even over 0."""
    positive = numerator > 0
    with np.errstate(divide="ignore"):
        return np.maximum(
            0.0, np.log(np.where(positive, numerator, 1)) - np.log(np.where(positive, denominator, 1))
        )[()]


CONVERSIONS = {"standard": epsilon_standard, "gdp": epsilon_gdp, "kairouz": epsilon_kairouz}
