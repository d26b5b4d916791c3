"""Events that are found, not guessed: the outputs that tell two databases apart best, learned on first runs.

A monitor watches given events; "Monitoring Violations of Differential Privacy over Time" (arXiv 2509.20283) names
their search as future work. By Neyman and Pearson the best set holds the outputs whose likelihood ratio is largest.
So the outputs are put into cells (each value of a discrete output, stretches of the real line), the cells are ranked
by the ratio on one half of the runs, and the other half says how many of them to take: what is chosen on one half
and judged on the other does not owe its place to chance.

The event is chosen on these runs only. A monitor that counts later runs keeps its level whatever the choice is.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dprepro.audits.monitor_events import Among, AnyOf, Event, Mechanism, Reversed, keys, runs
from dprepro.base.check import finite, in_interval, positive_count
from dprepro.mechanisms.events import Interval, OneOf

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_CELLS = 60  # stretches of the real line between common quantiles; the tails get finer ones
_DISCRETE = 20  # outputs a distinct value, on average, from which numbers count as discrete
_CHANCE = 0.05  # that the largest of all scores looks like a violation without being one
_CLEARLY = (
    2.0  # how often that score a lower epsilon must reach, so that chance has little part in the choice
)
_PLAIN = 2.0  # standard errors that a union of intervals must be better by than one interval


def propose_events(
    mechanism: Mechanism,
    x: Any,
    x_neighbour: Any,
    *,
    epsilon: float,
    n: int,
    rng: np.random.Generator,
    delta: float = 0.0,
) -> dict[str, Event]:
    """Find events to watch, one for each direction of the claim, from first runs of a mechanism.

    Parameters
    ----------
    mechanism : callable
        mechanism(x, n, rng) returns n outputs: numbers, rows of an array (n, m), or hashable values.
    x, x_neighbour
        Two neighbouring databases.
    epsilon, delta : float
        The claim.
    n : int
        Runs on each database, at least 100; 10,000 or more find events of a few per cent.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        The event that x should favour most and, as `Reversed`, the one that x_neighbour should, by their names; the
        one that violates the claim more is first. Made for `MonitorPanel` and `watch`, on runs to come: counted on
        the runs that chose them they would raise false alarms.

    Raises
    ------
    ValueError
        An argument outside its domain; outputs that are NaN, or too many to be discrete and no numbers.

    Notes
    -----
    An event's score is its standardised violation (a - e^epsilon b - delta)/sigma, what a monitor gains a step. Where
    no event shows a violation beyond chance (Bonferroni over the candidates), epsilon is lowered until one does
    clearly: a mechanism that keeps its claim gets the event that comes closest to breaking it. A change may break
    the claim elsewhere, so propose again once a mechanism has changed.
    """
    epsilon = float(in_interval("epsilon", epsilon, 0, 700))
    delta = float(in_interval("delta", delta, 0, 1, closed="left"))
    n = int(positive_count("n", n, minimum=100))
    cells = _cells([runs(mechanism, database, n, rng) for database in (x, x_neighbour)])
    first, second = (
        np.stack([np.bincount(side[part], minlength=cells.size) for side in cells.index])
        for part in (slice(n // 2), slice(n // 2, None))
    )
    found: list[tuple[float, Event]] = []
    for direction in (1, -1):
        score, chosen = _best(first[::direction], second[::direction], cells.ordered, epsilon, delta)
        event = cells.event(chosen)
        found.append((score, event if direction == 1 else Reversed(event)))
    found.sort(key=lambda pair: -pair[0])
    return {str(event): event for _, event in found}


@dataclass(frozen=True)
class EachStep:
    """Events proposed anew at each step of a `watch`, on runs of that step's mechanism that are not counted.

    A mechanism may come to break its claim on outputs that it never gave before, where no event chosen earlier looks.
    The choice depends on runs that are independent of those counted, so a monitor keeps its level.

    Parameters
    ----------
    epsilon, n, delta
        As for `propose_events`; n runs on each database and step, besides those that are counted.

    Attributes
    ----------
    names : tuple of str
        For the panel: the event that x should favour most at a step, and the one that its neighbour should.
    """

    epsilon: float
    n: int
    delta: float = 0.0

    names: ClassVar[tuple[str, str]] = ("favoured by x", "favoured by x'")

    def propose(
        self, mechanism: Mechanism, x: Any, x_neighbour: Any, rng: np.random.Generator
    ) -> dict[str, Event]:
        """Return the events of one step by their names."""
        found = propose_events(
            mechanism, x, x_neighbour, epsilon=self.epsilon, n=self.n, rng=rng, delta=self.delta
        )
        return {self.names[isinstance(event, Reversed)]: event for event in found.values()}


@dataclass(frozen=True)
class _Cells:
    """Every output in one of finitely many cells."""

    index: list[IntArray]  # of the outputs of either database
    size: int
    ordered: bool  # neighbouring cells make an interval
    event: Callable[[IntArray], Event]  # union of cells, given in increasing order


def _cells(outputs: list[Any]) -> _Cells:
    numbers = [array for array in map(_numbers, outputs) if array is not None]
    if len(numbers) < 2:
        return _cells_of_values([keys(side) for side in outputs])
    pooled = finite("outputs", np.concatenate(numbers))
    values, index = np.unique(pooled, return_inverse=True)
    ordered = len(values) * _DISCRETE > len(pooled)
    if not ordered:
        return _Cells(_sides(index), len(values), False, lambda chosen: OneOf(values[chosen].tolist()))
    tails = 0.5 ** np.arange(np.log2(_CELLS), np.log2(len(pooled) / 10))
    levels = np.concatenate([tails, np.arange(1, _CELLS) / _CELLS, 1 - tails])
    quartiles = np.quantile(pooled, [0.25, 0.75])
    spread = np.ptp(quartiles) or np.ptp(values)
    ends = np.unique(np.quantile(pooled, levels, method="lower").round(3 - int(np.floor(np.log10(spread)))))
    edges = np.concatenate([[-np.inf], ends, [np.inf]])

    def union(chosen: IntArray) -> Event:
        stretches = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
        parts = tuple(Interval(float(edges[part[0]]), float(edges[part[-1] + 1])) for part in stretches)
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    return _Cells(_sides(np.searchsorted(ends, pooled)), len(edges) - 1, True, union)


def _cells_of_values(outputs: list[list[Hashable]]) -> _Cells:
    number: dict[Hashable, int] = {}
    index = np.array([number.setdefault(key, len(number)) for side in outputs for key in side])
    if 2 * len(number) > len(index):
        raise ValueError(
            f"outputs must be numbers or repeat, got {len(number)} different of {len(index)}: reduce them to a "
            "number or to a few values"
        )
    values = list(number)
    return _Cells(
        _sides(index), len(values), False, lambda chosen: Among(frozenset(values[i] for i in chosen))
    )


def _sides(index: IntArray) -> list[IntArray]:
    return np.split(index, 2)


def _numbers(outputs: Any) -> NDArray[Any] | None:
    """Return the outputs as an array, if each is a number."""
    if isinstance(outputs, list | tuple) and not all(isinstance(value, Real) for value in outputs):
        return None
    array = np.asarray(outputs)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        return None
    # Beyond 2^53 two whole numbers may be the same float; they are kept apart as values of any other kind.
    return None if array.dtype.kind in "iu" and ((array > 2**53) | (array < -(2**53))).any() else array


def _best(
    first: IntArray, second: IntArray, ordered: bool, epsilon: float, delta: float
) -> tuple[float, IntArray]:
    """Return the standardised violation of the best set of cells, and the set, from counts of shape (2, cells)."""
    ratio = (first[0] + 0.5) / (first[1] + 0.5)
    size, runs_a_side = len(ratio), int(second[0].sum())
    # Candidates are stretches [start, end) of a sequence of cells: the most telling ones and, on a line, all.
    sequences = [(np.argsort(-ratio, kind="stable"), np.zeros(size, dtype=np.int64), np.arange(1, size + 1))]
    if ordered:
        sequences.append((np.arange(size), *np.triu_indices(size + 1, 1)))
    counts = []
    for cells, start, end in sequences:
        total = np.concatenate([np.zeros((2, 1)), np.cumsum(second[:, cells], axis=1)], axis=1)
        counts.append(total[:, end] - total[:, start])
    a, b = (np.concatenate(counts, axis=1) + 0.5) / (runs_a_side + 1)
    handicap = np.where(np.arange(len(a)) < size, _PLAIN if ordered else 0.0, 0.0)

    def scores(at: float) -> FloatArray:
        shrink = np.exp(-at)  # both sides of the claim over e^epsilon, which may be too large to be squared
        sigma = np.sqrt((shrink**2 * a * (1 - a) + b * (1 - b)) / runs_a_side)
        return (shrink * (a - delta) - b) / sigma - handicap

    sure = -ndtri(_CHANCE / len(a))
    low, high = (epsilon if scores(epsilon).max() >= sure else 0.0), epsilon
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if scores(middle).max() >= _CLEARLY * sure else (low, middle)
    best = int(scores(low).argmax())
    score = float(scores(epsilon)[best])
    for cells, start, end in sequences:
        if best < len(start):
            return score, np.sort(cells[start[best] : end[best]])
        best -= len(start)
    raise AssertionError("the best candidate belongs to one of the sequences")
