"""How far an area under the ROC curve can be trusted, given only the area and the numbers of scores.

A published AUC seldom comes with its scores. Its standard error then is that of Hanley and McNeil ("The meaning and
use of the area under a receiver operating characteristic curve", 1982, with their exponential approximation); whether
it can be told from 1/2 is the test of Mann and Whitney (1947), exact for small samples, since the area is its
statistic over the product of the numbers. Both take scores for independent, without ties.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]

_EXACT_UP_TO = 10_000  # pairs of scores: a tenth of a second


def hanley_mcneil_error(auc: ArrayLike, n_in: ArrayLike, n_out: ArrayLike) -> Any:
    """Standard error of an AUC.

    Parameters
    ----------
    auc : array_like
        In [0, 1].
    n_in, n_out : array_like
        Scores with the target in and out, at least 1; all broadcast.

    Returns
    -------
    ndarray or scalar
        sqrt((A (1 - A) + (n_in - 1)(Q1 - A^2) + (n_out - 1)(Q2 - A^2)) / (n_in n_out)), Q1 = A/(2 - A),
        Q2 = 2 A^2/(1 + A); with A below 1/2 as for 1 - A with the sides exchanged.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    area = in_interval("auc", auc, 0, 1)
    first, second = positive_count("n_in", n_in), positive_count("n_out", n_out)
    first, second = np.where(area < 0.5, second, first), np.where(area < 0.5, first, second)
    area = np.maximum(area, 1 - area)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    square = area * (1 - area) + (first - 1) * (q1 - area**2) + (second - 1) * (q2 - area**2)
    return np.sqrt(square / (first * second))[()]


def half_p_value(auc: float, n_in: int, n_out: int) -> float:
    """Chance of an AUC at least as far from 1/2 if scores in and out have one law: two-sided Mann-Whitney test.

    Parameters
    ----------
    auc : float
        In [0, 1]; a printed one counts as it is printed.
    n_in, n_out : int
        At least 1.

    Returns
    -------
    float
        Exact up to 10,000 pairs of scores, else by the normal law of variance (n_in + n_out + 1)/(12 n_in n_out):
        from 100 scores a side within .002 (.0001 near .05). With few scores on one side it is too large in the tail:
        where it should be .001, by a quarter with 20 against 501, nearly three times with 5 against 2,001.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    area = float(in_interval("auc", auc, 0, 1))
    n, m = int(positive_count("n_in", n_in)), int(positive_count("n_out", n_out))
    distance = abs(area - 0.5)
    if n * m > _EXACT_UP_TO:
        return float(2 * special.ndtr(-distance / np.sqrt((n + m + 1) / (12 * n * m))))
    law = _mann_whitney(min(n, m), max(n, m))
    areas = np.arange(n * m + 1) / (n * m)
    return float(min(law[np.abs(areas - 0.5) >= distance - 1e-9].sum(), 1.0))


def distinguishable_from(auc: float, alpha: float) -> int | None:
    """Least number of scores a side that tells an AUC from 1/2, by the normal law; None for 1/2 itself.

    Parameters
    ----------
    auc : float
        In [0, 1].
    alpha : float
        Two-sided level, in (0, 1).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    square = (float(in_interval("auc", auc, 0, 1)) - 0.5) ** 2
    z = -float(special.ndtri(float(in_interval("alpha", alpha, 0, 1, closed="neither")) / 2))
    if square == 0:
        return None
    # square >= z^2 (2n + 1)/(12 n^2), a quadratic in n.
    b = z**2 / (12 * square)
    return int(np.ceil(b + np.sqrt(b**2 + b) - 1e-9))


@lru_cache(maxsize=8)
def _mann_whitney(n: int, m: int) -> FloatArray:
    """Chances of the statistic 0 ... nm: the last of n + m scores is of the first kind, and beats all m, or not."""
    # laws[j]: the statistic's law with i scores of the first kind, i growing, and j of the second.
    laws = [np.ones(1) for _ in range(m + 1)]
    for i in range(1, n + 1):
        following = [np.ones(1)]
        for j in range(1, m + 1):
            law = np.zeros(i * j + 1)
            law[j:] += i / (i + j) * laws[j]
            law[: i * (j - 1) + 1] += j / (i + j) * following[j - 1]
            following.append(law)
        laws = following
    return laws[m]
