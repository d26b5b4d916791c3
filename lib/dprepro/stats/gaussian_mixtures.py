"""Exact epsilon between two mixtures of Gaussians: clean outputs that vary, under Gaussian noise.

A pipeline whose model answers at random releases a mixture: N(c, sigma^2 I) with c drawn from the clean outputs. What
it leaks at a given delta is the hockey-stick divergence (Balle, Barthe, Gaboardi 2018, arXiv 1807.01647)

    delta(epsilon) = integral of max(p(x) - e^epsilon q(x), 0) dx,

of the mixtures p and q with the canary and without, in whichever direction is larger. It is integrated on a grid in
the plane (or line) of the clean outputs, by the trapezoidal rule, whose error for sums of Gaussians falls
faster than any power of the step; the kink where p = e^epsilon q is what is left of it.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from dprepro.base.check import finite, in_interval

Array = NDArray[np.float64]
_REACH = 9.0  # standard deviations beyond the outermost centres: the rest has a probability below 1e-18
_STEP = {1: 0.002, 2: 0.04}  # of sigma
_LARGEST_EPSILON = 200.0
_LARGEST_GRID = 2 * 10**7  # cells, 160 MB an array


def mixture_epsilon(rows_in: ArrayLike, rows_out: ArrayLike, sigma: float, delta: float) -> float:
    """Smallest epsilon for which the two mixtures are (epsilon, delta)-indistinguishable, in both directions.

    Parameters
    ----------
    rows_in, rows_out : array, shapes (n, d) and (m, d), d of 1 or 2
        Clean outputs, each equally probable; equal rows are counted together.
    sigma : float
        Standard deviation of the noise on each coordinate, in (0, inf).
    delta : float
        In (0, 1); results lose digits below 1e-8.

    Returns
    -------
    float
        0 or more, with about four digits.

    Raises
    ------
    ValueError
        An argument outside its domain; rows so many sigma apart that the grid would have more than 2e7 cells (in the
        line some 40,000 sigma, in the plane a square of some 160).
    """
    inside, outside = sides = _checked("rows_in", rows_in), _checked("rows_out", rows_out)
    noise = float(in_interval("sigma", sigma, 0.0, np.inf, closed="neither"))
    target = float(in_interval("delta", delta, 0.0, 1.0, closed="neither"))
    if inside.shape[1] != outside.shape[1]:
        raise ValueError(
            f"rows_out must have the {inside.shape[1]} columns of rows_in, got {outside.shape[1]}"
        )
    p, q = (np.zeros(1), np.zeros(1)) if np.array_equal(inside, outside) else _masses(sides, noise)
    return max(_epsilon(p, q, target), _epsilon(q, p, target))


def _checked(name: str, rows: ArrayLike) -> Array:
    found = finite(name, rows)
    if found.ndim != 2 or not len(found) or found.shape[1] not in _STEP:
        raise ValueError(
            f"{name} must have shape (n, d) with n of at least 1 and d of 1 or 2, got {found.shape}"
        )
    return found


def _masses(sides: tuple[Array, Array], sigma: float) -> tuple[Array, Array]:
    """Probabilities of the cells of a grid under either mixture."""
    with np.errstate(over="ignore", invalid="ignore"):
        everything = np.concatenate(sides) / sigma
        step = _STEP[everything.shape[1]]
        cells = float(np.prod((np.ptp(everything, axis=0) + 2 * _REACH) / step + 1))
    if not cells <= _LARGEST_GRID:
        raise ValueError(
            f"sigma must be larger for rows that lie so far apart, got {sigma:g}: the grid would have {cells:.2g} "
            f"cells, at most {_LARGEST_GRID:.0e}"
        )
    axes = [np.arange(column.min() - _REACH, column.max() + _REACH + step, step) for column in everything.T]
    found = []
    for rows in sides:
        centres, counts = np.unique(rows / sigma, axis=0, return_counts=True)
        # A Gaussian with independent coordinates is a product: one factor an axis.
        letters = "ab"[: len(axes)]
        form = ",".join(["n", *(f"n{letter}" for letter in letters)])
        masses = np.zeros([len(axis) for axis in axes])
        at_once = max(1, _LARGEST_GRID // max(masses.shape))  # centres: no factor is larger than that
        for start in range(0, len(centres), at_once):
            part = slice(start, start + at_once)
            factors = [
                step / np.sqrt(2 * np.pi) * np.exp(-((axis - centres[part, [place]]) ** 2) / 2)
                for place, axis in enumerate(axes)
            ]
            masses += np.einsum(f"{form}->{letters}", counts[part] / len(rows), *factors, optimize=True)
        found.append(masses.ravel())
    return found[0], found[1]


def _epsilon(p: Array, q: Array, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return float(np.maximum(p - np.exp(epsilon) * q, 0).sum()) - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, _LARGEST_EPSILON, xtol=1e-6)) if excess(_LARGEST_EPSILON) < 0 else np.inf
