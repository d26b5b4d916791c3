"""What a snapshot audit is expected to report when the clean outputs are constant, as they are for voting.

Then a black box's two error counts are binomial, and a white box's scores are N(0, 1) without and N(mu, 1) with
the canary (Dong, Roth, Su 2022): the reported epsilon of a recipe has a distribution that needs no model call. It
is summed exactly for the black box and simulated for the white box.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.special import ndtri
from scipy.stats import binom

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.gdp import mu_to_epsilon
from dprepro.stats.lower_bound import LowerBound, Rates, best_rates, epsilon_lower_bound
from dprepro.stats.tradeoff import CONVERSIONS

Array = NDArray[np.float64]
_TAIL = 1e-9  # probability left out at each end of each binomial


def black_box_moments(
    tpr: float, fpr: float, trials: int, *, delta: float, alpha: float = 0.05, conversion: str = "gdp"
) -> tuple[float, float]:
    """Mean and standard deviation of the epsilon that one black-box audit reports.

    Both counts are independent binomials; the sum runs over both, but for tails of 1e-9.

    Parameters
    ----------
    tpr, fpr : float
        Exact success rates of the attack, in [0, 1].
    trials : int
        Trials a side.
    delta, alpha : float
        Of the conversion, and of the Clopper-Pearson limits (alpha/2 a rate).
    conversion : {"gdp", "standard"}

    Returns
    -------
    mean, sd : float
        Of a single audit.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """
    n = int(positive_count("trials", trials))
    weights, limits = [], []
    for which, rate in enumerate((tpr, fpr)):
        p = float(in_interval(("tpr", "fpr")[which], rate, 0.0, 1.0))
        hits = np.arange(binom.ppf(_TAIL, n, p), binom.isf(_TAIL, n, p) + 1)
        weights.append(binom.pmf(hits, n, p))
        limits.append(clopper_pearson(hits, n, alpha)[which])
    low, up = limits
    if one_of("conversion", conversion, ("gdp", "standard")) == "gdp":
        epsilon = _epsilon_of_differences(ndtri(low), ndtri(up), delta)
    else:
        epsilon = np.asarray(CONVERSIONS["standard"](low[:, None], up[None, :], delta))
    mean = weights[0] @ epsilon @ weights[1]
    variance = weights[0] @ (epsilon - mean) ** 2 @ weights[1]
    return float(mean), float(np.sqrt(variance))


def _epsilon_of_differences(above: Array, below: Array, delta: float) -> Array:
    """epsilon(mu) for mu = above[i] - below[j]: exact at 4,000 knots, a cubic spline between them.

    The knots crowd towards 0, where epsilon leaves 0 with a bend at delta = 2 Phi(mu/2) - 1.
    """
    mu = above[:, None] - below[None, :]
    finite = mu[np.isfinite(mu)]
    if finite.size == 0 or finite.max() <= 0:
        return np.zeros(mu.shape)
    knots = finite.max() * np.linspace(0.0, 1.0, 4000) ** 3
    spline = CubicSpline(knots, mu_to_epsilon(knots, delta))
    return np.where(mu > 0, np.maximum(spline(np.maximum(mu, 0.0)), 0.0), 0.0)


def white_box_runs(
    mu: ArrayLike,
    trials: int,
    repeats: int,
    rng: np.random.Generator,
    *,
    delta: float,
    alpha: float = 0.05,
    conversion: str = "gdp",
    choice: str = "same",
    grid: int | None = None,
) -> Array:
    """Epsilon that white-box audits report, one row an audit.

    The noise of a repeat is drawn and sorted once and shared by all mu (common random numbers), so differences
    along a row are sharper than their standard errors say, and columns are not independent.

    Parameters
    ----------
    mu : array, shape (m,)
        Separation of the two clean outputs in standard deviations of the noise.
    trials : int
        Trials a side.
    repeats : int
        Audits; each has its own child of `rng`, so any subset of them can be drawn again.
    rng : numpy.random.Generator
    delta, alpha, conversion
        As in `black_box_moments`.
    choice : {"same", "held_out"}
        Which scores choose the threshold.
    grid : int, optional
        Try this many quantiles of the scores as thresholds; by default every score.

    Returns
    -------
    array, shape (repeats, m)
    """
    separations = np.atleast_1d(in_interval("mu", mu, 0.0, np.inf, closed="left"))
    n = int(positive_count("trials", trials, minimum=2))
    one_of("choice", choice, ("same", "held_out"))
    limits = np.empty((2, int(positive_count("repeats", repeats)), len(separations)))
    for row, child in enumerate(rng.spawn(limits.shape[1])):
        if choice == "same":
            noise_in, noise_out = (ndtri(sorted_uniforms(n, child)) for _ in range(2))
        else:
            noise_in, noise_out = child.standard_normal((2, n))
        for column, separation in enumerate(separations):
            rates: Rates | LowerBound
            if choice == "same":
                rates = best_rates(
                    noise_in + separation, noise_out, alpha, conversion=conversion, delta=delta, grid=grid
                )
            else:
                rates = epsilon_lower_bound(
                    noise_in + separation, noise_out, delta, alpha, "held_out", conversion
                )
            limits[:, row, column] = rates.tpr_low, rates.fpr_up
    return np.asarray(CONVERSIONS[conversion](limits[0], limits[1], delta))


def pooled(audits: ArrayLike, means: ArrayLike, deviations: ArrayLike) -> tuple[Array, Array]:
    """Mean and standard deviation over all audits, from those of parts of them.

    Parameters
    ----------
    audits : array, shape (k,)
        Audits in each part.
    means, deviations : array, shape (k, m)
        Of a part; its variance is over audits - 1.

    Returns
    -------
    mean, sd : array, shape (m,)
    """
    n, each = np.asarray(audits), np.asarray(means)
    mean = n @ each / n.sum()
    squares = (n - 1) @ np.asarray(deviations) ** 2 + n @ (each - mean) ** 2  # within and between the parts
    return mean, np.sqrt(squares / (n.sum() - 1))


def sorted_uniforms(n: int, rng: np.random.Generator) -> Array:
    """Draw n uniforms on (0, 1) in rising order; quantiles of them are sorted draws of any law, without a sort.

    Partial sums of exponentials over their total are the order statistics of uniforms (Devroye 1986, chapter V).
    """
    sums = np.cumsum(rng.standard_exponential(n + 1))
    return np.asarray(sums[:-1] / sums[-1])
