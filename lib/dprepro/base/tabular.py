"""Tables as text: CSV records that know their line, and columns aligned for reading."""

import csv
from collections.abc import Sequence
from pathlib import Path


def read_records(path: Path, columns: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Return the records of a CSV file below its header, each with the line at which it ends.

    Raises
    ------
    ValueError
        Naming the line: if the header is not `columns`, a record has another length, or the quoting is broken.
    """
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        try:
            header, *found = [(reader.line_num, record) for record in reader] or [(1, [])]
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    if header[1] != list(columns):
        raise ValueError(f"{path}, line 1: the columns must be {','.join(columns)}, got {header[1]}")
    for line, record in found:
        if len(record) != len(columns):
            raise ValueError(f"{path}, line {line}: needs {len(columns)} fields, got {len(record)}")
    return found


def fixed_width(headings: Sequence[str], cells: Sequence[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Return text with aligned columns.

    Parameters
    ----------
    headings : sequence of str
        May hold line ends; all headings end on the same line.
    cells : sequence of sequences of str
        One inner sequence for each line.
    left : sequence of str
        Headings of the columns aligned to the left; the others are aligned to the right.

    Returns
    -------
    str
        A rule under the headings, no blanks at line ends, no line end after the last line.
    """
    height = max(heading.count("\n") for heading in headings) + 1
    stacked = [[""] * (height - heading.count("\n") - 1) + heading.split("\n") for heading in headings]
    columns = list(zip(*cells, strict=True)) if cells else [()] * len(headings)
    widths = [max(map(len, [*top, *column])) for top, column in zip(stacked, columns, strict=True)]
    top_lines = list(zip(*stacked, strict=True))
    lines = [*top_lines, ["-" * width for width in widths], *cells]
    pad = [str.ljust if heading in left else str.rjust for heading in headings]
    aligned = (
        [put(cell, width) for put, cell, width in zip(pad, line, widths, strict=True)] for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in aligned)
