"""What a classifier shows of its confidences: four ways to show less, and what each of them costs its user.

Fredrikson, Jha and Ristenpart (2015) proposed rounding against model inversion; Shokri et al. (2017, arXiv
1610.05820, section VIII) rounding and the k largest entries against membership inference. A defence is here a fixed
function of one confidence vector, without noise: how many different vectors it can show limits what they tell.

Confidences of n records are an array (n, c), a row for each record and a column for each class; an array (n,) is the
probability of class 1 of a binary classifier and becomes two columns. A row may sum to less than 1, because the rest
was withheld, so that a defence can follow another: truncate(top_k(p, 1), 2). Quantised rows may sum to more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]

TIE = 1e-12  # two sums of the same numbers differ by less, whatever the processor and the size of the batch
_DIGITS = 15  # a float has no more decimal digits that all count


def hide(confidences: ArrayLike) -> FloatArray:
    """Show the label alone: 1 for the most probable class (the first of equals), 0 elsewhere.

    Parameters
    ----------
    confidences : array_like, shape (n, c) or (n,)
        Rows are probabilities.

    Returns
    -------
    ndarray, shape (n, c)

    Raises
    ------
    ValueError
        If a row does not hold probabilities.
    """
    rows = probability_rows("confidences", confidences)
    return np.eye(rows.shape[1])[rows.argmax(axis=1)]


def truncate(confidences: ArrayLike, digits: int) -> FloatArray:
    """Cut every entry off after some decimal digits: 0.999 with two digits is 0.99.

    Parameters
    ----------
    confidences : array_like, shape (n, c) or (n,)
    digits : int
        1 to 15.

    Returns
    -------
    ndarray, shape (n, c)
        A float that prints as 0.29 keeps both digits, although 0.29 * 100 is 28.999999999999996.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    digits = int(in_interval("digits", positive_count("digits", digits), 1, _DIGITS))
    rows = probability_rows("confidences", confidences)
    return _cells_below(rows, 10**digits) / 10**digits


def quantise(confidences: ArrayLike, levels: int) -> FloatArray:
    """Replace every entry by the middle of its cell, of `levels` equally wide cells of [0, 1].

    Parameters
    ----------
    confidences : array_like, shape (n, c) or (n,)
    levels : int
        At least 2. An odd number has a cell around 1/2, in which a binary classifier shows no label.

    Returns
    -------
    ndarray, shape (n, c)

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    levels = int(positive_count("levels", levels, minimum=2))
    rows = probability_rows("confidences", confidences)
    return (np.minimum(_cells_below(rows, levels), levels - 1) + 0.5) / levels


def top_k(confidences: ArrayLike, k: int) -> FloatArray:
    """Show the k largest entries as they are and 0 elsewhere; of equal entries the first ones.

    Parameters
    ----------
    confidences : array_like, shape (n, c) or (n,)
    k : int
        1 to c. With two classes the largest entry tells the other one: there this defence changes nothing.

    Returns
    -------
    ndarray, shape (n, c)

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    rows = probability_rows("confidences", confidences)
    k = int(in_interval("k", positive_count("k", k), 1, rows.shape[1]))
    kept = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    shown = np.zeros_like(rows)
    np.put_along_axis(shown, kept, np.take_along_axis(rows, kept, axis=1), axis=1)
    return shown


@dataclass(frozen=True)
class Utility:
    """What exposed confidences are worth to the user who gets them.

    Attributes
    ----------
    accuracy : float
        Of the most probable class; equally probable ones are drawn from at random, in expectation.
    selective_accuracy : float
        On the share of the records with the highest confidence, ties drawn at random, in expectation. Labels alone
        give the accuracy: they do not say which answers to trust.
    calibration_error : float
        Mean distance between confidence and accuracy over bins of equal width (Guo et al. 2017, equation 3).
    brier : float
        Mean squared distance between the row and the label's unit vector, summed over classes, in [0, 2].
    """

    accuracy: float
    selective_accuracy: float
    calibration_error: float
    brier: float


