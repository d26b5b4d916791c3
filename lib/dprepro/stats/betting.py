"""Confidence interval for the mean of bounded values, by betting against it.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024), section 4.4: hedged
capital with predictable plug-in bets. Someone who claims that the mean is m offers fair bets on the next value
minus m. Capital that starts at 1 and never goes negative is then a martingale, and by Ville's inequality it
reaches 1/a with probability at most a, at any time. Every m against which it did is rejected.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, sample

FloatArray = NDArray[np.float64]

_CAP = 0.75  # largest share of the capital that one bet may lose
_BISECTIONS = 50  # 2^-50 is below the rounding of the capital


def betting_interval(values: ArrayLike, alpha: float) -> tuple[float, float]:
    """Interval that holds the mean of independent values in [0, 1] with probability 1 - alpha.

    Parameters
    ----------
    values : array_like, shape (n,)
        Independent values in [0, 1] with one mean, in the order in which they were drawn.
    alpha : float
        Chance of a miss, in (0, 1); alpha/2 on each side, so each end is a one-sided limit at alpha/2.

    Returns
    -------
    low, high : float
        0 <= low <= mean of the values <= high <= 1, valid at every n and for every distribution.

    Raises
    ------
    ValueError
        If `values` is empty, is not one-dimensional, or leaves [0, 1], or alpha its domain.

    Notes
    -----
    The bet at time t may look at the values before t only:

        lambda_t = sqrt(2 log(2/alpha) / (n sigma_{t-1}^2)),   sigma_t^2 = (1/4 + sum_i (x_i - mean_i)^2) / (t + 1),

    with mean_i = (1/2 + x_1 + ... + x_i) / (i + 1), capped at .75/m (.75/(1 - m) on the other side) so that no
    bet can ruin. An m is rejected as soon as the capital against it has reached 2/alpha once. The capital that
    bets on larger values falls as m grows, so the rejected m are an interval and its end is found by bisection.
    Nearly constant values give intervals of length 1/n, not 1/sqrt(n).
    """
    x = in_interval("values", sample("values", values), 0, 1)
    alpha = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    bets = _plug_in_bets(x, alpha)
    return _rejected_below(x, bets, alpha), 1 - _rejected_below(1 - x, bets, alpha)


def _plug_in_bets(x: FloatArray, alpha: float) -> FloatArray:
    """lambda_1, ..., lambda_n before the cap; the same for x and 1 - x."""
    count = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.append(0.25, variance[:-1])
    return np.sqrt(2 * np.log(2 / alpha) / (x.size * before))


def _rejected_below(x: FloatArray, bets: FloatArray, alpha: float) -> float:
    """Largest m that the bets on larger values reject (0 if none), to within 2^-50 and on the safe side."""
    goal = np.log(2 / alpha)

    def rejects(m: float) -> bool:
        stakes = np.minimum(bets, _CAP / m)
        return bool(np.cumsum(np.log1p(stakes * (x - m))).max() >= goal)

    low, high = 0.0, float(x.mean())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if middle <= low or middle >= high:
            break
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low
