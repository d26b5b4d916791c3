"""Watch a mechanism of one's own: run it on two neighbouring databases step by step and stop at the first alarm.

The protocol of "Monitoring Violations of Differential Privacy over Time" (arXiv 2509.20283): at each step n runs of
the mechanism as it is now on x, n on x', and the counts of one event or several go to a monitor.

What is counted is kept before it is used. A watch that Ctrl-C, an error in the mechanism or a power cut ended goes
on with the same call, and gives the counts that it would have given without the break.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from dprepro.audits.monitor_csv import COLUMNS, Counts, Step, StepLog
from dprepro.audits.monitor_events import Event, Mechanism, count, runs
from dprepro.audits.monitor_panel import MonitorPanel, PanelResult, update
from dprepro.audits.monitor_propose import EachStep
from dprepro.audits.monitor_state import Monitor, MonitorResult
from dprepro.base.check import positive_count


@dataclass(frozen=True)
class Watched:
    """What a watch saw.

    Attributes
    ----------
    counts : DataFrame
        Columns step, event (of a panel), count_x, count_y, n.
    results : list of MonitorResult
        One a step.
    interrupted : bool
        Ctrl-C ended it; the same call goes on.
    """

    counts: pd.DataFrame
    results: list[MonitorResult]
    interrupted: bool

    @property
    def alarm(self) -> int | None:
        """Step of the alarm, None if there is none."""
        if not self.results or not self.results[-1].alarm:
            return None
        return int(self.counts["step"].iloc[-1])

    def __str__(self) -> str:
        if self.alarm is None:
            return f"no alarm in {len(self.results)} steps" + (", interrupted" if self.interrupted else "")
        last = self.results[-1]
        event = f", event {last.event}" if isinstance(last, PanelResult) else ""
        return f"alarm at step {self.alarm}{event}; the change is put at step {last.change_point}"


def watch(
    mechanism: Mechanism | Iterable[Mechanism],
    x: Any,
    x_neighbour: Any,
    events: Event | Mapping[str, Event] | EachStep,
    monitor: Monitor | MonitorPanel,
    *,
    n: int,
    rng: np.random.Generator,
    steps: int | None = None,
    path: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Watched:
    """Run a mechanism under a monitor until the first alarm.

    Parameters
    ----------
    mechanism : callable or iterable of callables
        mechanism(x, n, rng) returns n independent outputs on the database x. An iterable gives one mechanism a step
        (what is deployed then).
    x, x_neighbour
        Two neighbouring databases; the claim watched is P(A(x) in E) <= e^epsilon P(A(x_neighbour) in E) + delta.
    events : callable, mapping from names to callables, or EachStep
        event(outputs) says which outputs lie in it (mechanisms.events, `propose_events`). A mapping needs a panel of
        its names, `EachStep`, which chooses events step by step, one of ``EachStep.names``.
    monitor : Monitor or MonitorPanel
        Steps that it has taken already are not taken again.
    n : int
        Runs on each database and step, at least 1.
    rng : numpy.random.Generator
        One number is drawn from it; with the step's number it seeds the step, so that a watch taken up again from
        the same seed never repeats the random numbers of an earlier step.
    steps : int, optional
        Number of steps the monitor shall have taken at the end; by default its horizon, or as many as there
        are mechanisms.
    path : path, optional
        CSV file of the counts (monitor_csv), a step appended as soon as it is counted. Steps that it holds are taken
        from there and not run; an alarm among them ends the watch.
    progress : bool, optional
        Show a progress bar. By default it is shown on a terminal only.

    Returns
    -------
    Watched
        With `path` all steps, otherwise those of this call. Ctrl-C returns what there is.

    Raises
    ------
    ValueError
        An argument outside its domain; a mechanism that does not return n outputs; a file of other counts.
    Exception
        What the mechanism raises, with a note that says at which step; the steps before are kept.
    """
    n = int(positive_count("n", n))
    names = _names(events, monitor)
    last = _last_step(steps, mechanism, monitor)
    if np.any(json.loads(monitor.to_json())["alarm"]):
        raise ValueError(
            f"monitor must not have raised its alarm already (step {monitor.steps}): begin a new one"
        )
    log = None if path is None else StepLog(Path(path), names)
    if log and len(log.steps) < monitor.steps:
        raise ValueError(
            f"path must hold the {monitor.steps} steps that monitor has taken, got {len(log.steps)}"
        )
    entropy = int(rng.integers(2**63))
    done = len(log.steps) if log else monitor.steps

    def fresh() -> Iterator[Step]:
        each = itertools.repeat(mechanism) if callable(mechanism) else mechanism
        stop = None if last is None else max(done, last)
        for number, now in enumerate(itertools.islice(each, done, stop), start=done + 1):
            stream = np.random.default_rng([entropy, number])
            with _noted(f"watch: at step {number}; the {number - 1} steps before are kept"):
                step = Step(number, _counts(now, x, x_neighbour, events, n, stream), n)
            if log:
                log.append(step)
            yield step

    taken: list[tuple[Step, MonitorResult]] = []
    interrupted = False
    kept = log.steps[monitor.steps : last] if log else []
    hidden = None if progress is None else not progress
    with tqdm(total=last, initial=monitor.steps, unit="step", disable=hidden) as bar:
        try:
            for step in itertools.chain(kept, fresh()):
                result = _undivided(monitor, step)
                taken.append((step, result))
                bar.set_postfix(statistic=f"{result.statistic:.3g}", threshold=f"{result.threshold:.3g}")
                bar.update()
                if result.alarm:
                    break
        except KeyboardInterrupt:
            interrupted = True
    rows = [
        (step.label, name, count_x, count_y, step.n)
        for step, _ in taken
        for name, (count_x, count_y) in step.counts.items()
    ]
    counts = pd.DataFrame(rows, columns=COLUMNS)
    if not names:
        counts = counts.drop(columns="event")
    return Watched(counts, [result for _, result in taken], interrupted)


def _names(
    events: Event | Mapping[str, Event] | EachStep, monitor: Monitor | MonitorPanel
) -> tuple[str, ...]:
    """Return the names of a panel's events, nothing for a single event."""
    names: tuple[str, ...] = tuple(events) if isinstance(events, Mapping) else ()
    if isinstance(events, EachStep):
        names = events.names
    if isinstance(monitor, MonitorPanel):
        if set(names) != set(monitor.events):
            raise ValueError(f"events must have the panel's names {monitor.events}, got {names or events!r}")
    elif isinstance(events, Mapping | EachStep):
        raise ValueError(
            f"monitor must be a MonitorPanel of the events {names}, got a {type(monitor).__name__}"
        )
    return names


