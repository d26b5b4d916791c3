"""Which canaries: arbitrary records against those that leak most.

What a record leaves in a model trained with DP-SGD is the sum of its clipped gradients. Where other records pull on
the same parameters, their random batches, and the pull back towards what they want, hide it. A canary leaks most if

- its gradient is at the clipping norm whenever it is drawn, so that it uses all that the noise was made for: a norm
  as large as the pipeline lets through keeps the gradient clipped while the canary is being learned;
- its gradient points where no other gradient points, so that only noise is added to it: a feature of its own.

For a bag of words that is a record made of a token that no other record has: the "new token" canaries of Panda,
Tang, Nasr, Choquette-Choo, Mittal, "Privacy Auditing of Large Language Models" (2025, arXiv 2503.06808). For
gradients it is the Dirac canary of Nasr et al., "Tight Auditing of Differentially Private Machine Learning" (2023).
An arbitrary canary, a record like the others with its own label or a random one, does neither.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from dprepro.base.check import finite, in_interval, one_of, positive_count

FloatArray = NDArray[np.float64]

LABELS = ("own", "random", "flipped")


def arbitrary_canaries(
    x: ArrayLike, y: ArrayLike, count: int, rng: np.random.Generator, label: str = "random"
) -> tuple[FloatArray, FloatArray]:
    """Draw records as canaries, without replacement.

    Parameters
    ----------
    x : array_like, shape (n, d)
        Records like the training data, but not in it: a record that is also in the data twice tests nothing.
    y : array_like, shape (n,)
        Their labels, 0 or 1.
    count : int
        At most n.
    rng : Generator
    label : {"random", "own", "flipped"}
        A fair coin for each, the record's own label, or the other one.

    Returns
    -------
    canaries_x, canaries_y : ndarray, shapes (count, d) and (count,)

    Raises
    ------
    ValueError
        Fewer than `count` records, labels outside {0, 1}, or an argument outside its domain.
    """
    one_of("label", label, LABELS)
    records, labels = _records("x", x), finite("y", y)
    if labels.shape != records.shape[:1] or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"y must hold a label 0 or 1 for each of the {len(records)} records of x")
    number = int(positive_count("count", count))
    if number > len(records):
        raise ValueError(f"count must be at most the number of records in x, got {number} of {len(records)}")
    drawn = rng.choice(len(records), number, replace=False)
    if label == "random":
        return records[drawn], rng.integers(0, 2, number).astype(np.float64)
    own = labels[drawn]
    return records[drawn], own if label == "own" else 1 - own


def own_token_canaries(
    x: ArrayLike, columns: ArrayLike, norm: float, records: ArrayLike | None = None
) -> FloatArray:
    """Make canaries with a feature of their own each.

    Parameters
    ----------
    x : array_like, shape (n, d)
        The training data. ``np.pad(x, ((0, 0), (0, k)))`` reserves k columns where it has no empty ones.
    columns : array_like of int, shape (k,)
        One empty column of x for each canary, all different.
    norm : float
        Norm of the canaries; positive. As large as the pipeline lets through: if it scales records to a norm, that
        norm. Let gradients reach the clipping norm C until the canary is learned: with a logistic loss
        norm >> 2 C.
    records : array_like, shape (k, d), optional
        Records that carry the feature: the canary is record + norm * feature, scaled to `norm`. Less conspicuous, and
        its gradient is shared with other records in part. By default the feature is all there is.

    Returns
    -------
    ndarray, shape (k, d)

    Raises
    ------
    ValueError
        A column that is used by a record (then the direction is shared) or twice, or an argument outside its domain.
    """
    data = _records("x", x)
    own = positive_count("columns", columns, minimum=0)
    length = float(in_interval("norm", norm, 0, np.inf, closed="neither"))
    if own.ndim != 1 or own.size == 0 or own.max() >= data.shape[1] or np.unique(own).size < own.size:
        raise ValueError(
            f"columns must be different columns of x, from 0 to {data.shape[1] - 1}, one for each canary"
        )
    if (used := np.count_nonzero(data[:, own], axis=0)).any():
        raise ValueError(
            f"columns must be empty in x, got column {own[used.argmax()]} with {used.max()} entries that are not 0"
        )
    canaries = np.zeros((own.size, data.shape[1]))
    if records is not None:
        carriers = _records("records", records)
        if carriers.shape != canaries.shape or carriers[:, own].any():
            raise ValueError(
                f"records must have shape {canaries.shape} and be 0 in columns, got {carriers.shape}"
            )
        canaries += carriers
    canaries[np.arange(own.size), own] = length
    return canaries * (length / np.linalg.norm(canaries, axis=1, keepdims=True))


def own_share(canaries_x: ArrayLike, x: ArrayLike) -> FloatArray:
    """Share of each canary's gradient that points outside all gradients of the other records.

    Parameters
    ----------
    canaries_x : array_like, shape (k, d)
    x : array_like, shape (n, d)
        The other records.

    Returns
    -------
    ndarray, shape (k,)
        In [0, 1]: a gradient of a linear model with a bias is a multiple of (record, 1), so this is the distance of
        (canary, 1) from the span of all (record, 1), over its length. 0: other records can undo all that the
        canary does; 1: none of it.

    Raises
    ------
    ValueError
        Arrays that are not finite, or of different dimension.
    """
    canaries, data = _records("canaries_x", canaries_x), _records("x", x)
    if canaries.shape[1] != data.shape[1]:
        raise ValueError(f"canaries_x must have {data.shape[1]} columns as x has, got {canaries.shape[1]}")
    used = data.any(axis=0)
    rows, wanted = (np.pad(part[:, used], ((0, 0), (0, 1)), constant_values=1.0) for part in (data, canaries))
    # gelsy: a pivoted QR, several times faster than the default by singular values.
    fitted = linalg.lstsq(rows.T, wanted.T, cond=1e-10, lapack_driver="gelsy")[0]
    left = wanted.T - rows.T @ fitted
    outside = np.hypot(np.linalg.norm(left, axis=0), np.linalg.norm(canaries[:, ~used], axis=1))
    return outside / np.hypot(1, np.linalg.norm(canaries, axis=1))


def _records(name: str, values: ArrayLike) -> FloatArray:
    array = finite(name, values)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be an array (records, features), got shape {array.shape}")
    return array
