"""Several events watched at once: their monitors share alpha, whatever the events have to do with each other.

One event sees one way to break the claim. Events counted on the same outputs depend on each other, so only what holds
under every dependence may combine them.

* Capital that bets on each event (`BettingMonitor`): the average over the events. An average of nonnegative
  supermartingales that start at 1 is one again, and by Ville's inequality it reaches 1/alpha with a probability of
  alpha at most.
* Any other monitor: Bonferroni, alpha/k for each of k events, as "Monitoring Violations of Differential Privacy over
  Time" (arXiv 2509.20283) does.

The average alarms whenever Bonferroni would: one capital of k/alpha makes an average of at least 1/alpha.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dprepro.audits.monitor import BettingMonitor
from dprepro.audits.monitor_state import Monitor, MonitorResult
from dprepro.base.check import in_interval


@dataclass(frozen=True)
class PanelResult(MonitorResult):
    """What one step gave; `statistic`, `threshold` and `alarm` are those of the whole panel.

    Attributes
    ----------
    event : str
        Name of the event whose own statistic is the largest, an array for several streams. At an alarm it is the
        event that speaks most for it. `change_point` is that event's.
    statistics : dict
        The statistic of each event by its name.
    """

    event: Any
    statistics: dict[str, Any]


class MonitorPanel:
    """Monitors of the same claim, one for each event, with one probability of a false alarm.

    Parameters
    ----------
    make : callable
        make(alpha) returns a new monitor with that probability of a false alarm, such as
        ``lambda alpha: BettingMonitor(1.0, alpha)``.
    events : iterable of str
        Names of the events, different, at least one; a mapping from names to events will do.
    alpha : float
        Probability of a false alarm of the whole panel, in (0, 1).

    Attributes
    ----------
    events : tuple of str
    monitor : Monitor
        Its streams are the events; it was made with alpha/k for k events.

    Raises
    ------
    ValueError
        An argument outside its domain, or a name that comes twice or would not survive in a CSV file.
    """

    def __init__(self, make: Callable[[float], Monitor], events: Iterable[str], alpha: float) -> None:
        self.events = tuple(events)
        if not self.events or len(set(self.events)) != len(self.events):
            raise ValueError(f"events must be different names, at least one, got {self.events}")
        for name in self.events:
            if not isinstance(name, str) or name.strip() != name or len(name.splitlines()) != 1:
                raise ValueError(
                    f"events must have names of one line without blanks at its ends, not empty, got {name!r}"
                )
        self.alpha = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
        self.monitor = make(self.alpha / len(self.events))
        self._averages = isinstance(self.monitor, BettingMonitor)
        self._alarm: Any = np.False_

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self.monitor.steps

    @property
    def horizon(self) -> int | None:
        """Steps planned."""
        return self.monitor.horizon

    @property
    def threshold(self) -> float:
        """What the panel's statistic must reach: log(1/alpha) for an average of capitals, else each event's own."""
        return float(-np.log(self.alpha)) if self._averages else self.monitor.threshold

    def update(self, counts: Mapping[str, tuple[ArrayLike, ArrayLike]], n: ArrayLike) -> PanelResult:
        """Take in the counts of the next step.

        Parameters
        ----------
        counts : mapping from the name of each event to (count_x, count_y)
            As for a monitor; arrays are independent panels.
        n : int or array of int
            Outputs a side, the same for every event.

        Raises
        ------
        ValueError
            An event is missing or unknown, or what the monitor refuses. The state is then as it was.
        """
        if set(counts) != set(self.events):
            raise ValueError(f"counts must have the events {self.events}, got {tuple(counts)}")
        count_x, count_y = (
            np.stack([np.asarray(counts[name][side]) for name in self.events]) for side in (0, 1)
        )
        found = self.monitor.update(count_x, count_y, n)
        if self._averages:
            statistic = np.logaddexp.reduce(found.statistic, axis=0) - np.log(len(self.events))
        else:
            statistic = found.statistic.max(axis=0)
        self._alarm = self._alarm | (statistic >= self.threshold)
        leading = found.statistic.argmax(axis=0)
        change_point = np.take_along_axis(found.change_point, leading[None], axis=0)[0]
        event = np.array(self.events)[leading]
        if np.ndim(statistic) == 0:
            statistic, change_point, event = float(statistic), int(change_point), str(event)
        return PanelResult(
            statistic,
            self.threshold,
            bool(self._alarm) if np.ndim(statistic) == 0 else self._alarm.copy(),
            change_point,
            event,
            dict(
                zip(
                    self.events,
                    found.statistic.tolist() if found.statistic.ndim == 1 else found.statistic,
                    strict=True,
                )
            ),
        )

    def to_json(self) -> str:
        """Return the state as JSON, exact."""
        saved = {"events": self.events, "alpha": self.alpha, "alarm": self._alarm.tolist()}
        return json.dumps({**saved, "monitor": json.loads(self.monitor.to_json())}, allow_nan=False)

    def restore(self, text: str) -> None:
        """Set the state to one that `to_json` of such a panel returned.

        Raises
        ------
        ValueError
            It is not such a text, or comes from other events, another monitor or other parameters, which are named.
        """
        try:
            saved = json.loads(text)
            events, alpha, alarm = (
                tuple(saved["events"]),
                saved["alpha"],
                np.array(saved["alarm"], dtype=bool),
            )
            inner = json.dumps(saved["monitor"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"text must be the saved state of a panel, got one that is not: {error!r}"
            ) from None
        if events != self.events:
            raise ValueError(f"text must be the state of a panel of the events {self.events}, got {events}")
        if alpha != self.alpha:
            raise ValueError(f"text must be the state of a panel with alpha = {self.alpha!r}, got {alpha!r}")
        self.monitor.restore(inner)
        self._alarm = alarm if alarm.ndim else alarm[()]


def update(
    monitor: Monitor | MonitorPanel, counts: Mapping[str, tuple[ArrayLike, ArrayLike]], n: ArrayLike
) -> MonitorResult:
    """Give the counts of a step to a panel, or to a monitor, whose only event goes by the name ""."""
    return monitor.update(counts, n) if isinstance(monitor, MonitorPanel) else monitor.update(*counts[""], n)
