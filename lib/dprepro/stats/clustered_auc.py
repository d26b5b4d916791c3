"""AUC with an interval where the trials are a table: every row and every column holds trials that go together.

A membership attack scores each target (column) after each run of a generator (row), so the trials of a target share
how easy it is, and those of a run share its random numbers. DeLong, DeLong, Clarke-Pearson (1988): an AUC is a
mean of what each trial contributes; Obuchowski, "Nonparametric Analysis of Clustered Receiver Operating
Characteristic Curve Data" (1997): the contributions of a cluster are summed before they are squared; Cameron,
Gelbach, Miller, "Robust Inference With Multiway Clustering" (2011): with two ways to cluster, the variances of both
ways are added and that of single trials, which both hold, is taken off.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import finite, in_interval
from dprepro.stats.tradeoff import auc

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class ClusteredAUC:
    """An AUC with its limits.

    Attributes
    ----------
    value : float
    low, high : float
        At confidence 1 - alpha, inside [0, 1]; clustered by row and by column.
    error : float
        Standard error behind them.
    error_rows, error_columns, error_trials : float
        Standard errors that treat the rows, the columns, or all single trials as independent.
    rows, columns : int
        Those that hold trials which count.
    """

    value: float
    low: float
    high: float
    error: float
    error_rows: float
    error_columns: float
    error_trials: float
    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def clustered_auc(
    scores: ArrayLike, included: ArrayLike, alpha: float = 0.05, *, within: bool = False
) -> ClusteredAUC:
    """AUC of a table of trials, pooled or within columns.

    Parameters
    ----------
    scores : array_like, shape (rows, columns)
        Finite scores, high means "in": a row for each run, a column for each target.
    included : array_like of bool or 0/1, same shape
        Whether the trial is an "in" trial.
    alpha : float
        Of the two-sided limits, in (0, 1).
    within : bool
        False: chance that an "in" trial scores higher than an "out" trial, over all pairs. True: over pairs of the
        same column, then the mean over columns. Columns without trials of both kinds are left out (`columns`).

    Raises
    ------
    ValueError
        Scores that are no finite matrix, another shape of `included`, trials of one kind only (for `within`: in
        every column), or alpha outside its domain.

    Notes
    -----
    The variance is that of rows plus that of columns less that of single trials, and no less than the larger of the
    first two. The limits are Wilson's for a share with the effective number n = AUC (1 - AUC)/variance, so they stay
    inside [0, 1], with the quantile of Student's t for the number of rows or of columns, whichever is smaller,
    less one. Where every trial contributes the same (AUC 0 or 1, all scores equal) no variance can be seen, and n is
    that number. In simulations with 20 to 100 rows they hold the truth in 92 to 99 % of cases, above an AUC of .99 in
    84 to 91 %. A single row (column) is no cluster: then the columns (rows) alone count.
    """
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    value, single, spread = _parts(*_table("scores", scores, "included", included), within)
    rows, columns = single.shape
    variance, *others = _variances(single, spread)
    fewest = _fewest(rows, columns)
    number = value * (1 - value) / variance if variance > 0 and 0 < value < 1 else fewest
    low, high = _wilson(value, number, float(special.stdtrit(fewest - 1, 1 - level / 2)))
    error_rows, error_columns, error_trials = (v**0.5 for v in others)
    return ClusteredAUC(
        value, low, high, variance**0.5, error_rows, error_columns, error_trials, rows, columns
    )


@dataclass(frozen=True)
class AUCDifference:
    """A difference of two AUCs with its limits, inside [-1, 1]."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


