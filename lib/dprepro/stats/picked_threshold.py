"""What a point estimate of epsilon is worth if its threshold was the best of a range of false positive rates.

SynBench (arXiv 2509.14594) reads epsilon off a ROC curve where it is largest among false positive rates in [.1, .2].
The best of many thresholds looks better than the mechanism is. By how much has an answer that needs no model of the
scores: among all mechanisms with (epsilon, delta)-DP the one whose exact ROC curve is the edge of the privacy region
(Kairouz, Oh, Viswanath 2015) has the largest such maximum. Put each score where its false positive rate is: scores
"out" are then uniform, scores "in" of another mechanism can be drawn together with those on the edge so that each is
further from the top, and no count of true positives grows.

On the edge the score "in" with rank k, at a true positive rate V, lies above the score "out" with rank j, at a false
positive rate U, if and only if epsilon is at least that of the point (V, U). So a draw of uniform numbers gives
the least epsilon at which the printed estimate would have come out, for all epsilons at once.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count, sample
from dprepro.stats.tradeoff import epsilon_kairouz
from dprepro.stats.two_sample import largest_tpr

FloatArray = NDArray[np.float64]

_BLOCK = 1_000_000  # uniform numbers drawn at a time


def least_epsilons(
    estimate: float,
    n: int,
    m: int,
    fpr_range: tuple[float, float],
    runs: int,
    rng: np.random.Generator,
    *,
    delta: float = 0.0,
) -> FloatArray:
    """Draw the least epsilon at which a mechanism on the edge would show the estimate, or a larger one, somewhere.

    Parameters
    ----------
    estimate : float
        A point estimate of epsilon (Kairouz), at least 0: the largest at the thresholds in `fpr_range`.
    n, m : int
        Independent scores with the target in and out.
    fpr_range : (float, float)
        Observed false positive rates among which the threshold was picked, ends included; within [0, 1].
    runs : int
        Draws.
    rng : numpy.random.Generator
    delta : float
        In [0, 1), of the claim and of the estimate.

    Returns
    -------
    ndarray, shape (runs,)
        The share of entries at or below epsilon estimates the largest chance that an (epsilon, delta)-DP mechanism
        has of such an estimate. Infinite where none would show it.

    Raises
    ------
    ValueError
        If an argument lies outside its domain, or if no false positive rate of m scores lies in the range.
    """
    estimate = float(in_interval("estimate", estimate, 0, 700))
    n, m, runs = int(positive_count("n", n)), int(positive_count("m", m)), int(positive_count("runs", runs))
    delta = float(in_interval("delta", delta, 0, 1, closed="left"))
    ends = in_interval("fpr_range", fpr_range, 0, 1)
    if ends.shape != (2,) or ends[0] > ends[1]:
        raise ValueError(f"fpr_range must be two ends (low, high) in rising order, got {fpr_range!r}")
    low, high = ends
    # Rounding must neither lose a rate at an end of the range nor ask for one true positive more.
    allowed = np.arange(np.ceil(low * m - 1e-9), np.floor(high * m + 1e-9) + 1).astype(np.int64)
    if not allowed.size:
        raise ValueError(f"fpr_range must hold a multiple of 1/m = {1 / m:g}, got [{low:g}, {high:g}]")
    needed = np.ceil(n * largest_tpr(allowed / m, estimate, delta) - 1e-9).astype(np.int64)
    found = []
    for start in range(0, runs, block := max(1, _BLOCK // (n + m))):
        size = min(block, runs - start)
        inside = np.sort(rng.random((size, n)), axis=1)
        # With j false positives the threshold can fall until just above the score "out" of rank j + 1.
        outside = np.c_[np.sort(rng.random((size, m)), axis=1), np.ones(size)]
        tpr = np.where(needed > 0, inside[:, np.maximum(needed, 1) - 1], 0.0)
        found.append(epsilon_kairouz(tpr, outside[:, allowed], delta).min(axis=1))
    return np.concatenate(found)


def picked_bound(least: ArrayLike, alpha: float) -> float:
    """Lower bound on epsilon at confidence 1 - alpha that allows for the choice of the threshold.

    Parameters
    ----------
    least : array_like, shape (runs,)
        From `least_epsilons`.
    alpha : float
        In (0, 1); (runs + 1) alpha must be at least 1.

    Returns
    -------
    float
        The entry of rank floor((runs + 1) alpha): the draws themselves do not raise the error above alpha.

    Raises
    ------
    ValueError
        If alpha lies outside its domain, there are too few draws for it, or they are no row of numbers free of NaN.
    """
    drawn = sample("least", least)
    alpha = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    rank = int((drawn.size + 1) * alpha + 1e-9)
    if rank < 1:
        raise ValueError(
            f"least must have at least {int(np.ceil(1 / alpha)) - 1} entries for this alpha, got {drawn.size}"
        )
    return float(np.sort(drawn)[rank - 1])
