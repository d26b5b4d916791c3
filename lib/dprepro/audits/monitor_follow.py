"""The command ``dprepro monitor``: counts come in as CSV, a line a step goes out, an alarm is an exit status.

A file is a log that grows: with a saved state the steps counted before are skipped, and must be unchanged. What
comes on standard input is always new. The state is consistent at every moment and written before a step is
printed, so what was printed is kept, whatever ends the command.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_csv import CountReader, Step
from dprepro.audits.monitor_panel import MonitorPanel, PanelResult, update
from dprepro.audits.monitor_state import Monitor, MonitorResult
from dprepro.base.check import one_of
from dprepro.base.store import locked, sha256_json, write_atomic

ALARM = 3  # exit status
METHODS = ("betting", "retidp")
_LONG = 200  # steps


def follow(
    source: str,
    *,
    epsilon: float,
    alpha: float,
    delta: float = 0.0,
    method: str = "betting",
    horizon: int | None = None,
    beta: float | None = None,
    state: str | None = None,
) -> int:
    """Monitor the counts of a CSV file or of standard input, printing a line a step.

    Parameters
    ----------
    source : str
        Path of a CSV file (monitor_csv), or "-" for standard input, read line by line.
    epsilon, delta, alpha, horizon, beta
        As for `BettingMonitor` and `ReTiDPMonitor`; with a column ``event`` alpha is that of the panel.
    method : {"betting", "retidp"}
    state : str, optional
        JSON file that keeps what was counted from one call to the next; made if missing.

    Returns
    -------
    int
        3 at an alarm, also at one in the saved state; 0 if there is none.

    Raises
    ------
    ValueError
        An argument outside its domain; an input that is malformed, empty, longer than the horizon or not the one
        that was counted before; a state of other parameters. Steps before the error are kept in the state.
    OSError
        A file cannot be read or written, or another process uses the state.
    """
    make = _maker(one_of("method", method, METHODS), epsilon, delta, horizon, beta)
    make(alpha)  # its arguments are checked before anything is read
    where = "standard input" if source == "-" else source
    with ExitStack() as stack:
        if state is not None:
            stack.enter_context(locked(Path(f"{state}.lock"), f"another process uses {state}"))
        progress = _Progress(make, alpha, state)
        if progress.alarm:
            print(f"{progress.alarm} (kept in {state}; begin anew with another state)")
            return ALARM
        stack.callback(progress.write)
        lines = sys.stdin if source == "-" else stack.enter_context(open(source, encoding="utf-8"))
        reader = CountReader(lines, where, progress.events, progress.label if source == "-" else None)
        steps = iter(reader)
        before = progress.steps
        if source != "-":
            progress.skip(steps, where)
        for step in steps:
            try:
                line = progress.take(step, reader.events or ())
            except ValueError as error:
                raise ValueError(f"{where}, line {reader.line}: {error}") from error
            if source == "-":
                progress.write()
            print(line, flush=True)
            if progress.alarm:
                return ALARM
        if reader.unfinished:
            print(f"{where}, {reader.unfinished}: not counted", file=sys.stderr)
        if progress.steps == (before if source == "-" else 0):
            raise ValueError(f"{where} must hold counts, got no complete line below a header")
        counted = f"steps counted: {progress.steps}"
        print(f"no alarm; {counted} ({method}, epsilon {epsilon:g}, alpha {alpha:g})")
        return 0


def _maker(
    method: str, epsilon: float, delta: float, horizon: int | None, beta: float | None
) -> Callable[[float], Monitor]:
    if method == "betting":
        if beta is not None:
            raise ValueError(f"beta is a parameter of the method 'retidp' only, got {beta:g}")
        return lambda alpha: BettingMonitor(epsilon, alpha, delta=delta, horizon=horizon)
    if horizon is None:
        raise ValueError(
            "horizon, the number of steps planned, must be given for the method 'retidp', got None"
        )
    weight = 0.25 if beta is None else beta
    # The grid's own threshold takes minutes to simulate for many steps; the limit's is a little larger.
    threshold = "horizon" if horizon <= _LONG else "limit"
    return lambda alpha: ReTiDPMonitor(
        epsilon, alpha, horizon=horizon, delta=delta, beta=weight, threshold=threshold
    )


class _Progress:
    """A monitor with what a later call must know: which steps it was given, and whether it raised its alarm."""

    def __init__(self, make: Callable[[float], Monitor], alpha: float, path: str | None) -> None:
        self._make, self._alpha, self._path = make, alpha, path
        self._monitor: Monitor | MonitorPanel | None = None
        self.events: tuple[str, ...] | None = None  # None: not known before the first step
        self.label: int | None = None  # of the last step in column step
        self.alarm = ""  # the line of the alarm
        self._digest = ""  # of all steps
        self._text = ""  # the state, always of a whole number of steps
        if path is not None and Path(path).exists():
            self._load(Path(path))

    @property
    def steps(self) -> int:
        """Steps counted, by all calls."""
        return self._monitor.steps if self._monitor else 0

    def take(self, step: Step, events: tuple[str, ...]) -> str:
        """Count a step and return its line."""
        monitor = self._begun(events)
        result = update(monitor, step.counts, step.n)
        digest, line = _chained(self._digest, step), _line(step, monitor.steps, result)
        saved = {
            "events": events,
            "label": step.label,
            "alarm": line if result.alarm else "",
            "digest": digest,
            "monitor": json.loads(monitor.to_json()),
        }
        self._text = json.dumps(saved, allow_nan=False) + "\n"
        self._digest, self.label, self.alarm = digest, step.label, saved["alarm"]
        return line

    def skip(self, steps: Iterator[Step], where: str) -> None:
        """Pass over the steps counted by earlier calls; ValueError if others stand there."""
        digest = ""
        for taken in range(self.steps):
            step = next(steps, None)
            if step is None:
                raise ValueError(
                    f"{where} must begin with the {self.steps} steps counted in {self._path}, got {taken}"
                )
            digest = _chained(digest, step)
        if digest != self._digest:
            raise ValueError(
                f"{where} must begin with the {self.steps} steps counted in {self._path}, got others: it was changed "
                "above its end, or is another file (new steps alone go to standard input)"
            )

    def write(self) -> None:
        """Write the state, if one is kept and there is anything new."""
        if self._path is not None and self._text:
            write_atomic(self._path, self._text)
            self._text = ""

    def _begun(self, events: tuple[str, ...]) -> Monitor | MonitorPanel:
        if self._monitor is None:
            self._monitor = (
                MonitorPanel(self._make, events, self._alpha) if events else self._make(self._alpha)
            )
        return self._monitor

    def _load(self, path: Path) -> None:
        try:
            saved: dict[str, Any] = json.loads(path.read_bytes())
            self.events, self.label = tuple(saved["events"]), saved["label"]
            self.alarm, self._digest = str(saved["alarm"]), str(saved["digest"])
            inner = json.dumps(saved["monitor"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} must be a state of dprepro monitor, got {error!r}") from error
        try:
            self._begun(self.events).restore(inner)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _chained(digest: str, step: Step) -> str:
    return sha256_json([digest, step.label, step.counts, step.n])


def _line(step: Step, number: int, result: MonitorResult) -> str:
    name = number if step.label is None else step.label
    if isinstance(result, PanelResult):
        seen = f"foremost event {result.event}"
    else:
        (count_x, count_y), n = step.counts[""], step.n
        seen = f"x {count_x}/{n}, x' {count_y}/{n}"
    line = f"step {name}: {seen}, statistic {result.statistic:.3f}, threshold {result.threshold:.3f}"
    if not result.alarm:
        return line
    ago = number - int(result.change_point)
    since = "at this step" if ago <= 0 else f"{ago} step{'s' * (ago > 1)} before"
    return f"{line}: ALARM, the claim is broken; the change is put {since}"
