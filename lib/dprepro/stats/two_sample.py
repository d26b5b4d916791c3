"""Lower bound on epsilon from two counts, by an exact two-sample test against the privacy region.

An attack says "in" in x of n trials with the target in and in y of m trials with it out. (epsilon, delta)-DP allows
the pairs of rates below a broken line (Kairouz, Oh, Viswanath 2015, Theorem 2.1). `epsilon_box` moves each rate to
its own Clopper-Pearson limit, as if both were at their worst at once. `p_value` tests the two counts together:
outcomes are ordered by the score statistic of Farrington and Manning (1990) against TPR = e^epsilon FPR + delta, and
the chance of one that is as extreme is maximised over the whole region, so the level holds at every sample size
(Barnard's test is the case epsilon = 0). `epsilon_two_sample` inverts it.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import at_most, in_interval, positive_count
from dprepro.stats.bounds import lower_limit, upper_limit
from dprepro.stats.tradeoff import epsilon_kairouz

FloatArray = NDArray[np.float64]

_GRID = (
    25  # points of the edge in a first look at where a mechanism looks worst, and as many towards either end
)
_PEAKS = 2  # of those that the first look shows, the highest; two finer looks at each follow
_STEPS = 8  # values of epsilon between 0 and the estimate that are tried, and again between two of them
_REFINEMENTS = 4
_HALVINGS = 40


def largest_tpr(fpr: ArrayLike, epsilon: ArrayLike, delta: ArrayLike = 0.0) -> FloatArray:
    """Largest true positive rate that (epsilon, delta)-DP allows at a false positive rate.

    Parameters
    ----------
    fpr, epsilon, delta : array_like
        fpr and delta in [0, 1], epsilon in [0, 700]; broadcast.

    Returns
    -------
    ndarray or scalar
        min(1, e^epsilon fpr + delta, 1 - e^-epsilon (1 - delta - fpr)).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    fpr, delta = in_interval("fpr", fpr, 0, 1), in_interval("delta", delta, 0, 1)
    ratio = np.exp(in_interval("epsilon", epsilon, 0, 700))
    return np.minimum(np.minimum(ratio * fpr + delta, 1 - np.maximum(1 - delta - fpr, 0) / ratio), 1.0)[()]


