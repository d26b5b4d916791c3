r"""Two counts of one event, and bets against P(x) <= e^epsilon P(x') + delta.

An event has probability a under one database and b under its neighbour; n outputs of each give the counts X and Y.
The null is a <= e^epsilon b + delta, the violation a - e^epsilon b - delta. Its estimate and standard error are those
of ReTiDP (arXiv 2509.20283, step 1; delta is added here); the bets are the growth-optimal e-variables of Turner, Ly
and Gruenwald ("Generic e-variables for exact sequential k-sample tests", 2024), written so that they are valid at any
anchor.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import at_most, in_interval, positive_count

FloatArray = NDArray[np.float64]

EDGE = 1e-12  # rates are kept as far from 0 and 1
_ITERATIONS = 4  # for the anchor with a delta: five digits of it; any number is valid
_WHOLE = 1 - 1e-12  # a bet keeps a trace of the capital, so that no outcome ends the game


def violation(
    count_x: ArrayLike, count_y: ArrayLike, n: ArrayLike, epsilon: float, delta: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Estimate a - e^epsilon b - delta and its standard error from one step.

    Parameters
    ----------
    count_x, count_y : array_like
        How many of n outputs on x and on the neighbour x' lie in the event; they broadcast with n.
    n : array_like
        Outputs a side, at least 1.
    epsilon, delta : float
        The claim; epsilon in [0, 300], delta in [0, 1).

    Returns
    -------
    p_hat, sigma_hat : array
        X/n - e^epsilon Y/n - delta, and sqrt(X/n (1 - X/n)/n + e^(2 epsilon) Y/n (1 - Y/n)/n), which is 0 where
        every output or none lies in the event.

    Raises
    ------
    ValueError
        A count above n or below 0, n = 0, or an argument outside its domain.
    """
    x, y, n = checked_counts(count_x, count_y, n)
    ratio, delta = checked_claim(epsilon, delta)
    a, b = x / n, y / n
    return a - ratio * b - delta, np.sqrt((a * (1 - a) + ratio**2 * b * (1 - b)) / n)


