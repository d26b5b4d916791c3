"""What every monitor of a privacy claim over time shares: the checks of a step, the alarm, a state that can be saved.

A monitor gets, step by step, how many of n outputs on a database x and of n on its neighbour x' lie in one event. Its
null is the claim at every step so far: P(A(x) in E) <= e^epsilon P(A(x') in E) + delta. An alarm stays.

Counts may be arrays: many independent streams under the same claim, as a simulation needs them. One code serves both.
"""

import copy
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import at_most, in_interval, positive_count
from dprepro.stats.two_rates import checked_claim, checked_counts

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class MonitorResult:
    """What one step gave; numbers for one stream, arrays of the counts' shape for several.

    Attributes
    ----------
    statistic : float
    threshold : float
        An alarm is raised where the statistic reaches it.
    alarm : bool
        It did so at this step or at an earlier one.
    change_point : int
        Step, from 1, at which the present behaviour is most likely to have begun.
    """

    statistic: Any
    threshold: float
    alarm: Any
    change_point: Any


class Monitor(ABC):
    """A claim watched step by step.

    Parameters
    ----------
    epsilon, delta : float
        The claim: epsilon in [0, 300], delta in [0, 1).
    alpha : float
        Probability of a false alarm, in (0, 1).
    horizon : int or None
        Number of steps planned; a step after it is refused.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    def __init__(self, epsilon: float, alpha: float, *, delta: float, horizon: int | None) -> None:
        checked_claim(epsilon, delta)
        self.epsilon, self.delta = float(epsilon), float(delta)
        self.alpha = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
        self.horizon = None if horizon is None else int(positive_count("horizon", horizon))
        self.steps = 0
        self._shape: tuple[int, ...] | None = None
        self._alarm = np.zeros(0, dtype=bool)

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Return what the statistic must reach."""

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """Return all that a saved state must agree with, as JSON values."""

    @abstractmethod
    def _begin(self, streams: int) -> None:
        """Set the state before the first step; in new arrays."""

    @abstractmethod
    def _step(self, x: IntArray, y: IntArray, n: IntArray) -> tuple[FloatArray, IntArray]:
        """Take in the next step of every stream; return statistic and change point."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return the state as JSON values."""

    @abstractmethod
    def _set_state(self, state: dict[str, Any]) -> None:
        """Take over what `_state` returned, after `_begin`; ValueError, KeyError or TypeError if it is not that."""

    def update(self, count_x: ArrayLike, count_y: ArrayLike, n: ArrayLike) -> MonitorResult:
        """Take in the counts of the next step.

        Parameters
        ----------
        count_x, count_y : int or array of int
            How many of the n outputs on x and on x' lie in the event. Arrays are independent streams; every step
            has the same shape.
        n : int or array of int
            Outputs a side, at least 1, settled before they are drawn; it may differ from step to step.

        Raises
        ------
        ValueError
            n = 0, a count below 0 or above n, another shape than before, a step after the horizon. The state is
            then as it was.
        """
        x, y, size = checked_counts(count_x, count_y, n)
        if self.horizon is not None and self.steps >= self.horizon:
            raise ValueError(f"horizon is {self.horizon} steps and all are taken: begin a new monitor")
        if self._shape is None:
            self._shape, self._alarm = x.shape, np.zeros(x.size, dtype=bool)
            self._begin(x.size)
        elif x.shape != self._shape:
            raise ValueError(
                f"count_x, count_y and n must broadcast to shape {self._shape} as before, got {x.shape}"
            )
        statistic, change_point = self._step(x.ravel(), y.ravel(), size.ravel())
        self.steps += 1
        self._alarm = self._alarm | (statistic >= self.threshold)
        if self._shape == ():
            return MonitorResult(
                float(statistic[0]), self.threshold, bool(self._alarm[0]), int(change_point[0])
            )
        return MonitorResult(
            statistic.reshape(self._shape),
            self.threshold,
            self._alarm.reshape(self._shape).copy(),
            change_point.reshape(self._shape),
        )

    def to_json(self) -> str:
        """Return the state as JSON, exact: a monitor that restores it goes on with the same numbers."""
        saved = {
            "monitor": type(self).__name__,
            "parameters": self._parameters(),
            "steps": self.steps,
            "shape": self._shape,
            "alarm": self._alarm.tolist(),
            "state": {} if self._shape is None else self._state(),
        }
        return json.dumps(saved, allow_nan=False)

    def restore(self, text: str) -> None:
        """Set the state to a saved one.

        Parameters
        ----------
        text : str
            What `to_json` of a monitor of the same kind and parameters returned.

        Raises
        ------
        ValueError
            It is not such a text, or comes from another monitor or other parameters, which are named. The state is
            then as it was.
        """
        damaged = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
        try:
            saved = json.loads(text)
            kind, parameters = saved["monitor"], dict(saved["parameters"])
        except damaged as error:
            raise ValueError(
                f"text must be the saved state of a monitor, got one that is not: {error!r}"
            ) from None
        if kind != type(self).__name__:
            raise ValueError(f"text must be the state of a {type(self).__name__}, got one of a {kind}")
        own = self._parameters()
        for name in sorted({*own, *parameters}):
            if own.get(name) != parameters.get(name):
                raise ValueError(
                    f"text must be the state of a monitor with {name} = {own.get(name)!r}, "
                    f"got {parameters.get(name)!r}"
                )
        other = copy.copy(self)  # takes the state over first: an error halfway leaves self alone
        try:
            other._take_over(saved)
        except damaged as error:
            raise ValueError(
                f"text must be the saved state of a monitor, got one that is damaged: {error!r}"
            ) from None
        vars(self).update(vars(other))

    def _take_over(self, saved: dict[str, Any]) -> None:
        steps = positive_count("steps", saved["steps"], minimum=0)
        if self.horizon is not None:
            at_most("steps", steps, "horizon", np.array(self.horizon))
        if (steps == 0) != (saved["shape"] is None):
            raise ValueError("shape must be null before the first step, and only then")
        self.steps, self._shape = int(steps), None
        streams = 0
        if saved["shape"] is not None:
            self._shape = tuple(positive_count("shape", saved["shape"], minimum=0).tolist())
            streams = math.prod(self._shape)
        self._alarm = np.array(saved["alarm"], dtype=bool)
        if self._alarm.shape != (streams,):
            raise ValueError(f"alarm must have {streams} entries")
        if self._shape is not None:
            self._begin(streams)
            self._set_state(saved["state"])