def auc_difference(
    first: ArrayLike,
    second: ArrayLike,
    included: ArrayLike,
    included_second: ArrayLike | None = None,
    alpha: float = 0.05,
    *,
    within: bool = False,
) -> AUCDifference:
    """First AUC less second AUC, of tables that share their rows.

    Parameters
    ----------
    first, second : array_like, shapes (rows, columns) and (rows, columns')
        Scores as for `clustered_auc`.
    included : array_like, shape of `first`
        Of both tables: the same trials scored in two ways.
    included_second : array_like, shape of `second`, optional
        Of the second table, if its columns are other targets than those of the first.
    alpha, within
        As for `clustered_auc`.

    Raises
    ------
    ValueError
        As `clustered_auc`, and tables with other numbers of rows, or of other shapes without `included_second`.

    Notes
    -----
    What a trial contributes to both AUCs, or a row, is subtracted before it is squared, so that what they share
    drops out. Symmetric limits with the quantile of `clustered_auc`. Where no variance can be seen (both AUC 1)
    the limits are made from those of the two AUCs by Newcombe's rule ("Interval Estimation for the Difference
    Between Independent Proportions", 1998, method 10).
    """
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    one = _table("first", first, "included", included)
    if included_second is None:
        two = _table("second", second, "included", included)
    else:
        two = _table("second", second, "included_second", included_second)
    if len(one[0]) != len(two[0]):
        raise ValueError(f"second must have the {len(one[0])} rows of first, got {len(two[0])}")
    value_one, single_one, spread_one = _parts(*one, within)
    value_two, single_two, spread_two = _parts(*two, within)
    value = value_one - value_two
    if included_second is None:
        single = single_one - single_two
        variance = _variances(single, spread_one - spread_two)[0]
    else:
        # The columns of each table scatter about a mean of their own, so each loses a degree of freedom.
        single = np.hstack([single_one, -single_two])
        variance = _variances(single, spread_one, spread_two)[0]
    if variance == 0:
        a, b = (clustered_auc(*table, level, within=within) for table in (one, two))
        low = value - ((a.value - a.low) ** 2 + (b.high - b.value) ** 2) ** 0.5
        high = value + ((a.high - a.value) ** 2 + (b.value - b.low) ** 2) ** 0.5
    else:
        fewest = _fewest(len(single), min(single_one.shape[1], single_two.shape[1]))
        reach = float(special.stdtrit(fewest - 1, 1 - level / 2)) * variance**0.5
        low, high = value - reach, value + reach
    return AUCDifference(value, max(-1.0, low), min(1.0, high))


def _parts(table: FloatArray, inside: BoolArray, within: bool) -> tuple[float, FloatArray, FloatArray]:
    """AUC, what each trial adds to its error, and what each column does."""
    if not within:
        value, flat = _contributions(table.ravel(), inside.ravel())
        single = flat.reshape(table.shape)
        return value, single, single.sum(axis=0)
    both = inside.any(axis=0) & ~inside.all(axis=0)
    if not both.any():
        raise ValueError("included must hold trials of both kinds in a column, got none that does")
    parts = [_contributions(*column) for column in zip(table[:, both].T, inside[:, both].T, strict=True)]
    own = np.array([value for value, _ in parts])
    value = float(own.mean())
    # A column differs from the mean by more than its trials' noise.
    return value, np.column_stack([part for _, part in parts]) / len(own), (own - value) / len(own)


def _variances(single: FloatArray, *spreads: FloatArray) -> tuple[float, float, float, float]:
    """Variance by rows and columns (those of each table about a mean of their own); then by each, by trials last."""
    by_rows, by_columns = _variance(single.sum(axis=1)), sum(map(_variance, spreads))
    trials = float((single**2).sum())
    return max(by_rows + by_columns - trials, by_rows, by_columns), by_rows, by_columns, trials


def _fewest(rows: int, columns: int) -> int:
    return min(number for number in (rows, columns) if number > 1)


def _contributions(scores: FloatArray, inside: BoolArray) -> tuple[float, FloatArray]:
    """AUC and what each trial adds to its error (DeLong's components, centred, over the number of their kind)."""
    value = auc(scores[inside], scores[~inside])
    found = np.empty(len(scores))
    for kind, sign in ((inside, 1), (~inside, -1)):
        other = np.sort(sign * scores[~kind])
        own = sign * scores[kind]
        below = (np.searchsorted(other, own, "left") + np.searchsorted(other, own, "right")) / (
            2 * len(other)
        )
        found[kind] = (below - value) / len(own)
    return value, found


def _variance(sums: FloatArray) -> float:
    """Variance of a total of independent sums whose mean is known to be zero."""
    return float((sums**2).sum() * len(sums) / max(1, len(sums) - 1))


def _wilson(share: float, number: float, z: float) -> tuple[float, float]:
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    reach = z / (1 + z * z / number) * (share * (1 - share) / number + z * z / (4 * number**2)) ** 0.5
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def _table(
    name: str, scores: ArrayLike, coins_name: str, included: ArrayLike
) -> tuple[FloatArray, BoolArray]:
    table, coins = finite(name, scores), np.asarray(included)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must be a matrix (runs, targets), got shape {table.shape}")
    if coins.shape != table.shape:
        raise ValueError(f"{coins_name} must have the shape of {name}, {table.shape}, got {coins.shape}")
    inside = coins == 1
    known = inside | (coins == 0)
    if not known.all():
        raise ValueError(f"{coins_name} must be true or false for each trial, got {coins[~known][0]!r}")
    if inside.all() or not inside.any():
        raise ValueError(
            f"{coins_name} must hold trials of both kinds, got {int(inside.sum())} of {inside.size} in"
        )
    return table, inside