def epsilon_box(x: ArrayLike, n: ArrayLike, y: ArrayLike, m: ArrayLike, delta: float, alpha: float) -> Any:
    """Lower bound on epsilon from a limit of each rate, one-sided at alpha/2.

    Parameters
    ----------
    x, n : array_like
        How many of n trials with the target in were called "in".
    y, m : array_like
        How many of m trials with the target out were called "in"; all broadcast.
    delta : float
        In [0, 1).
    alpha : float
        Chance that the bound exceeds epsilon, in (0, 1/2], for a rule of decision fixed before the trials.

    Returns
    -------
    ndarray or scalar
        At least 0.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    x, n, y, m = _counts(x, n, y, m)
    delta, alpha = _levels(delta, alpha)
    return epsilon_kairouz(lower_limit(x, n, alpha / 2), upper_limit(y, m, alpha / 2), delta)


def p_value(x: int, n: int, y: int, m: int, epsilon: float, delta: float) -> float:
    """Chance, at most, that an (epsilon, delta)-DP mechanism gives counts as extreme as these.

    Parameters
    ----------
    x, n, y, m, delta
        As for `epsilon_box`, single numbers.
    epsilon : float
        The claim, in [0, 50].

    Returns
    -------
    float
        The largest over all pairs of rates in the privacy region, found to about four digits.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    The order of the outcomes looks at TPR <= e^epsilon FPR + delta alone, the line that matters at low false positive
    rates. Exchange "in" and "out" (x = m - y and so on) to look at the other one.
    """
    x, n, y, m = (int(count) for count in _counts(x, n, y, m))
    delta, _ = _levels(delta, 0.5)
    in_interval("epsilon", epsilon, 0, 50)
    outcomes, ratio = np.arange(m + 1), float(np.exp(epsilon))
    seen = _score(np.array(x), n, np.array(y), m, ratio, delta)
    # The statistic rises with x: for each count of false positives the least x that is as extreme, or n + 1.
    smallest, above = np.zeros(m + 1, dtype=np.int64), np.full(m + 1, n + 1)
    while (open_ := smallest < above).any():
        middle = (smallest + above) // 2
        extreme = _score(np.minimum(middle, n), n, outcomes, m, ratio, delta) >= seen - 1e-9
        above = np.where(open_ & extreme, middle, above)
        smallest = np.where(open_ & ~extreme, middle + 1, smallest)

    # scipy.stats.binom gives the same numbers and takes several times as long for a few trials.
    log_choose = -special.betaln(outcomes + 1, m - outcomes + 1) - np.log(m + 1)
    possible = smallest <= n

    def chance(fpr: float) -> float:
        reach = 10 * np.sqrt(m * fpr * (1 - fpr)) + 12  # what lies further out adds less than rounding does
        window = slice(max(int(m * fpr - reach), 0), int(m * fpr + reach) + 1)
        y, x = outcomes[window], np.clip(smallest[window], 1, n)
        as_extreme = special.betainc(x, n - x + 1, largest_tpr(fpr, epsilon, delta))  # P[Bin(n, TPR) >= x]
        as_extreme = np.where(smallest[window] == 0, 1.0, as_extreme) * possible[window]
        return float(
            np.exp(log_choose[window] + special.xlogy(y, fpr) + special.xlog1py(m - y, -fpr)) @ as_extreme
        )

    # More true and fewer false positives make it likelier, so no point of the region is worse than all of its edge.
    # It has several peaks, as outcomes come in steps; near an end one can be as narrow as a trial of the larger side.
    corner = (1 - delta) / (1 + ratio)
    near = np.geomspace(max(1e-6, min(1e-3, 0.1 / (ratio * max(n, m)))), 0.5, _GRID)
    grid = np.unique(np.r_[np.linspace(0, 1, _GRID), near, 1 - near, corner / (1 - delta)]) * (1 - delta)
    values = np.array([chance(fpr) for fpr in grid])
    peaks = np.flatnonzero((values >= np.r_[0, values[:-1]]) & (values >= np.r_[values[1:], 0]))
    worst = float(values.max())
    for peak in peaks[np.argsort(-values[peaks])][:_PEAKS]:
        points, best = grid, int(peak)
        for _ in range(2):
            points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, points.size - 1)], 11)
            found = [chance(fpr) for fpr in points]
            best = int(np.argmax(found))
            worst = max(worst, found[best])
    return min(worst, 1.0)


def epsilon_two_sample(x: int, n: int, y: int, m: int, delta: float, alpha: float) -> float:
    """Lower bound on epsilon by the two-sample test: the least epsilon whose `p_value` exceeds alpha.

    Parameters
    ----------
    x, n, y, m, delta, alpha
        As for `epsilon_box`, single numbers.

    Returns
    -------
    float
        At least 0, rounded down by at most 1/4096 of the estimate. With x = n and y = 0 it is log(a / (1 - a)) with
        a = alpha^(1/(n + m)), or 0, if delta is 0.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    delta, alpha = _levels(delta, alpha)
    if p_value(x, n, y, m, 0.0, delta) > alpha:
        return 0.0
    # No rate of n trials is known to be beyond these, so that an attack without an error has a finite estimate; nor
    # can the difference from 1 be smaller in a float.
    tpr, fpr = min(x / n, 1 - max(alpha / n / 10, 1e-15)), max(y / m, alpha / m / 10, 1e-15)
    estimate = float(epsilon_kairouz(tpr, fpr, delta))
    tries = np.r_[np.linspace(0, estimate, _STEPS + 1), estimate + 5]
    # Outcomes enter and leave the set of extreme ones as epsilon moves, so the p-value rises with small steps back:
    # the first crossing is sought, on a grid that is refined around it, and its near side is the bound.
    for _ in range(_REFINEMENTS):
        crossed = next(i for i, e in enumerate(tries) if i and p_value(x, n, y, m, e, delta) > alpha)
        tries = np.linspace(tries[crossed - 1], tries[crossed], _STEPS + 1)
    return float(tries[0])


def _score(x: NDArray[Any], n: int, y: NDArray[Any], m: int, ratio: float, delta: float) -> FloatArray:
    """(TPR - ratio FPR - delta) over its standard error under the likeliest rates with TPR = ratio FPR + delta."""
    x, y = np.broadcast_arrays(x, y)
    low, high = np.zeros(x.shape), np.full(x.shape, (1 - delta) / ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            fpr = (low + high) / 2
            tpr = ratio * fpr + delta
            slope = ratio * (x / tpr - (n - x) / (1 - tpr)) + y / fpr - (m - y) / (1 - fpr)
            low, high = np.where(slope > 0, fpr, low), np.where(slope > 0, high, fpr)
        variance = tpr * (1 - tpr) / n + ratio**2 * fpr * (1 - fpr) / m
        return (x / n - ratio * y / m - delta) / np.sqrt(variance)


def _counts(x: ArrayLike, n: ArrayLike, y: ArrayLike, m: ArrayLike) -> tuple[Any, Any, Any, Any]:
    n, m = positive_count("n", n), positive_count("m", m)
    x, y = positive_count("x", x, minimum=0), positive_count("y", y, minimum=0)
    at_most("x", x, "n", n)
    at_most("y", y, "m", m)
    return x, n, y, m


def _levels(delta: float, alpha: float) -> tuple[float, float]:
    return (
        float(in_interval("delta", delta, 0, 1, closed="left")),
        float(in_interval("alpha", alpha, 0, 0.5, closed="right")),
    )
