"""Counts for a monitor as CSV: read line by line while they come, written a whole step at a time.

Columns ``count_x``, ``count_y`` (runs on either database that fell into the event) and ``n`` (runs on each), and two
that may be missing: ``step``, whole numbers that increase, and ``event``, for a panel with one row an event and step.

A writer may be killed at any byte, so a line counts once its line end is there and a step once all its rows are:
``12,31`` at the end of a file may be the beginning of ``12,3100``. What is unfinished is named, never counted.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dprepro.base.check import positive_count
from dprepro.base.store import write_atomic

NEEDED = ("count_x", "count_y", "n")
OPTIONAL = ("step", "event")
COLUMNS = OPTIONAL + NEEDED  # in the order in which they are written

Counts = dict[
    str, tuple[int, int]
]  # event name -> (count_x, count_y); without column event the one name is ""


@dataclass(frozen=True)
class Step:
    """The counts of one step."""

    label: int | None  # its number in column step, if there is one
    counts: Counts
    n: int


class CountReader:
    """The steps of a CSV stream, each yielded as soon as its last row has been read.

    Parameters
    ----------
    lines : iterable of str
        With their line ends; the header first.
    where : str
        Name of the stream, for messages.
    events : tuple of str, optional
        Names of the events, () for a stream without column ``event``. By default they are those of the first step,
        which ends where an event comes again, where ``step`` changes, or with the stream.
    after : int, optional
        Number of the last step that was counted before: ``step`` must go on from there.

    Attributes
    ----------
    events : tuple of str or None
        None until they are known.
    unfinished : str
        What stood at the end without being complete; empty if nothing did.
    line : int
        The line read last.
    """

    def __init__(
        self,
        lines: Iterable[str],
        where: str,
        events: tuple[str, ...] | None = None,
        after: int | None = None,
    ) -> None:
        self.where = where
        self.events = events
        self.unfinished = ""
        self.line = 0
        self._after = after
        self._complete = self._lines(lines)

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps.

        Raises
        ------
        ValueError
            Names the stream, the line, the column and the value.
        """
        columns = self._header()
        if columns is None:
            return
        rows: Counts = {}
        label, n = self._after, 0
        for fields in self._complete:
            row = self._row(columns, fields)
            event = row.get("event", "")
            if rows and self.events is None and (event in rows or self._number(row, "step", 0) != label):
                self.events = tuple(rows)
                yield Step(label if "step" in row else None, rows, n)
                rows = {}
            label, n = self._place(row, event, rows, label, n)
            rows[event] = (self._count(row, "count_x", n), self._count(row, "count_y", n))
            if self.events is not None and len(rows) == max(len(self.events), 1):
                yield Step(label if "step" in row else None, rows, n)
                rows = {}
        if rows and self.events is None and not self.unfinished:
            self.events = tuple(rows)
            yield Step(label if "step" in columns else None, rows, n)
        elif rows and not self.unfinished:
            missing = ", ".join(repr(name) for name in self.events or () if name not in rows)
            self.unfinished = f"line {self.line}: the step has no row yet for event {missing}"

    def _lines(self, lines: Iterable[str]) -> Iterator[list[str]]:
        try:
            for text in lines:
                self.line += 1
                if not text.endswith("\n"):
                    self.unfinished = f"line {self.line}: {text!r:.80} has no line end"
                    return
                if text.strip():
                    yield next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise ValueError(f"{self.where}, line {self.line}: {error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.where}, after line {self.line}: must be UTF-8, got {error}") from error

    def _header(self) -> list[str] | None:
        fields = next(self._complete, None)
        if fields is None:
            return None
        columns = [name.strip().removeprefix("\ufeff") for name in fields]
        missing = [name for name in NEEDED if name not in columns]
        unknown = [name for name in columns if name not in NEEDED + OPTIONAL]
        if missing or unknown or len(set(columns)) != len(columns):
            problem = f"column {missing[0]} is missing" if missing else "a column is unknown or stands twice"
            raise ValueError(
                f"{self.where}, line {self.line}: {problem}: the columns must be {', '.join(NEEDED)} and may be "
                f"{', '.join(OPTIONAL)}, got {','.join(columns)!r}"
            )
        if self.events is None and "event" not in columns:
            self.events = ()
        elif self.events is not None and ("event" in columns) != bool(self.events):
            wanted = f"rows for the events {', '.join(map(repr, self.events))}" if self.events else "no event"
            raise ValueError(f"{self.where}, line {self.line}, column event: the counts so far have {wanted}")
        return columns

    def _row(self, columns: list[str], fields: list[str]) -> dict[str, str]:
        if len(fields) != len(columns):
            raise ValueError(
                f"{self.where}, line {self.line}: needs {len(columns)} fields ({','.join(columns)}), "
                f"got {len(fields)}"
            )
        return dict(zip(columns, map(str.strip, fields), strict=True))

    def _place(
        self, row: dict[str, str], event: str, rows: Counts, label: int | None, n: int
    ) -> tuple[int | None, int]:
        """Return the step's number and n, if the row is one that may come next."""
        number, runs = self._number(row, "step", 0), self._number(row, "n", 1)
        assert runs is not None
        if "event" in row and not event:
            raise self._error("event", "must be a name", event)
        if self.events and (event not in self.events or event in rows):
            left = ", ".join(repr(name) for name in self.events if name not in rows)
            raise self._error("event", f"must be one of those that the step still lacks ({left})", event)
        if rows and number != label:
            raise self._error("step", f"must be {label} until the step has all its events", number)
        if rows and runs != n:
            raise self._error("n", f"must be the same for all events of a step, here {n}", runs)
        if not rows and number is not None and label is not None and number <= label:
            raise self._error("step", f"must be above the step counted last, {label}", number)
        return number, runs

    def _number(self, row: dict[str, str], column: str, minimum: int) -> int | None:
        if column not in row:
            return None
        try:
            return int(positive_count(column, float(row[column]), minimum))
        except ValueError:
            wanted = f"must be a whole number of at least {minimum}"
            raise self._error(column, wanted, row[column]) from None

    def _count(self, row: dict[str, str], column: str, n: int) -> int:
        count = self._number(row, column, 0)
        assert count is not None
        if count > n:
            raise self._error(column, f"must be at most n, here {n}", count)
        return count

    def _error(self, column: str, wanted: str, got: object) -> ValueError:
        return ValueError(f"{self.where}, line {self.line}, column {column}: {wanted}, got {got!r}")