def _last_step(
    steps: int | None, mechanism: Mechanism | Iterable[Mechanism], monitor: Monitor | MonitorPanel
) -> int | None:
    horizon = monitor.horizon
    if steps is None:
        if horizon is None and callable(mechanism):
            raise ValueError("steps must be given for a monitor without a horizon, got None")
        return horizon
    last = int(positive_count("steps", steps, minimum=0))
    if horizon is not None and last > horizon:
        raise ValueError(f"steps must be at most the monitor's horizon, got {last} of {horizon}")
    return last


def _counts(
    mechanism: Mechanism,
    x: Any,
    x_neighbour: Any,
    events: Event | Mapping[str, Event] | EachStep,
    n: int,
    rng: np.random.Generator,
) -> Counts:
    if isinstance(events, EachStep):
        events = events.propose(mechanism, x, x_neighbour, rng)
    named = events if isinstance(events, Mapping) else {"": events}
    outputs, outputs_neighbour = runs(mechanism, x, n, rng), runs(mechanism, x_neighbour, n, rng)
    return {name: count(event, outputs, outputs_neighbour) for name, event in named.items()}


def _undivided(monitor: Monitor | MonitorPanel, step: Step) -> MonitorResult:
    """Give the monitor a step wholly or, if Ctrl-C comes in between, not at all."""
    before = monitor.to_json()
    try:
        return update(monitor, step.counts, step.n)
    except BaseException:
        monitor.restore(before)
        raise


@contextmanager
def _noted(note: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
