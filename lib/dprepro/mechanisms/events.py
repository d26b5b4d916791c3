"""Events: sets of outputs whose probability on two neighbouring databases an audit compares.

An audit of (x, x', E), as in StatDP (Ding et al., 2018) and ReTiDP (arXiv 2509.20283), asks whether
P(A(x) in E) <= e^epsilon P(A(x') in E) + delta. Three kinds of E cover the classical mechanisms: an interval of
numbers, a finite set of values, one list of answers. An event is called on outputs and says which fall in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import sample

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Interval:
    """Outputs with low < output <= high.

    Parameters
    ----------
    low, high : float
        low < high; either may be infinite. The output -inf lies in no interval, not even in (-inf, high], and
        neither does NaN: the sparse vector technique codes "below" and "after the end" with them.

    Raises
    ------
    ValueError
        If the interval is empty or an end is NaN.
    """

    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        if not self.low < self.high:  # NaN compares false
            raise ValueError(f"low must be below high, got {self.low!r} and {self.high!r}")

    def __call__(self, outputs: ArrayLike) -> BoolArray:
        """Which outputs lie in the interval: bool, shape (n,), from numbers of shape (n,)."""
        numbers = _numbers(self, outputs)
        return (numbers > self.low) & (numbers <= self.high)

    def __str__(self) -> str:
        """Read as mathematics, "(-inf, 0]"."""
        return f"({self.low:.12g}, {self.high:.12g}{')' if self.high == np.inf else ']'}"


@dataclass(frozen=True)
class OneOf:
    """Outputs that are one of given values, such as the index that report noisy max gives.

    Parameters
    ----------
    values : sequence of numbers
        At least one; compared exactly.

    Raises
    ------
    ValueError
        If `values` is empty, nested or holds NaN.
    """

    values: Sequence[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sample("values", self.values).tolist()))

    def __call__(self, outputs: ArrayLike) -> BoolArray:
        """Which outputs are among the values: bool, shape (n,), from numbers of shape (n,)."""
        return np.isin(_numbers(self, outputs), self.values)

    def __str__(self) -> str:
        """Read as a set, "{3}"."""
        return "{" + ", ".join(f"{value:.12g}" for value in self.values) + "}"


@dataclass(frozen=True)
class Exactly:
    """Lists of answers that equal a pattern and then end.

    Parameters
    ----------
    pattern : sequence
        For each query 0 (below the threshold), 1 (above) or, where the mechanism releases the noisy answer of a
        query above the threshold, the `Interval` that the answer lies in; at least one entry. A pattern that is
        shorter than a row asks that the list ends right after it.

    Raises
    ------
    ValueError
        If `pattern` is empty or holds something else.
    """

    pattern: Sequence[int | Interval]

    def __post_init__(self) -> None:
        entries = tuple(map(_entry, self.pattern))
        if not entries:
            raise ValueError("pattern must have at least one entry, got none")
        object.__setattr__(self, "pattern", entries)

    def __call__(self, outputs: ArrayLike) -> BoolArray:
        """Which rows follow the pattern and then end.

        Parameters
        ----------
        outputs : array, shape (n, m)
            Whole numbers: 1 above, 0 below, -1 after the end of the list. Floats: the noisy answer of a query
            above, -inf below, NaN after the end.

        Returns
        -------
        bool array, shape (n,)

        Raises
        ------
        ValueError
            If the pattern is longer than the rows, or has intervals where the outputs are no noisy answers.
        """
        rows = np.asarray(outputs)
        length = len(self.pattern)
        if rows.ndim != 2 or rows.shape[1] < length:
            raise ValueError(f"{self} needs outputs of shape (n, {length} or more), got {rows.shape}")
        valued = rows.dtype.kind == "f"
        follows = np.ones(rows.shape[0], dtype=np.bool_)
        for column, entry in zip(rows.T, self.pattern, strict=False):  # a column is contiguous, a row is not
            if isinstance(entry, Interval):
                if not valued:
                    raise ValueError(f"{self} needs noisy answers as outputs, got {rows.dtype}")
                follows &= entry(column)
            elif valued:
                follows &= column > -np.inf if entry else column == -np.inf
            else:
                follows &= column == entry
        if rows.shape[1] > length:  # what has ended stays so: one column tells
            after = rows[:, length]
            follows &= np.isnan(after) if valued else after == -1
        return follows

    def __str__(self) -> str:
        """Read as a set of one list, "{(0, 0, 1)}"."""
        return "{(" + ", ".join(map(str, self.pattern)) + ")}"


Event = Interval | OneOf | Exactly


def _numbers(event: Interval | OneOf, outputs: ArrayLike) -> NDArray[Any]:
    numbers = np.asarray(outputs)
    if numbers.ndim != 1:
        raise ValueError(f"{event} needs outputs of shape (n,), got {numbers.shape}")
    return numbers


def _entry(entry: Any) -> int | Interval:
    if isinstance(entry, Interval):
        return entry
    if entry not in (0, 1):
        raise ValueError(f"pattern must hold 0, 1 or Interval, got {entry!r}")
    return int(entry)
