"""The ledger as the site shows it: each printed number once, its recipes below it, a strip for each paper."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dprepro.kit import tables
from dprepro.kit.headline import CLASSES, classes, headline
from dprepro.kit.rows import number_key
from dprepro.kit.site_notebooks import Source

ENTRY = ("paper", "table", "row", "column", "epsilon", "printed", "spread", "found")


def entries(ledger: pd.DataFrame, sources: Mapping[str, Source]) -> list[dict[str, Any]]:
    """Return the printed numbers in the order of the ledger.

    Parameters
    ----------
    ledger : DataFrame
        From `claims.load_ledger`.
    sources : mapping
        The notebooks by name, for links to their cells.

    Returns
    -------
    list of dict
        id (unique), paper, table, row, column, epsilon, printed, spread, found (class), by (the row of `recipes`
        that gives the class) and recipes: a dict for each row of the ledger with the columns of `tables.display`,
        tolerance_from, reason, notebook and cell (a link, "" where there is no such notebook).
    """
    shown = tables.display(ledger).join(ledger[["paper", "table", "tolerance_from", "reason", "notebook"]])
    shown["cell"] = [_cell(row, sources.get(row["notebook"])) for row in shown.to_dict("records")]
    shown["found"] = classes(ledger)
    # The class of each row for itself: as if it were the only one about its number.
    shown["own"] = classes(ledger.assign(row=ledger["row"] + "\n" + ledger.index.astype(str)))
    found, numbers = [], Counter[str]()
    for _, group in shown.groupby(number_key(ledger), sort=False):
        lines = group.to_dict("records")
        by = next(line for line in lines if line["own"] == line["found"])
        table = f"{by['paper']}-{by['table']}"
        numbers[table] += 1
        place = {"id": f"{table}-{numbers[table]}", "by": by, "recipes": lines}
        found.append({name: by[name] for name in ENTRY} | place)
    return found


def _cell(row: Mapping[Any, Any], source: Source | None) -> str:
    if source is None:
        return ""
    place = {row["row"], row["column"]}
    number = place | {row["printed"], row["epsilon"]} - {""}
    value = number | {row["recomputed"]} - {""}
    # A table names the recipe in each line or above a column; the value tells which of two tables is meant.
    return source.showing(value | {row["recipe"]}, value, number, place)


def strips(ledger: pd.DataFrame) -> dict[str, list[tuple[str, int]]]:
    """Return for each paper the classes that occur, in the order of CLASSES, each with its count."""
    counts = headline(ledger).groupby(level="paper", sort=False)[list(CLASSES)].sum()
    return {
        str(paper): [(name, n) for name, n in zip(CLASSES, row, strict=True) if n]
        for paper, *row in counts.itertuples()
    }


def claim_lines(claims: pd.DataFrame, sources: Mapping[str, Source]) -> list[dict[str, Any]]:
    """Return the claims in words with their effects as text and a link to the notebook's cell."""
    lines = []
    for row in claims.to_dict("records"):
        source = sources.get(row["notebook"])
        judged = not pd.isna(row["effect"])
        numbers = [f"{row[name]:.3g}" for name in ("effect", "low", "high")] if judged else ["", "", ""]
        count = f"{row['n']:.0f}" if judged else ""
        text = dict(zip(("effect", "low", "high", "n"), [*numbers, count], strict=True))
        cell = source.mentioning(row["id"]) if source else ""
        more = {"exact": row["low"] == row["high"], "cell": cell}
        lines.append({str(name): value for name, value in row.items()} | text | more)
    return lines
