"""Largest weighted increment of simulated Brownian paths: max over u < v of (B(v) - B(u)) / (v - u)^beta.

The statistic of ReTiDP ("Monitoring Violations of Differential Privacy over Time", arXiv 2509.20283) has the law
of this maximum over a grid. M points make M^2/2 pairs, and every one of them counts: nothing is approximated.
A grid of up to 200 points goes lag by lag. A longer one is cut into chunks first; the extremes of two chunks and
the smallest and largest lag between them enclose what their pairs can reach, and only the few pairs of chunks
that may hold the maximum are looked at point by point.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_DENSE = 200  # points up to which all pairs cost less than chunks do
_BLOCK = 2**21  # values of a block of paths: 16 MB
_WIDEST, _NARROWEST = (
    2048,
    16,
)  # paths of a block; NumPy calls on fewer paths would keep a second thread waiting
_LEAF = 2**16  # pairs looked at together: they stay in the cache
_MOST_THREADS = 8  # each holds a few arrays of the size of a block


def increment_suprema(path: FloatArray, beta: float, allowance: float = 0.0) -> FloatArray:
    """max over u < v of (B(v) - B(u) + allowance) / (v - u)^beta of each path, exact but for rounding.

    Parameters
    ----------
    path : array, shape (points, paths)
        A column a path: B at `points` equally spaced times from 0 to 1; at least two points.
    beta : float
        In [0, 1/2]; not checked.
    allowance : float
        Added to every increment, at least 0 (see `brownian.increment_supremum_limit`).

    Returns
    -------
    array, shape (paths,)
        Negative where a path decreases all the way.
    """
    points, width = path.shape
    best_step = np.diff(path, axis=0).max(axis=0) + allowance
    best_step *= (points - 1.0) ** beta
    # From here on only positive increments matter, which makes every bound below one multiplication. If the best
    # step is negative, two steps together fall further than the better one of them, and it is the maximum.
    best = np.maximum(best_step, 0)

    chunk = 1 if points <= _DENSE else round(0.4 * points**0.5)
    count = -(-points // chunk)
    padding = np.broadcast_to(
        path[-1], (count * chunk - points, width)
    )  # longer lags without a larger increment
    chunks = np.concatenate([path, padding]).reshape(count, chunk, width)
    high, low = chunks.max(axis=1) + allowance, chunks.min(axis=1)
    weight = np.zeros(2 * count * chunk)  # by lag; a negative lag finds one of the zeros at the end
    weight[1 : count * chunk] = (np.arange(1, count * chunk) / (points - 1)) ** -beta

    buffer = np.empty_like(high)
    for gap in range(1, count):  # chunks apart; the extremes of two chunks are one of their pairs
        rise = np.subtract(high[gap:], low[:-gap], out=buffer[gap:])
        np.maximum(best, rise.max(axis=0) * weight[(gap + 1) * chunk - 1], out=best)
    if chunk > 1:
        _search_inside(chunks, high, low, weight, allowance, best)
    return np.where(best_step > 0, best, best_step)


def _search_inside(
    chunks: FloatArray,
    high: FloatArray,
    low: FloatArray,
    weight: FloatArray,
    allowance: float,
    best: FloatArray,
) -> None:
    """Raise `best` by the pairs of points in those pairs of chunks that may exceed it."""
    count, chunk, _ = chunks.shape
    offset = np.arange(chunk) - np.arange(chunk)[:, None]
    at_once = max(1, _LEAF // chunk**2)
    for gap in range(count):
        shortest = max((gap - 1) * chunk + 1, 1)
        rows, columns = np.nonzero(high[gap:] - low[: count - gap] > best / weight[shortest])
        weights = weight[gap * chunk + offset]
        for start in range(0, len(rows), at_once):
            row, column = rows[start : start + at_once], columns[start : start + at_once]
            later = chunks[row + gap, :, column] + allowance
            rise = later[:, None, :] - chunks[row, :, column][:, :, None]
            np.maximum.at(best, column, (rise * weights).max(axis=(1, 2)))


def over_brownian_paths(
    grid: int, n_paths: int, rng: np.random.Generator, evaluate: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Evaluate a function of the path on independent standard Brownian paths.

    Parameters
    ----------
    grid : int
        Steps: the path is drawn at 0, 1/grid, ..., 1.
    n_paths : int
    rng : numpy.random.Generator
        Gives the seeds of the blocks; each block draws from its own stream, so the result does not depend on the
        number of threads.
    evaluate : callable
        Takes paths of shape (grid + 1, m) and returns an array whose last axis has m entries.

    Returns
    -------
    array, shape (..., n_paths)

    Notes
    -----
    Memory is that of a few blocks of 2,048 paths (fewer on grids beyond 1,024 steps, down to 16) for each thread.
    """
    width = min(max(_BLOCK // grid, _NARROWEST), _WIDEST)
    sizes = [min(width, n_paths - start) for start in range(0, n_paths, width)]
    seeds = np.random.SeedSequence(rng.integers(2**32, size=8).tolist()).spawn(len(sizes))

    def block(size: int, seed: np.random.SeedSequence) -> FloatArray:
        path = np.zeros((grid + 1, size))
        path[1:] = np.random.default_rng(seed).normal(scale=grid**-0.5, size=(grid, size))
        return evaluate(np.cumsum(path, axis=0, out=path))

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS, len(sizes))) as threads:
        return np.concatenate(list(threads.map(block, sizes, seeds)), axis=-1)
