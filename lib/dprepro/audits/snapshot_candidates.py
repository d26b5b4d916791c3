"""What a black box of embedding space aggregation finds: only the nearest of many candidates is seen.

SnapAudit (arXiv 2511.13502), black-box ESA. The nearest candidate has no closed form, and counting winners is slow
where the canary moves few of them. But the two clean outputs differ in one direction only. Given the noise in all
other directions, candidates on the canary's side win exactly above one cut s along that direction, so the rates
are Phi((+-d/2 - s)/sigma), averaged over the simulated rest (conditional Monte Carlo).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dprepro.audits.snapshot_expectation import black_box_moments
from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.in_context.embedding import (
    EmbeddingSpaceAggregation,
    candidate_embeddings,
    signal_pair,
)
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.tradeoff import epsilon_gdp

Array = NDArray[np.float64]
_EXACT = 20_000  # trials up to which a report is summed exactly


def nearest_rates(
    mechanism: EmbeddingSpaceAggregation,
    clean_in: ArrayLike,
    clean_out: ArrayLike,
    trials: int,
    rng: np.random.Generator,
) -> Array:
    """Chance that the nearest candidate is on the canary's side, given the noise that does not matter.

    Parameters
    ----------
    mechanism : EmbeddingSpaceAggregation
        With candidates, some on the canary's side (`on_canary_side`) and some not.
    clean_in, clean_out : array, shape (d,)
        The means to tell apart, with and without the canary; they differ.
    trials : int
        Draws of the noise in the other directions.
    rng : numpy.random.Generator

    Returns
    -------
    array, shape (2, trials)
        With and without the canary. The means over the trials are the true and the false positive rate.

    Raises
    ------
    ValueError
        If there are no candidates, none or all are on the canary's side, or the means are equal.
    """
    n = int(positive_count("trials", trials))
    y_in, y_out = mechanism.means(np.atleast_2d(clean_in))[0], mechanism.means(np.atleast_2d(clean_out))[0]
    distance = float(np.linalg.norm(y_in - y_out))
    if distance == 0:
        raise ValueError("clean_in and clean_out must differ, got equal means")
    canary = mechanism.on_canary_side(y_in, y_out)
    if canary.all() or not canary.any():
        side = "do not speak" if canary.all() else "speak"
        raise ValueError(
            f"candidates must include some that {side} for the canary, got none of {canary.size}"
        )
    candidates = np.asarray(mechanism.candidates)
    direction = (y_in - y_out) / distance
    along = candidates @ direction
    across = candidates - np.outer(along, direction)
    noise = rng.standard_normal((n, min(across.shape))) @ np.linalg.qr(across.T, mode="r")
    height = across @ (y_in + y_out) / 2 + mechanism.sigma * noise

    height_in, height_out = height[:, canary], height[:, ~canary]
    along_in, along_out = along[canary], along[~canary]

    # Candidate i of the canary's side beats j of the other from (height_j - height_i) / (along_i - along_j) on, since
    # it rises faster; the side wins from where one of its candidates has beaten all of the other.
    cut = np.full(n, np.inf)
    for height_i, along_i in zip(height_in.T, along_in, strict=True):
        cut = np.minimum(cut, ((height_out - height_i[:, None]) / (along_i - along_out)).max(axis=1))
    # The middle of the two means lies at the foot of `direction` plus this much.
    offset = float((y_in + y_out) @ direction) / 2
    half = np.array([[distance / 2], [-distance / 2]])
    return np.asarray(ndtr((offset + half - cut) / mechanism.sigma))


def candidate_rates(
    distance: float,
    epsilon: float,
    rng: np.random.Generator,
    *,
    sets: int,
    draws: int,
    delta: float = 1e-5,
    kind: str = "paraphrases",
    spread: float = 1.0,
    assumed_sensitivity: float | None = None,
) -> Array:
    """True and false positive rates of a black box on one partition, for several draws of 100 candidates.

    Parameters
    ----------
    distance : float
        Of the answers' embeddings with and without the canary, in (0, 2].
    epsilon, delta, assumed_sensitivity
        Of the mechanism.
    rng : numpy.random.Generator
    sets : int
        Draws of the candidates, at least 2.
    draws : int
        Draws of the noise for each set.
    kind, spread
        Of the candidates, as for `embedding.candidate_embeddings`.

    Returns
    -------
    array, shape (2, sets)

    Raises
    ------
    ValueError
        As `nearest_rates`, or an argument outside its domain.
    """
    y_in, y_out = signal_pair(distance)
    found = []
    for child in rng.spawn(int(positive_count("sets", sets, minimum=2))):
        candidates = candidate_embeddings([y_in, y_out], kind, child, spread=spread)
        mechanism = EmbeddingSpaceAggregation(
            epsilon, delta, candidates=candidates, assumed_sensitivity=assumed_sensitivity
        )
        found.append(nearest_rates(mechanism, y_in, y_out, draws, child).mean(axis=1))
    return np.array(found).T


def black_box_report(rates: ArrayLike, trials: int, *, delta: float = 1e-5) -> tuple[float, float]:
    """Expected report of an audit at the mean rates, and its Monte Carlo standard error.

    Parameters
    ----------
    rates : array, shape (2, sets)
        From `candidate_rates`.
    trials : int
        Trials a side; Clopper-Pearson limits and GDP conversion.
    delta : float

    Returns
    -------
    mean, standard_error : float
        The error is that of the mean over the sets (noise and candidates alike) of the report at expected counts.

    Raises
    ------
    ValueError
        Rates outside [0, 1].
    """
    both = in_interval("rates", rates, 0.0, 1.0)
    each = _at_expected_counts(both[0], both[1], trials, delta)
    mean = expected_report(float(both[0].mean()), float(both[1].mean()), trials, delta=delta)
    return mean, float(np.std(each, ddof=1) / np.sqrt(both.shape[1]))


def expected_report(tpr: float, fpr: float, trials: int, *, delta: float = 1e-5) -> float:
    """Expected report of a black-box audit with Clopper-Pearson limits (95 %) and GDP conversion.

    Summed exactly over both counts up to 20,000 trials; beyond, the report at the expected counts, which differs
    by less than 1e-3 where thousands of each count are expected.
    """
    if trials <= _EXACT or min(tpr, fpr, 1 - tpr, 1 - fpr) * trials < 1_000:
        return black_box_moments(tpr, fpr, trials, delta=delta)[0]
    return float(_at_expected_counts(np.asarray(tpr), np.asarray(fpr), trials, delta))


def _at_expected_counts(tpr: Array, fpr: Array, trials: int, delta: float) -> Array:
    low = clopper_pearson(np.rint(tpr * trials), trials, 0.05)[0]
    up = clopper_pearson(np.rint(fpr * trials), trials, 0.05)[1]
    return np.asarray(epsilon_gdp(low, up, delta))
