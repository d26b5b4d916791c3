r"""Exact law of the score p_hat / sigma_hat of one step, at any number of outputs.

ReTiDP ("Monitoring Violations of Differential Privacy over Time", arXiv 2509.20283) adds up scores whose law is
normal in the limit n to infinity. Two binomial counts give finitely many values: the law at a given n is a sum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dprepro.base.check import in_interval, positive_count
from dprepro.stats.two_rates import violation

FloatArray = NDArray[np.float64]
Rates = tuple[float, float]  # P(A(x) in E), P(A(x') in E)


class Moments(NamedTuple):
    """Mean, standard deviation and skewness of a score under given rates; no skewness (NaN) without variance."""

    mean: float
    sd: float
    skewness: float


def score_law(rates: Rates, n: int, epsilon: float, delta: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Every value that the score of a step can take, and its probability.

    Parameters
    ----------
    rates : (float, float)
        P(A(x) in E) and P(A(x') in E), in [0, 1].
    n : int
        Outputs a side.
    epsilon, delta : float
        The claim.

    Returns
    -------
    score, probability : array, shape (counts on x, counts on x')
        p_hat / max(sigma_hat, 1/n), where 1/n is the least standard error that the monitors give a step. The counts
        left out have a probability below 1e-12 together.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    n = int(positive_count("n", n))
    (x, of_x), (y, of_y) = (_support(float(in_interval("rates", p, 0, 1)), n) for p in rates)
    p_hat, sigma_hat = violation(x[:, None], y, n, epsilon, delta)
    return p_hat / np.maximum(sigma_hat, 1 / n), of_x[:, None] * of_y


def score_moments(rates: Rates, n: int, epsilon: float, delta: float = 0.0) -> Moments:
    r"""Exact moments of a score; arguments and errors as in `score_law`.

    Notes
    -----
    p_hat and sigma_hat are not independent: a low count on x' makes the one large and the other small. Where
    p = 0 the mean is

        -cov(p_hat, sigma_hat^2) / (2 sigma^3) + O(1/n^(3/2)),    near (e^epsilon - 1) / (2 sqrt(n a (1 + e^epsilon)))

    for a rare event: positive, and of order n^(-1/2). What it adds over T steps grows with T.
    """
    score, probability = score_law(rates, n, epsilon, delta)
    mean = float(np.sum(probability * score))
    variance, third = (float(np.sum(probability * (score - mean) ** power)) for power in (2, 3))
    return Moments(mean, variance**0.5, third / variance**1.5 if variance > 0 else float("nan"))


def _support(p: float, n: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return counts and their probabilities, without the tails."""
    # Bernstein's inequality with 2 exp(-32): eight standard deviations, for a count that is near normal, and 64/3
    # counts, for one that is near Poisson.
    reach = 8 * (n * p * (1 - p)) ** 0.5 + 64 / 3
    counts = np.arange(max(0, int(np.floor(n * p - reach))), min(n, int(np.ceil(n * p + reach))) + 1)
    return counts, binom.pmf(counts, n, p)
