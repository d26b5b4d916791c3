"""Confidence bounds on rates: Clopper-Pearson, Hoeffding, the Bernstein radius of SnapAudit, the modal mass.

Clopper and Pearson (1934): invert the binomial tail, so the limits hold at every sample size. Hoeffding (1963):
a distance that holds for any mean of values in [0, 1]. Maurer and Pontil, "Empirical Bernstein Bounds" (2009),
Theorem 4, is what SnapAudit (arXiv 2511.13502) adds to a Hoeffding term. The modal mass serves a release whose
clean output is discrete and nearly constant.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import at_most, finite, in_interval, positive_count

FloatArray = NDArray[np.float64]


def clopper_pearson(
    successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Two-sided Clopper-Pearson limits of a binomial probability, alpha/2 on each side.

    Parameters
    ----------
    successes, trials : array_like of whole numbers
        0 <= successes <= trials, trials >= 1; broadcast.
    alpha : array_like
        Chance that the interval misses the probability, in (0, 1).

    Returns
    -------
    low, high : ndarray or scalar
        Each is also a one-sided limit at level alpha/2. `low` is 0 without a success, `high` 1 without a failure.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    trials = positive_count("trials", trials)
    successes = positive_count("successes", successes, minimum=0)
    alpha = in_interval("alpha", alpha, 0, 1, closed="neither")
    at_most("successes", successes, "trials", trials)
    return lower_limit(successes, trials, alpha / 2), upper_limit(successes, trials, alpha / 2)


def lower_limit(successes: Any, trials: Any, level: Any) -> FloatArray:
    """Lower Clopper-Pearson limit: the p with P[Bin(trials, p) >= successes] = level; arrays broadcast, unchecked."""
    # The probability is the regularised incomplete beta function I_p(successes, trials - successes + 1).
    limit = special.betaincinv(np.maximum(successes, 1), trials - successes + 1, level)
    return np.where(successes == 0, 0.0, limit)[()]


def upper_limit(successes: Any, trials: Any, level: Any) -> FloatArray:
    """Upper Clopper-Pearson limit: the p with P[Bin(trials, p) <= successes] = level; arrays broadcast, unchecked."""
    # The complement is inverted, because 1 - level would round a small level away.
    limit = special.betainccinv(successes + 1, np.maximum(trials - successes, 1), level)
    return np.where(successes == trials, 1.0, limit)[()]


def hoeffding_radius(n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Two-sided radius sqrt(log(2/alpha) / (2n)) around the mean of n values in [0, 1].

    Parameters
    ----------
    n : array_like of whole numbers, at least 1
    alpha : array_like
        Chance of a miss, in (0, 1).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables" (1963), Theorem 2.
    """
    n = positive_count("n", n)
    alpha = in_interval("alpha", alpha, 0, 1, closed="neither")
    return np.sqrt(np.log(2 / alpha) / (2 * n))


def bernstein_radius(
    variance: ArrayLike, n_llm: ArrayLike, n_sample: ArrayLike, confidence: ArrayLike = 0.95
) -> FloatArray:
    """Radius that SnapAudit states for a rate estimated by bootstrap from a snapshot of model outputs.

    Parameters
    ----------
    variance : array_like
        Sample variance of the success rate h over the clean outputs, in [0, 1/4] up to the factor n/(n-1) of
        an unbiased estimate: at most 1/2.
    n_llm : array_like of whole numbers, at least 2
        Clean outputs in the snapshot.
    n_sample : array_like of whole numbers, at least 1
        Noisy releases drawn from the snapshot.
    confidence : array_like
        Joint confidence over the four one-sided statements (two rates, two terms), in (0, 1).

    Returns
    -------
    ndarray or scalar
        sqrt(2 variance L / n_llm) + 7 L / (3 (n_llm - 1)) + sqrt(L / (2 n_sample)), L = log(8/(1 - confidence)).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.

    Notes
    -----
    SnapAudit (arXiv 2511.13502). The first two terms are Theorem 4 of Maurer and Pontil (2009) for the n_llm
    clean outputs, the last is Hoeffding's for the n_sample draws from them.
    """
    variance = in_interval("variance", variance, 0, 0.5)
    n_llm = positive_count("n_llm", n_llm, minimum=2)
    n_sample = positive_count("n_sample", n_sample)
    confidence = in_interval("confidence", confidence, 0, 1, closed="neither")
    log_term = np.log(8 / (1 - confidence))
    snapshot = np.sqrt(2 * variance * log_term / n_llm) + 7 * log_term / (3 * (n_llm - 1))
    return snapshot + np.sqrt(log_term / (2 * n_sample))


def modal_mass_low(
    outputs: ArrayLike, alpha: float, naming_share: float = 0.01
) -> tuple[NDArray[Any], float]:
    """Name the commonest clean output and bound its probability from below.

    Parameters
    ----------
    outputs : array_like, shape (n,) or (n, d)
        n >= 2 independent clean outputs, one a row: numbers or texts.
    alpha : float
        Chance that the bound exceeds the probability, in (0, 1/2).
    naming_share : float
        Share of the rows, in (0, 1), that only names the mode; at least one row, and one is left over.

    Returns
    -------
    mode_row : ndarray, shape () or (d,)
        The commonest of the first ``ceil(naming_share * n)`` rows; of several, the one that came first.
    mass_low : float
        Lower limit of P[output = mode_row]; 0 if no remaining row equals it.

    Raises
    ------
    ValueError
        If an argument lies outside its domain or a number in `outputs` is NaN or infinite.

    Notes
    -----
    Valid for every distribution of the outputs: given the naming rows, the mode is a fixed value c, and the
    other rows are still independent with the same distribution, so the number of them that equal c is binomial
    with probability P[output = c]. The one-sided Clopper-Pearson limit fails with probability at most alpha
    under each naming, hence at most alpha altogether. A bad naming costs mass, never validity. Naming on the
    rows that are then counted would cost it: the commonest of many rare values looks commoner than it is.
    """
    rows = np.asarray(outputs)
    alpha = float(in_interval("alpha", alpha, 0, 0.5, closed="neither"))
    naming_share = float(in_interval("naming_share", naming_share, 0, 1, closed="neither"))
    if rows.ndim not in (1, 2) or len(rows) < 2:
        raise ValueError(
            f"outputs must be an array (n,) or (n, d) with n of at least 2, got shape {rows.shape}"
        )
    if rows.dtype.kind == "f":
        finite("outputs", rows)
    n_naming = min(math.ceil(naming_share * len(rows)), len(rows) - 1)
    naming, rest = rows[:n_naming], rows[n_naming:]
    _, first, counts = np.unique(naming, axis=0, return_index=True, return_counts=True)
    mode_row = naming[first[counts == counts.max()].min()]
    same = rest == mode_row
    hits = int(np.count_nonzero(same.all(axis=1) if rows.ndim == 2 else same))
    return mode_row, float(lower_limit(hits, len(rest), alpha))