def anchored_bet(
    a: ArrayLike, b: ArrayLike, epsilon: float, delta: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the bet that grows fastest if the rates are a and b.

    Parameters
    ----------
    a, b : array_like
        Rates in [1e-12, 1 - 1e-12] on x and x'; they broadcast.
    epsilon, delta : float
        The claim.

    Returns
    -------
    stake, anchor : array
        For `log_e_value`. The anchor is the rate b0 of the point (e^epsilon b0 + delta, b0) of the null that is
        nearest to (a, b) in Kullback-Leibler divergence. The stake is 0 where (a, b) keeps the claim.

    Raises
    ------
    ValueError
        An argument outside its domain.

    Notes
    -----
    With r = e^epsilon, V(p) = p (1 - p) and a0 = r b0 + delta the divergence is least where

        r (a0 - a) V(b0) + (b0 - b) V(a0) = 0,    and then    stake = (a - r b - delta) / (V(a0) + r^2 V(b0)).

    Divided by r b0 this is (a0 - a)(1 - b0) + s (b0 - b)(1 - a0) = 0 with s = a0/(r b0). For delta = 0 it is s = 1
    and the quadratic equation gives b0; for delta > 0 it is solved for the s of the last b0, a few times.
    """
    a, b = in_interval("a", a, EDGE, 1 - EDGE), in_interval("b", b, EDGE, 1 - EDGE)
    ratio, delta = checked_claim(epsilon, delta)
    excess = np.maximum(a - ratio * b - delta, 0)
    top = (1 - delta) / ratio  # where a0 = 1
    gain = a - delta
    anchor = np.minimum(b + excess / (2 * ratio), top)
    for _ in range(_ITERATIONS if delta else 1):
        s = 1 + delta / (ratio * anchor)
        linear = ratio * (1 + s * b) + gain + s * (1 - delta)
        constant = gain + s * b * (1 - delta)
        # The smaller root, written so that nothing cancels.
        root = np.sqrt(np.maximum(linear**2 - 4 * ratio * (1 + s) * constant, 0))
        anchor = np.minimum(np.maximum(2 * constant / (linear + root), b), top)
    a0 = ratio * anchor + delta
    spread = a0 * (1 - a0) + ratio * (ratio * anchor * (1 - anchor))
    stake = np.divide(excess, spread, out=np.zeros_like(excess), where=excess > 0)
    with np.errstate(divide="ignore"):  # b0 = 1 if epsilon and delta are 0: no upper limit from x'
        largest = np.minimum(1 / a0, 1 / (ratio * (1 - anchor)))
    return np.minimum(stake, _WHOLE * largest), anchor


def log_e_value(
    count_x: ArrayLike,
    count_y: ArrayLike,
    n: ArrayLike,
    stake: ArrayLike,
    anchor: ArrayLike,
    epsilon: float,
    delta: float = 0.0,
) -> FloatArray:
    r"""Log of an e-variable: a payoff whose expectation is at most 1 under every a <= e^epsilon b + delta.

    Parameters
    ----------
    count_x, count_y, n : array_like
        Counts of one step, known only after the bet.
    stake, anchor : array_like
        As `anchored_bet` gives them: any b0 in [0, (1 - delta)/e^epsilon], and any L >= 0 with L a0 < 1 and
        L e^epsilon (1 - b0) < 1, where a0 = e^epsilon b0 + delta. Not checked.
    epsilon, delta : float
        The claim.

    Returns
    -------
    array
        X log(1 + L(1-a0)) + (n-X) log(1 - L a0) + Y log(1 - L r(1-b0)) + (n-Y) log(1 + L r b0), r = e^epsilon.

    Notes
    -----
    Proof. Let the n + n outputs be independent, with rates a and b. An output on x multiplies the payoff by
    1 + L(1 - a0) or 1 - L a0, neither negative, with mean 1 + L(a - a0); one on x' by 1 - L r(1 - b0) or 1 + L r b0,
    neither negative, with mean 1 - L r(b - b0). The product of the two means is at most the square of half their
    sum, 1 + L/2 (a - r b - a0 + r b0) = 1 + L/2 (a - r b - delta), which lies in [0, 1] under the claim. So the n + n
    outputs have a payoff of mean at most 1. No large n, no variance and no smoothness enters; b0 and L may depend
    on all earlier steps.

    For a = a0 + L V(a0), b = b0 - L r V(b0) the payoff is the likelihood ratio of (a, b) against (a0, b0), the null's
    nearest point: no e-variable has a larger mean of its log under that (a, b).
    """
    x, y, n = np.asarray(count_x), np.asarray(count_y), np.asarray(n)
    ratio = np.exp(epsilon)
    stake, anchor = np.asarray(stake), np.asarray(anchor)
    a0 = ratio * anchor + delta
    return (
        x * np.log1p(stake * (1 - a0))
        + (n - x) * np.log1p(-stake * a0)
        + y * np.log1p(-stake * ratio * (1 - anchor))
        + (n - y) * np.log1p(stake * ratio * anchor)
    )


def checked_counts(
    count_x: ArrayLike, count_y: ArrayLike, n: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the counts as integers of one shape.

    Raises
    ------
    ValueError
        n < 1, a count below 0 or above n, a number that is not whole, an empty array, shapes that do not broadcast.
    """
    size = positive_count("n", n)
    x, y = positive_count("count_x", count_x, minimum=0), positive_count("count_y", count_y, minimum=0)
    try:
        x, y, size = np.broadcast_arrays(x, y, size)
    except ValueError:
        raise ValueError(
            f"count_x, count_y and n must have shapes that broadcast, got {x.shape}, {y.shape} and {size.shape}"
        ) from None
    if not x.size:
        raise ValueError(f"count_x, count_y and n must not be empty, got shape {x.shape}")
    at_most("count_x", x, "n", size)
    at_most("count_y", y, "n", size)
    return x, y, size


def checked_claim(epsilon: float, delta: float) -> tuple[float, float]:
    """Return e^epsilon and delta; ValueError outside epsilon in [0, 300] and delta in [0, 1)."""
    # e^(2 * 300) times any count is a number still.
    epsilon = float(in_interval("epsilon", epsilon, 0, 300))
    return float(np.exp(epsilon)), float(in_interval("delta", delta, 0, 1, closed="left"))
