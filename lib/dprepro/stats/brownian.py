"""Quantiles of the largest weighted increment of Brownian motion, the thresholds of ReTiDP.

"Monitoring Violations of Differential Privacy over Time" (arXiv 2509.20283): without a violation the monitoring
statistic has the law of

    D = sup over 0 <= u < v <= 1 of (B(v) - B(u)) / (v - u)^beta,   0 <= beta < 1/2,

at most, B standard Brownian motion, and the alarm threshold is its 1 - alpha quantile. A statistic of T steps sees
B at 0, 1/T, ..., 1 only: its threshold is the quantile on that grid, which is smaller than that of the limit.
"""

import json
from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dprepro.base.check import in_interval, positive_count
from dprepro.base.paths import build_dir
from dprepro.base.store import sha256_bytes, sha256_json, sha256_tree, write_atomic
from dprepro.stats import brownian_suprema
from dprepro.stats.brownian_suprema import increment_suprema, over_brownian_paths

FloatArray = NDArray[np.float64]

_FEWEST_BEYOND = (
    16  # sampled values expected beyond a quantile, so that four standard deviations of ranks exist
)
_RANKS = 2  # standard deviations of the rank on either side, for the standard error
# -zeta(1/2) / sqrt(2 pi): by how many standard deviations of a step Brownian motion exceeds its maximum on a grid
_OVERSHOOT = 0.5825971579390106
_COARSENING = 4
_LIMIT_GRID = 1024
_SEED = 20_250_920
# Taken at import, when it is the code that runs.
_CODE = sha256_tree([__file__, brownian_suprema.__file__])


