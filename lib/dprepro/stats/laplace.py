"""Laplace law of scale 1: noise, the mass of an interval without cancellation, expectations to machine precision.

The three classical mechanisms (noisy counts, report noisy max, sparse vector) add Laplace noise. Their exact
output probabilities are masses of intervals, or the mean of a product of such masses over one shared noise.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite

FloatArray = NDArray[np.float64]

_BLOCK = 16_384  # draws at a time: both halves of the difference stay in the cache
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(16) + np.array([[1.0], [0.0]])) / 2  # on (0, 1)
_TOLERANCE = (
    1e-13  # of the whole, a panel; the finer of the two values compared, which is used, is far better
)
_HALVINGS = 40
_MOST_PANELS = 20_000  # a g that is NaN or noise would double them for ever
_FAR = 745.0  # exp(-745) is the smallest positive number
_SMALLEST = 1e-300  # below it numbers lose digits, and agreement is no longer to be had


def laplace_noise(n: int, rng: np.random.Generator) -> FloatArray:
    """Independent noise with density exp(-|x|)/2, shape (n,).

    The difference of two exponential variables has exactly this law. NumPy draws those by the ziggurat method,
    without a logarithm, so the pair costs about half of ``rng.laplace``.
    """
    noise = np.empty(n)
    for start in range(0, n, _BLOCK):
        block = noise[start : start + _BLOCK]
        rng.standard_exponential(out=block)
        block -= rng.standard_exponential(block.size)
    return noise


def laplace_mass(low: ArrayLike, high: ArrayLike) -> FloatArray:
    """P(low < X <= high) for X with density exp(-|x|)/2.

    Parameters
    ----------
    low, high : array_like
        low <= high, unchecked; either may be infinite; broadcast.

    Returns
    -------
    ndarray or scalar
        Exact to rounding also for short intervals and far tails, where a difference of two values of the
        distribution function would lose its digits.
    """
    low, high = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    # The law is symmetric: an interval on the right of 0 has the mass of its mirror image on the left.
    mirror = low > 0
    left, right = np.where(mirror, -high, low), np.where(mirror, -low, high)
    with np.errstate(over="ignore", invalid="ignore"):  # in the branch that is not chosen
        one_side = -0.5 * np.exp(right) * np.expm1(left - right)
        around_zero = -0.5 * (np.expm1(left) + np.expm1(-right))
    return np.where(right <= 0, one_side, around_zero)[()]


def laplace_expectation(g: Callable[[FloatArray], FloatArray], kinks: ArrayLike = ()) -> float:
    """E[g(X)] for X with density exp(-|x|)/2 and a bounded g >= 0 that is smooth but for given kinks.

    Parameters
    ----------
    g : callable
        Elementwise on arrays of any shape.
    kinks : array_like, shape (k,)
        Where g or one of its derivatives jumps; 0 need not be named.

    Returns
    -------
    float
        Relative error about 1e-13, also of expectations that are tiny (0 below about 1e-300).

    Raises
    ------
    ValueError
        If a kink is not finite.
    ArithmeticError
        If the quadrature does not converge, as where g is NaN.

    Notes
    -----
    Adaptive Gauss-Legendre quadrature with 16 nodes a panel; a panel is halved until its two halves agree with
    it. The first panels double in length away from each kink, so that a g which falls steeply from a kink is
    not overlooked.
    """
    cuts = _first_cuts(finite("kinks", kinks))
    start, end = cuts[:-1], cuts[1:]
    whole, total = _panel(g, start, end), 0.0
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        left, right = _panel(g, start, middle), _panel(g, middle, end)
        both = left + right
        rough = ~(np.abs(both - whole) <= _TOLERANCE * (total + both.sum()) + _SMALLEST)  # also where NaN
        total += float(both[~rough].sum())
        if not rough.any():
            return total
        start, end = np.append(start[rough], middle[rough]), np.append(middle[rough], end[rough])
        whole = np.append(left[rough], right[rough])
        if start.size > _MOST_PANELS:
            break
    raise ArithmeticError(f"the expectation did not converge between {start.min():g} and {end.max():g}")


def _first_cuts(kinks: FloatArray) -> FloatArray:
    """Kinks, 0 and the ends of the line, with cuts at distances that double from each up to the midpoint."""
    knots = np.unique(np.concatenate(([-_FAR, 0.0, _FAR], np.clip(kinks, -_FAR, _FAR))))
    gaps = np.diff(knots)[:, None] / 2
    steps = np.minimum(2.0 ** np.arange(-6, 9), gaps)
    return np.unique(
        np.concatenate([knots, (knots[:-1, None] + steps).ravel(), (knots[1:, None] - steps).ravel()])
    )


def _panel(g: Callable[[FloatArray], FloatArray], start: FloatArray, end: FloatArray) -> FloatArray:
    x = start[:, None] + (end - start)[:, None] * _NODES
    return (end - start) * ((0.5 * np.exp(-np.abs(x)) * g(x)) @ _WEIGHTS)