def utility(exposed: ArrayLike, labels: ArrayLike, *, coverage: float = 0.5, bins: int = 10) -> Utility:
    """Measure what exposed confidences are worth to a user who reads them as probabilities.

    What a row lacks to 1 is spread evenly over the classes shown as 0, over all where there is none; a row that sums
    to more is scaled.

    Parameters
    ----------
    exposed : array_like, shape (n, c) or (n,)
        As a defence returns them.
    labels : array_like, shape (n,)
        True classes, 0 to c - 1.
    coverage : float
        Share of the records that a user answers by the classifier, in (0, 1]; at least one record.
    bins : int
        Of the calibration error.

    Raises
    ------
    ValueError
        If an argument lies outside its domain or the lengths differ.
    """
    rows = entries("exposed", exposed)
    n, classes = rows.shape
    truth = class_labels("labels", labels, n, classes)
    coverage = float(in_interval("coverage", coverage, 0, 1, closed="right"))
    bins = int(positive_count("bins", bins))
    total = rows.sum(axis=1, keepdims=True)
    hidden = (rows == 0) | (rows > 0).all(axis=1, keepdims=True)
    read = rows + hidden * np.maximum(0, 1 - total) / hidden.sum(axis=1, keepdims=True)
    read /= np.maximum(1, total)

    confidence = read.max(axis=1)
    best = read >= confidence[:, None] - TIE
    right = best[np.arange(n), truth] / best.sum(axis=1)

    answered = max(1, int(coverage * n))
    cut = np.sort(confidence)[n - answered]
    above, at = confidence > cut + TIE, np.abs(confidence - cut) <= TIE
    chosen = right[above].sum() + (answered - above.sum()) * right[at].mean()

    # A confidence on the edge of two bins belongs to the upper one, also if rounding moved it below.
    place = np.minimum((confidence * bins + 1e-9).astype(np.int64), bins - 1)
    gaps = np.abs(np.bincount(place, confidence - right, minlength=bins))
    brier = float(np.mean(np.sum((read - np.eye(classes)[truth]) ** 2, axis=1)))
    return Utility(float(right.mean()), float(chosen / answered), float(gaps.sum() / n), brier)


def entries(name: str, values: ArrayLike) -> FloatArray:
    """Return confidences as an array (n, c) with entries in [0, 1], whatever their rows sum to.

    Raises
    ------
    ValueError
        If an entry lies outside [0, 1] or is NaN, or if the shape is neither (n,) nor (n, c) with n >= 1, c >= 2.
    """
    rows = in_interval(name, values, 0, 1)
    if rows.ndim == 1 and rows.size:
        rows = np.stack([1 - rows, rows], axis=1)
    if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape (n,) or (n, c) with n >= 1 records and c >= 2 classes, got {rows.shape}"
        )
    return rows


def probability_rows(name: str, values: ArrayLike) -> FloatArray:
    """Return `entries` whose rows sum to at most 1, to a millionth as rounded numbers do; ValueError otherwise."""
    rows = entries(name, values)
    wrong = np.flatnonzero(rows.sum(axis=1) > 1 + 1e-6)
    if wrong.size:
        raise ValueError(
            f"{name} must have rows that sum to at most 1, got {rows[wrong[0]].sum():g} in row {wrong[0]} "
            f"and {wrong.size} such rows of {len(rows)}"
        )
    return rows


def class_labels(name: str, values: ArrayLike, n: int, classes: int) -> NDArray[np.int64]:
    """Return n class labels as int64, from 0 to classes - 1; ValueError for another length or another number."""
    labels = positive_count(name, values, minimum=0)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each record, got {labels.shape}")
    in_interval(name, labels, 0, classes - 1)
    return labels


def _cells_below(rows: FloatArray, cells: int) -> FloatArray:
    """Largest whole number q with q / cells <= entry, where the division is that of floats."""
    # rows * cells may round across the whole number; dividing back settles on which side the entry lies.
    q = np.floor(rows * cells)
    q += (q + 1) / cells <= rows
    return q - (q / cells > rows)