class StepLog:
    """A CSV file to which steps 1, 2, ... are appended, each wholly or not at all.

    Parameters
    ----------
    path : Path
        Made if missing. An unfinished end, left by a writer that was killed, is cut off.
    events : tuple of str
        As for `CountReader`.

    Attributes
    ----------
    steps : list of Step
        What the file held.

    Raises
    ------
    ValueError
        The file has other events, another numbering, or is no such file at all; it is then left as it is.
    """

    def __init__(self, path: Path, events: tuple[str, ...]) -> None:
        self.path = path
        header = ",".join(name for name in COLUMNS if events or name != "event") + "\n"
        content = path.read_text(encoding="utf-8") if path.exists() else ""
        self.steps = list(CountReader(io.StringIO(content), str(path), events))
        for number, step in enumerate(self.steps, start=1):
            if step.label != number:
                raise ValueError(
                    f"{path}, column step: must be there and count 1, 2, ..., got {step.label} for step {number}"
                )
        if "\n" not in content and not header.startswith(content):
            raise ValueError(
                f"{path} must be a file of counts with the columns {header.strip()}, got {content!r:.80}"
            )
        expected = header + "".join(map(_rows, self.steps))
        if content != expected:
            write_atomic(path, expected)

    def append(self, step: Step) -> None:
        """Write a step so that it outlives a power cut."""
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(_rows(step))
            stream.flush()
            os.fsync(stream.fileno())


def _rows(step: Step) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for event, (count_x, count_y) in step.counts.items():
        writer.writerow([step.label, *([event] if event else []), count_x, count_y, step.n])
    return text.getvalue()
