"""Does a short series rise? Exact tests for a few values, alone or in several series.

Kendall's S counts pairs in order less pairs in disorder; its chances follow from all arrangements of the values, ties
included, and those of a sum over independent series by convolution (the seasonal test of Hirsch, Slack and Smith
1982, here exact). The distance from the nearest rising series, in units of a known noise, has under any rising truth
at most the chances that it has under a flat one, a mixture of chi-squares (Robertson, Wright, Dykstra, "Order
Restricted Statistical Inference", 1988, theorem 2.3.1). The first asks whether there is a trend at all, the second
whether a fall somewhere is more than noise.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dprepro.base.check import finite, in_interval

FloatArray = NDArray[np.float64]

_LONGEST = 8  # values in a series: all of their arrangements are visited


class Trend(NamedTuple):
    """Kendall's S of one or several series, the number of pairs that it counts, and one-sided p-values."""

    s: int
    pairs: int
    p_rising: float
    p_falling: float


def trend(series: Sequence[ArrayLike]) -> Trend:
    """Test for a common trend of several short series against none.

    Parameters
    ----------
    series : sequence of array_like
        Each in the order of what should drive it, of 2 to 8 finite values; equal values are ties.

    Returns
    -------
    Trend
        Under the null each series is in random order, independently. `pairs` leaves ties out.

    Raises
    ------
    ValueError
        No series, or one that is too short, too long or not finite.
    """
    if not isinstance(series, Sequence | np.ndarray) or not len(series):
        raise ValueError(f"series must be a sequence of at least one series, got {series!r:.80}")
    s, pairs, law = 0, 0, {0: 1.0}
    for values in series:
        array = _short("series", values)
        s, pairs = s + _s(array), pairs + sum(a != b for a, b in itertools.combinations(array.tolist(), 2))
        # Arrangements of ranks: equal for equal patterns of ties, and there are few of those.
        ranks = tuple(np.unique(array, return_inverse=True)[1].tolist())
        one = _law(tuple(sorted(ranks)))
        joint: dict[int, float] = defaultdict(float)
        for (a, p), (b, q) in itertools.product(law.items(), one.items()):
            joint[a + b] += p * q
        law = dict(joint)
    rising = math.fsum(p for value, p in law.items() if value >= s)
    falling = math.fsum(p for value, p in law.items() if value <= s)
    return Trend(s, pairs, min(rising, 1.0), min(falling, 1.0))


def fall(values: ArrayLike) -> float:
    """Root of the sum of squares between a series and the nearest one that nowhere falls.

    Parameters
    ----------
    values : array_like, shape (n,)
        2 to 8 finite values.

    Raises
    ------
    ValueError
        As `trend`.
    """
    array = _short("values", values)
    return float(np.linalg.norm(array - optimize.isotonic_regression(array).x))


def fall_p_value(values: ArrayLike, sd: float) -> float:
    """Chance, at most, of so large a `fall` if the truth nowhere falls and each value has normal noise.

    Parameters
    ----------
    values : array_like, shape (n,)
    sd : float
        Standard deviation of the noise of one value, positive.

    Raises
    ------
    ValueError
        As `trend`; a standard deviation that is not positive.
    """
    array = _short("values", values)
    sd = float(in_interval("sd", sd, 0, math.inf, closed="neither"))
    return _tail((fall(array) / sd) ** 2, array.size)


def noise_needed(values: ArrayLike, alpha: float) -> float:
    """Standard deviation of the noise below which `fall_p_value` is less than alpha; 0 for a series that rises.

    Parameters
    ----------
    values : array_like, shape (n,)
    alpha : float
        In (0, 1/2).

    Raises
    ------
    ValueError
        As `trend`; alpha outside its domain.
    """
    array = _short("values", values)
    alpha = float(in_interval("alpha", alpha, 0, 0.5, closed="neither"))
    limit = optimize.brentq(lambda square: _tail(square, array.size) - alpha, 1e-12, 1e4)
    return fall(array) / math.sqrt(limit)


def _tail(square: float, n: int) -> float:
    """P[chi-bar-square >= square]: with j levels in the nearest rising series, chi-square with n - j degrees."""
    if square <= 0:
        return 1.0
    # Chances of j levels among n values of equal weight: the coefficients of x (x + 1) ... (x + n - 1) over n!.
    levels = np.array([0.0, 1.0])
    for k in range(1, n):
        levels = np.convolve(levels, [k, 1.0])
    levels /= math.factorial(n)
    return float(sum(levels[j] * special.chdtrc(n - j, square) for j in range(1, n)))


def _s(values: Sequence[float] | FloatArray) -> int:
    return sum((b > a) - (b < a) for a, b in itertools.combinations(np.asarray(values).tolist(), 2))


def _law(ranks: tuple[int, ...]) -> dict[int, float]:
    counts = Counter(_s(order) for order in itertools.permutations(ranks))
    return {value: count / math.factorial(len(ranks)) for value, count in counts.items()}


def _short(name: str, values: ArrayLike) -> FloatArray:
    array = finite(name, values)
    if array.ndim != 1 or not 2 <= array.size <= _LONGEST:
        raise ValueError(f"{name} must have 2 to {_LONGEST} values each, got shape {array.shape}")
    return array
