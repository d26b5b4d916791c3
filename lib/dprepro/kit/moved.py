"""Two runs side by side: which recomputed numbers moved, by how much, and what may move them.

Two runs of a simulation never agree to the last digit. A number has moved beyond chance when the two
recomputed values differ by more than two standard errors of their difference; an exact one when they differ at
all. The tolerance of its verdict stands beside it, so that a move that matters is told from one that does not.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dprepro.base.tabular import fixed_width
from dprepro.kit import rows

LAST_BITS = 1e-9  # relative; what another processor or order of summation may change


class Moves(NamedTuple):
    """Rows of two runs that differ.

    `rows` has the columns number, recipe, before, after, difference, by chance (two standard errors of the
    difference, 0 for exact numbers), tolerance (of the verdict after, or before where there is none), verdict
    ("PASS" or "PASS -> FAIL") and what ("moved", "moved beyond chance", "new verdict", "only in A", "only in
    B"). `compared` counts the rows that both runs have, `matters` the rows where more than chance is at work.
    """

    rows: pd.DataFrame
    compared: int
    matters: int


def read_run(run: Path) -> pd.DataFrame:
    """Return the ledger of a build folder, or of a ledger CSV itself.

    Raises
    ------
    ValueError
        If there is none, or the file is not a ledger.
    """
    path = run / "ledger.csv" if run.is_dir() else run
    if not path.is_file():
        raise ValueError(f"run must be a build folder that holds ledger.csv, or such a file, got {run}")
    return rows.read_rows(path, rows.LEDGER)


def moves(before: pd.DataFrame, after: pd.DataFrame) -> Moves:
    """Compare two ledgers row by row.

    Parameters
    ----------
    before, after : DataFrame
        From `read_run`; a row is a printed number under one recipe.
    """
    sides = [frame.assign(number=rows.number_key(frame)) for frame in (before, after)]
    keys = pd.concat(sides)[["number", "recipe"]].drop_duplicates()
    both = keys.merge(sides[0], how="left").merge(sides[1], how="left", on=list(keys), suffixes=("_a", "_b"))
    found = [line for row in both.to_dict("records") if (line := _line(row))]
    columns = [
        "number",
        "recipe",
        "before",
        "after",
        "difference",
        "by chance",
        "tolerance",
        "verdict",
        "what",
    ]
    table = pd.DataFrame(found, columns=columns)
    shared = both["verdict_a"].notna() & both["verdict_b"].notna()
    return Moves(table, int(shared.sum()), int((table["what"] != "moved").sum()))


def _line(row: dict[Any, Any]) -> list[Any] | None:
    a, b = row["recomputed_a"], row["recomputed_b"]
    missing = [side for side, name in (("B", "verdict_a"), ("A", "verdict_b")) if pd.isna(row[name])]
    tolerance = row["tolerance_a"] if pd.isna(row["tolerance_b"]) else row["tolerance_b"]
    if missing:
        verdict = row["verdict_b"] if missing == ["B"] else row["verdict_a"]
        only = f"only in {missing[0]}"
        return [row["number"], row["recipe"], a, b, math.nan, math.nan, tolerance, verdict, only]
    same = np.isclose(a, b, rtol=LAST_BITS, atol=0, equal_nan=True)
    if same and row["verdict_a"] == row["verdict_b"]:
        return None
    by_chance = 2 * math.hypot(*np.nan_to_num([row["recomputed_se_a"], row["recomputed_se_b"]]))
    difference = 0.0 if same else b - a
    if row["verdict_a"] != row["verdict_b"]:
        verdict, what = f"{row['verdict_a'] or 'none'} -> {row['verdict_b'] or 'none'}", "new verdict"
    else:
        verdict = row["verdict_a"]
        what = "moved" if abs(difference) <= by_chance else "moved beyond chance"
    return [row["number"], row["recipe"], a, b, difference, by_chance, tolerance, verdict, what]


def moves_text(found: Moves) -> str:
    """Return `moves` as fixed-width text, below it the counts."""
    count = found.rows["what"].value_counts()
    said = ", ".join(f"{n} {what}" for what, n in count.items()) or "none differs"
    summary = f"{found.compared} rows in both runs; {said}."
    if found.rows.empty:
        return summary
    numbers = ["before", "after", "difference", "by chance", "tolerance"]
    cells = found.rows.astype(dict.fromkeys(numbers, object))
    for name in numbers:
        cells[name] = ["" if pd.isna(value) else f"{value:.5g}" for value in found.rows[name]]
    text = fixed_width(
        list(cells.columns), cells.to_numpy().tolist(), ("number", "recipe", "verdict", "what")
    )
    return f"{text}\n\n{summary}"
