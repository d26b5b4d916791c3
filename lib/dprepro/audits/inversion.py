"""The confidence-score attack: which record does an exposed score belong to, and what does it tell about the record?

An adversary sees the confidences that a classifier returned, holds candidate records and may query the classifier:
it scores the candidates itself and looks for equal scores. Fredrikson, Jha and Ristenpart, "Model Inversion Attacks
that Exploit Confidence Information and Basic Countermeasures" (2015), guess an unknown attribute in this way; the
public lesson "Differential privacy for LLMs" (github.com/rohitg00/ai-engineering-from-scratch, phase 18, lesson 22)
speaks of re-identification. Differential privacy of the training bounds what the classifier tells about the records
that it was trained on. A score is computed at prediction time, without noise, from the record asked about: no
epsilon of the training bounds what it tells about that record, whether it was in training or not.

How good the attack can be is exact. What is exposed is a fixed function of the record; so against an adversary who
knows N equally likely candidates completely, no attack succeeds more often than (number of different exposed rows)/N,
and `reidentify` reaches that. The log2 of the number is the min-entropy leakage of the exposure (Smith, "On the
Foundations of Quantitative Information Flow", 2009). Ties are drawn from at random; what is reported is the
expectation over these draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from dprepro.audits.confidence_defences import TIE, class_labels, entries
from dprepro.base.check import finite, in_interval, one_of, positive_count, sample
from dprepro.stats.bounds import clopper_pearson

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Rate(NamedTuple):
    """A success rate with two-sided Clopper-Pearson limits; `successes` is an expectation where ties are drawn."""

    successes: float
    trials: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, successes: float, trials: int, alpha: float) -> Self:
        """Return the rate with limits at confidence 1 - alpha, each for the whole number on its safe side."""
        total = round(float(successes), 9)  # a sum of 33 times 1/33 is a success
        low, _ = clopper_pearson(math.floor(total), trials, alpha)
        _, high = clopper_pearson(math.ceil(total), trials, alpha)
        return cls(total, int(trials), total / trials, float(low), float(high))


@dataclass(frozen=True)
class Reidentification:
    """How the scores of one log were matched to candidates.

    Attributes
    ----------
    candidates : int
        N; guessing at random succeeds with probability 1/N.
    success : ndarray, shape (m,)
        The probability that the score is given to its owner: 0, 1 or, in a tie, between.
    rank : ndarray, shape (m,)
        Place of the owner among the candidates by distance, 1 for the nearest; the mean place among ties.
    """

    candidates: int
    success: FloatArray
    rank: FloatArray


def reidentify(
    exposed: ArrayLike,
    predicted: ArrayLike,
    *,
    owners: ArrayLike | None = None,
    matching: str = "nearest",
    rng: np.random.Generator | None = None,
) -> Reidentification:
    """Match every exposed row to a candidate, by the candidates' own rows.

    Parameters
    ----------
    exposed : array_like, shape (m, c) or (m,)
        What was exposed, entries in [0, 1]. Rows of several classifiers for the same records can stand side by side.
    predicted : array_like, shape (N, c) or (N,)
        What the adversary expects for each candidate: the classifier's row, through the same defence.
    owners : array_like of whole numbers, shape (m,), optional
        Which candidate each row belongs to; by default the i-th of m = N.
    matching : {"nearest", "assignment"}
        "nearest": each row by itself, at the least Euclidean distance, to within 1e-12. "assignment": all rows of
        the log at once, no candidate twice, at the least sum of squared distances; it needs different owners.
    rng : numpy.random.Generator, optional
        Needed for "assignment": draws among assignments that are equally good.

    Raises
    ------
    ValueError
        If an entry lies outside [0, 1], rows have different lengths, an owner is no candidate, there are fewer
        candidates than rows to assign, or as many as rows are needed and are not there.
    """
    shown, known = entries("exposed", exposed), entries("predicted", predicted)
    m, n = len(shown), len(known)
    one_of("matching", matching, ("nearest", "assignment"))
    if shown.shape[1] != known.shape[1]:
        raise ValueError(
            f"predicted must have rows as long as exposed, {shown.shape[1]}, got {known.shape[1]}"
        )
    if owners is None and m != n:
        raise ValueError(f"predicted must have one row for each of the {m} exposed without owners, got {n}")
    owner = np.arange(m) if owners is None else class_labels("owners", owners, m, n)
    distance = cdist(shown, known)
    own = distance[np.arange(m), owner][:, None]
    closer, tied = (distance < own - TIE).sum(axis=1), (np.abs(distance - own) <= TIE).sum(axis=1)
    if matching == "nearest":
        success = np.where(closer == 0, 1 / tied, 0.0)
    else:
        if m > n or np.unique(owner).size < m:
            raise ValueError(
                f"owners must be {m} different candidates for matching='assignment', "
                f"got {np.unique(owner).size} of {n}"
            )
        if rng is None:
            raise ValueError("rng must be a numpy.random.Generator for matching='assignment', got None")
        # The solver settles ties by position, and by position rows and candidates often correspond: shuffled first.
        order = rng.permutation(n)
        given = order[linear_sum_assignment(distance[:, order] ** 2)[1]]
        # Candidates with the same row are interchangeable: the owner has his share of the place he was given.
        alike = cdist(known[owner], known) <= TIE
        success = alike[np.arange(m), given] / alike.sum(axis=1)
    return Reidentification(n, success, 1 + closer + (tied - 1) / 2)


def pooled(results: Sequence[Reidentification], alpha: float = 0.05) -> Rate:
    """Pool the scores of several logs into one rate with limits at confidence 1 - alpha.

    Parameters
    ----------
    results : sequence of Reidentification
        Of independent logs; one is enough.
    alpha : float

    Returns
    -------
    Rate
        Every score is a trial. Those of one log depend on each other, but the number of different rows among N random
        ones varies less than a binomial count with its mean, so the limits are rather too wide.

    Raises
    ------
    ValueError
        If there is no log.
    """
    if not results:
        raise ValueError("results must hold at least one log, got none")
    success = np.concatenate([result.success for result in results])
    return Rate.of(success.sum(), success.size, alpha)


def fill_in(records: ArrayLike, known: Sequence[int], reference: ArrayLike) -> FloatArray:
    """Replace the columns that the adversary does not know by their least-squares prediction from those it knows.

    Parameters
    ----------
    records : array_like, shape (n, d)
    known : sequence of int
        Columns that the adversary knows (quasi-identifiers); they stay as they are. None known gives the means.
    reference : array_like, shape (r, d)
        Other people's complete records.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, or a column is not one of 0 ... d - 1.
    """
    rows, public = finite("records", records).copy(), finite("reference", reference)
    if rows.ndim != 2 or public.ndim != 2 or public.shape[1:] != rows.shape[1:] or len(public) < 1:
        raise ValueError(
            f"records and reference must have shapes (n, d) and (r, d), got {rows.shape} and {public.shape}"
        )
    # An empty list would become floats; the check wants numbers anyway.
    columns = in_interval("known", positive_count("known", known, minimum=0), 0, rows.shape[1] - 1)
    given = np.isin(np.arange(rows.shape[1]), columns)
    design = [np.column_stack([part[:, given], np.ones(len(part))]) for part in (public, rows)]
    rows[:, ~given] = design[1] @ np.linalg.lstsq(design[0], public[:, ~given], rcond=None)[0]
    return rows


def invert_attribute(
    exposed: ArrayLike,
    predicted: Sequence[ArrayLike],
    truth: ArrayLike,
    prior: ArrayLike,
    alpha: float = 0.05,
) -> Rate:
    """Guess an unknown attribute of each record: the value whose predicted row is nearest to the exposed one.

    Parameters
    ----------
    exposed : array_like, shape (n, c) or (n,)
        What was exposed, one row a record.
    predicted : sequence of v array_like, each of shape (n, c) or (n,)
        The rows that the classifier, through the same defence, gives to the n records with value 0, 1, ..., v - 1.
    truth : array_like of whole numbers, shape (n,)
        Index of the true value.
    prior : array_like, shape (v,) or (n, v)
        How likely the adversary thinks each value without the score. It settles ties within 1e-12; what is tied
        then is drawn from at random. With constant rows the attack is the guess by the prior alone, the baseline.
    alpha : float
        1 - confidence of the limits.

    Raises
    ------
    ValueError
        If there are under two values, shapes differ, or an entry lies outside its domain.
    """
    shown = entries("exposed", exposed)
    if len(predicted) < 2:
        raise ValueError(f"predicted must hold rows for at least two values, got {len(predicted)}")
    expected = [entries(f"predicted[{i}]", rows) for i, rows in enumerate(predicted)]
    for i, rows in enumerate(expected):
        if rows.shape != shown.shape:
            raise ValueError(
                f"predicted[{i}] must have the shape of exposed, {shown.shape}, got {rows.shape}"
            )
    n, values = len(shown), len(expected)
    true = class_labels("truth", truth, n, values)
    weight = in_interval("prior", prior, 0, np.inf, closed="left")
    if weight.shape not in ((values,), (n, values)):
        raise ValueError(f"prior must have shape ({values},) or ({n}, {values}), got {weight.shape}")
    distance = np.stack([np.linalg.norm(rows - shown, axis=1) for rows in expected], axis=1)
    fits = np.where(distance <= distance.min(axis=1, keepdims=True) + TIE, weight, -1.0)
    best = fits == fits.max(axis=1, keepdims=True)
    success = best[np.arange(n), true] / best.sum(axis=1)
    return Rate.of(success.sum(), n, alpha)


def guess_membership(
    scores: ArrayLike, member: ArrayLike, rng: np.random.Generator, alpha: float = 0.05
) -> Rate:
    """Guess which records were in training: those whose exposed confidence reaches a threshold.

    Parameters
    ----------
    scores : array_like, shape (n,)
        Such as the confidence shown for each record's true class; high ones speak for membership.
    member : array_like of 0 and 1, shape (n,)
        Whether the record was in training.
    rng : numpy.random.Generator
        Draws the half of the records whose membership the adversary knows; it chooses the threshold with the most
        right guesses on them and guesses the others.
    alpha : float
        1 - confidence of the limits.

    Returns
    -------
    Rate
        Of right guesses on the other half. If each record was included by a fair coin of its own, `successes`
        of `trials` go into `stats.one_run.epsilon_one_run` with m = trials, also summed over independent runs.

    Raises
    ------
    ValueError
        If there are under two records, the lengths differ, a score is NaN, or membership is not 0 or 1.
    """
    values = sample("scores", scores, minimum=2)
    inside = class_labels("member", member, values.size, 2) == 1
    order = rng.permutation(values.size)
    seen, tested = order[: values.size // 2], order[values.size // 2 :]
    # Guessing nobody in is the threshold above all scores.
    cuts = np.append(np.unique(values[seen]), np.inf)
    agree = [np.count_nonzero((values[seen] >= cut) == inside[seen]) for cut in cuts]
    cut = cuts[int(np.argmax(agree))]
    right = int(np.count_nonzero((values[tested] >= cut) == inside[tested]))
    return Rate.of(right, tested.size, alpha)
