"""What a monitor of one's own mechanism counts: events of every kind of output, unions, sets, both directions.

mechanisms.events has the events of the classical mechanisms; these serve any mechanism(x, n, rng) that returns n
outputs.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]

Mechanism = Callable[[Any, int, np.random.Generator], Any]  # (database, n, rng) -> n outputs


class Event(Protocol):
    """A set of outputs, as in mechanisms.events."""

    def __call__(self, outputs: Any, /) -> BoolArray:
        """Which of n outputs lie in it."""
        ...


@dataclass(frozen=True)
class AnyOf:
    """Union of events, such as both tails of a distribution."""

    events: tuple[Event, ...]

    def __call__(self, outputs: Any) -> BoolArray:
        """Which outputs lie in at least one of the events: bool, shape (n,)."""
        return np.logical_or.reduce([event(outputs) for event in self.events])

    def __str__(self) -> str:
        return " or ".join(map(str, self.events))


@dataclass(frozen=True)
class Among:
    """Outputs of any hashable kind that are among given ones; a row of an array is the tuple of its entries."""

    values: frozenset[Hashable]

    def __call__(self, outputs: Any) -> BoolArray:
        """Which outputs are among the values: bool, shape (n,), from n outputs or an array (n, m)."""
        return np.array([key in self.values for key in keys(outputs)], dtype=np.bool_)

    def __str__(self) -> str:
        shown = sorted(map(repr, self.values))
        return "{" + ", ".join(shown[:3]) + (f", and {len(shown) - 3} more" if len(shown) > 3 else "") + "}"


@dataclass(frozen=True)
class Reversed:
    """An event that the neighbour x' should not favour over x: counts are taken with the databases exchanged."""

    event: Event

    def __call__(self, outputs: Any) -> BoolArray:
        """Which outputs lie in the event."""
        return self.event(outputs)

    def __str__(self) -> str:
        return f"{self.event} under x'"


def runs(mechanism: Mechanism, x: Any, n: int, rng: np.random.Generator) -> Any:
    """Run a mechanism n times; ValueError naming it if it does not return n outputs, or numbers that are NaN."""
    outputs = mechanism(x, n, rng)
    try:
        found = len(outputs)
    except TypeError:
        found = -1
    if found != n:
        name = getattr(mechanism, "__name__", str(mechanism))
        got = f"{found} outputs" if found >= 0 else f"{outputs!r:.80}"
        raise ValueError(f"mechanism {name} must return n = {n} outputs, got {got}")
    # In rows NaN may stand for what was not released; an output that is NaN lies in no event and would look private.
    if isinstance(outputs, np.ndarray) and outputs.ndim == 1 and outputs.dtype.kind == "f":
        missing = int(np.isnan(outputs).sum())
        if missing:
            name = getattr(mechanism, "__name__", str(mechanism))
            raise ValueError(f"mechanism {name} must return numbers, got {missing} NaN of {n}")
    return outputs


def count(event: Event, outputs_x: Any, outputs_neighbour: Any) -> tuple[int, int]:
    """Return how many outputs of each database lie in an event, first of the one that the event is meant for.

    Raises
    ------
    ValueError
        The event does not return a bool array with an entry for each output.
    """
    found = []
    for outputs in (outputs_x, outputs_neighbour):
        inside = np.asarray(event(outputs))
        if inside.shape != (len(outputs),) or inside.dtype != np.bool_:
            raise ValueError(
                f"event {event} must return a bool array of shape ({len(outputs)},), "
                f"got {inside.dtype} of shape {inside.shape}"
            )
        found.append(int(np.count_nonzero(inside)))
    return (found[1], found[0]) if isinstance(event, Reversed) else (found[0], found[1])


def keys(outputs: Any) -> list[Hashable]:
    """Return each output as something that can be looked up; a row of an array as a tuple."""
    if isinstance(outputs, np.ndarray):
        outputs = outputs.tolist() if outputs.ndim == 1 else outputs.reshape(len(outputs), -1).tolist()
    return [tuple(value) if isinstance(value, list | np.ndarray) else value for value in outputs]