def increment_supremum_quantile(
    alpha: ArrayLike, beta: float, grid: int, n_paths: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """1 - alpha quantile of D with u and v restricted to 0, 1/grid, ..., 1, by simulation.

    Parameters
    ----------
    alpha : array_like
        Chance that D exceeds the quantile, in (0, 1).
    beta : float
        In [0, 1/2).
    grid : int
        Steps; the horizon T for a statistic of T steps with Gaussian increments.
    n_paths : int
        Simulated paths, at least 16/min(alpha, 1 - alpha).
    rng : numpy.random.Generator

    Returns
    -------
    quantile, standard_error : float, or ndarray of alpha's shape
        The order statistic that a further draw of D exceeds with probability at most alpha, and its standard error.

    Raises
    ------
    ValueError
        If an argument lies outside its domain or `n_paths` is too small.

    Notes
    -----
    With n = n_paths, the rank of the true quantile in the sample is binomial with standard deviation
    s = sqrt(n alpha (1 - alpha)). The standard error is a quarter of the distance between the order statistics 2 s
    below and above the quantile's rank: no density is assumed, and its relative error is about 1/sqrt(4 s).
    """
    tail, beta, grid, n_paths = _checked(alpha, beta, grid, n_paths)
    return _sample_quantile(_sorted_suprema(beta, grid, n_paths, rng, 0.0), tail)


def increment_supremum_limit(
    alpha: ArrayLike, beta: float, n_paths: int, rng: np.random.Generator, grid: int = _LIMIT_GRID
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """1 - alpha quantile of D itself, u and v anywhere in [0, 1], extrapolated from a grid.

    Parameters
    ----------
    alpha, beta, n_paths, rng
        As in `increment_supremum_quantile`.
    grid : int
        Steps of the simulated paths, a multiple of 4.

    Returns
    -------
    quantile, standard_error : float, or ndarray of alpha's shape
        The error is that of the simulation.
    residual : float, or ndarray of alpha's shape
        How far the extrapolation still depends on the grid: the quantile minus that from every fourth point of
        the same paths. Errors fall like 1/grid once the law below has set in; the quantile is then off by about a
        third of the residual. Near beta = 1/2 it sets in late (beta = .45: residual .01 at 1,024 steps).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    The supremum is reached at some u* < v*, and near v* and u* the path looks as near the maximum and the minimum
    of Brownian motion: the factor (v - u)^-beta is smooth there. A maximum exceeds that on M points by
    c M^-1/2 on average, c = -zeta(1/2)/sqrt(2 pi) = .5826, independently of its height to first order (Asmussen,
    Glynn and Pitman 1995). Hence, for every beta,

        q = q_M + 2 c E[(v* - u*)^-beta | D = q] M^-1/2 + o(M^-1/2).

    The factor E needs no estimate: the quantile of max (B(v) - B(u) + 2 c M^-1/2) / (v - u)^beta on the grid has
    the same first-order term, as an added constant shifts a maximum by the constant times the weight where it is
    reached. At beta = 0 this is Siegmund's correction of the CUSUM boundary, 1.166 standard deviations.
    """
    tail, beta, grid, n_paths = _checked(alpha, beta, grid, n_paths)
    if grid % _COARSENING:
        raise ValueError(f"grid must be a multiple of {_COARSENING}, got {grid}")

    def on_two_grids(path: FloatArray) -> FloatArray:
        grids = (path, path[::_COARSENING])
        return np.stack([increment_suprema(points, beta, _allowance(len(points) - 1)) for points in grids])

    fine, coarse = (np.sort(v) for v in over_brownian_paths(grid, n_paths, rng, on_two_grids))
    quantile, error = _sample_quantile(fine, tail)
    return quantile, error, quantile - _sample_quantile(coarse, tail)[0]


def absolute_supremum_quantile(alpha: ArrayLike) -> FloatArray:
    """Exact 1 - alpha quantile of D at beta = 0: of sup |B| over [0, 1], which has the same law (Lévy).

    Parameters
    ----------
    alpha : array_like
        In (0, 1).

    Returns
    -------
    float, or ndarray of alpha's shape
        To about twelve digits.

    Raises
    ------
    ValueError
        If alpha lies outside its domain.
    """
    tail = in_interval("alpha", alpha, 0, 1, closed="neither")

    def quantile(a: float) -> float:
        # P(|B(1)| > x) <= P(sup |B| > x) <= 2 P(sup B > x) bracket it; the last two agree but for rounding far out.
        low, high = -ndtri(a / 2), -ndtri(a / 4) * (1 + 1e-9)
        return float(
            brentq(lambda x: _absolute_supremum_exceeds(x) / a - 1, low, high, xtol=1e-14, rtol=1e-14)
        )

    return np.vectorize(quantile, otypes=[np.float64])(tail)[()]


def _absolute_supremum_exceeds(x: float) -> float:
    """P(sup |B| > x): by reflections for large x, by the eigenvalues of the interval for small; either converges."""
    sign, odd = np.array([1.0, -1.0] * 3), np.arange(1.0, 12.0, 2.0)
    if x > 1:
        return float(4 * (sign * ndtr(-odd * x)).sum())
    return float(1 - 4 / np.pi * (sign / odd * np.exp(-((odd * np.pi / x) ** 2) / 8)).sum())


def stored_quantile(
    alpha: ArrayLike, beta: float, grid: int, n_paths: int = 400_000, seed: int = _SEED
) -> tuple[FloatArray, FloatArray]:
    """`increment_supremum_quantile` of a fixed seed, simulated once and kept in the build folder.

    Parameters
    ----------
    alpha, beta, grid, n_paths
        As in `increment_supremum_quantile`; one simulation serves every alpha.
    seed : int
        At least 0.

    Returns
    -------
    quantile, standard_error : float, or ndarray of alpha's shape

    Raises
    ------
    ValueError
        As `increment_supremum_quantile`.

    Notes
    -----
    A stored sample is used if its arguments, the code that drew it, the version of NumPy and the checksum of its
    values all agree, and is drawn again otherwise. Without a place to write the answer is the same, only not kept.
    """
    tail, beta, grid, n_paths = _checked(alpha, beta, grid, n_paths)
    return _sample_quantile(_stored_suprema(beta, grid, n_paths, _whole_seed(seed), 0.0), tail)


def stored_limit(
    alpha: ArrayLike, beta: float, n_paths: int = 200_000, seed: int = _SEED
) -> tuple[FloatArray, FloatArray]:
    """`increment_supremum_limit` of a fixed seed, without the residual, kept as by `stored_quantile`."""
    tail, beta, grid, n_paths = _checked(alpha, beta, _LIMIT_GRID, n_paths)
    sample = _stored_suprema(beta, grid, n_paths, _whole_seed(seed), _allowance(grid))
    return _sample_quantile(sample, tail)


@lru_cache(maxsize=8)
def _stored_suprema(beta: float, grid: int, n_paths: int, seed: int, allowance: float) -> FloatArray:
    arguments = {"beta": beta, "grid": grid, "n_paths": n_paths, "seed": seed, "allowance": allowance}
    origin = {**arguments, "code": _CODE, "numpy": np.__version__}
    path = build_dir() / "brownian" / f"{sha256_json(origin)}.sample"

    def header(content: bytes) -> bytes:
        return json.dumps({**origin, "sha256": sha256_bytes(content)}, sort_keys=True).encode()

    with suppress(OSError):  # absent or unreadable
        head, _, content = path.read_bytes().partition(b"\n")
        # The header is recomputed and compared, not parsed: there is nothing in it to trust.
        if head == header(content) and len(content) == 8 * n_paths:
            return np.frombuffer(content, dtype="<f8")
    values = _sorted_suprema(beta, grid, n_paths, np.random.default_rng(seed), allowance)
    content = values.astype("<f8").tobytes()
    with suppress(OSError):
        write_atomic(path, header(content) + b"\n" + content)
    return values


def _sorted_suprema(
    beta: float, grid: int, n_paths: int, rng: np.random.Generator, allowance: float
) -> FloatArray:
    return np.sort(
        over_brownian_paths(grid, n_paths, rng, lambda path: increment_suprema(path, beta, allowance))
    )


def _allowance(grid: int) -> float:
    """What a grid takes from the increment between a minimum and a maximum, on average."""
    return float(2 * _OVERSHOOT * grid**-0.5)


def _checked(alpha: ArrayLike, beta: float, grid: int, n_paths: int) -> tuple[FloatArray, float, int, int]:
    tail = in_interval("alpha", alpha, 0, 1, closed="neither")
    beta = float(in_interval("beta", beta, 0, 0.5, closed="left"))
    grid, n_paths = int(positive_count("grid", grid)), int(positive_count("n_paths", n_paths))
    rarer = np.minimum(tail, 1 - tail)
    if n_paths * rarer.min() < _FEWEST_BEYOND:
        needed, extreme = int(np.ceil(_FEWEST_BEYOND / rarer.min())), tail.flat[rarer.argmin()]
        raise ValueError(f"n_paths must be at least {needed} for alpha {extreme:g}, got {n_paths}")
    return tail, beta, grid, n_paths


def _whole_seed(seed: int) -> int:
    return int(positive_count("seed", seed, minimum=0))


def _sample_quantile(ordered: FloatArray, tail: FloatArray) -> tuple[FloatArray, FloatArray]:
    n = len(ordered)
    above = np.floor(tail * (n + 1)).astype(np.int64)  # a further draw is among the top `above` of n + 1
    rank = n - above
    deviation = np.sqrt(n * tail * (1 - tail))
    low = np.clip(np.rint(rank - _RANKS * deviation).astype(np.int64), 0, n - 1)
    high = np.clip(np.rint(rank + _RANKS * deviation).astype(np.int64), 0, n - 1)
    return ordered[rank], (ordered[high] - ordered[low]) * deviation / (high - low)
