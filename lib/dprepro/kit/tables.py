"""Printed beside recomputed numbers: fixed-width text for notebooks, LaTeX, HTML and CSV for papers.

A recomputed number is shown with one digit more than was printed and its own Monte Carlo error with two, so
the text of a seeded notebook does not depend on the last bits, which differ between processors.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dprepro.base.check import one_of
from dprepro.base.tabular import fixed_width
from dprepro.kit.rows import LEDGER

FORMATS = ("latex", "html", "csv")


def display(rows: Sequence[dict[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table as rounded text, one for each printed number and recipe.

    Parameters
    ----------
    rows : sequence of dict, or DataFrame
        From `claims.judge` or the ledger.

    Returns
    -------
    DataFrame of str
        Columns row, column, epsilon, printed, spread, recipe, recomputed, MC error ("exact" where there is
        none), tolerance, verdict; empty where there is nothing to say.
    """
    cells = []
    for row in pd.DataFrame(rows).to_dict("records"):
        # A printed dash has no last digit to follow.
        digits = 3 if math.isnan(row["unit"]) else 1 - round(math.log10(row["unit"]))
        exact = row["recomputed_se"] == 0
        cells.append(
            {
                "row": row["row"],
                "column": row["column"],
                "epsilon": "" if math.isnan(row["epsilon"]) else f"{row['epsilon']:g}",
                "printed": row["value_printed"] or "-",
                "spread": row["spread_printed"],
                "recipe": row["recipe"],
                "recomputed": _rounded(row["recomputed"], digits),
                "MC error": "exact" if exact else _rounded(row["recomputed_se"], digits + 1),
                "tolerance": _rounded(row["tolerance"], digits),
                "verdict": row["verdict"],
            }
        )
    return pd.DataFrame(cells, dtype=str)


def printed_table(rows: Sequence[dict[str, Any]] | pd.DataFrame) -> str:
    """Return `display` as fixed-width text, the same on any processor for the same seed."""
    shown = display(rows)
    left = ("row", "column", "recipe", "verdict")
    return fixed_width(list(shown.columns), shown.to_numpy().tolist(), left)


def side_by_side(rows: Sequence[dict[str, Any]] | pd.DataFrame) -> str:
    """Return fixed-width text with a line for each printed number and a column for each recipe.

    A recipe's column holds its value and, behind it, its verdict where it gives one; "-" where the recipe was
    not applied.
    """
    shown = display(rows)
    recipes = list(dict.fromkeys(shown["recipe"]))
    shown["found"] = (shown["recomputed"] + "  " + shown["verdict"]).str.strip()
    keys = ["row", "column", "epsilon", "printed", "spread"]
    wide = shown.pivot_table(index=keys, columns="recipe", values="found", aggfunc="first", sort=False)
    cells = wide[recipes].fillna("-").reset_index()
    return fixed_width(list(cells.columns), cells.to_numpy().tolist(), left=("row", "column", *recipes))


def table(name: str, format: str, ledger: pd.DataFrame) -> str:
    """Return one printed table beside what was recomputed, ready for a paper.

    Parameters
    ----------
    name : str
        "<paper>/<table>", "snapaudit/table1".
    format : str
        "latex" (booktabs rules; LaTeX itself is not needed), "html" or "csv" (all columns of the ledger).
    ledger : DataFrame
        From `claims.load_ledger`.

    Raises
    ------
    ValueError
        For a table that the ledger does not hold, or an unknown format; lists what is known.
    """
    names = ledger["paper"] + "/" + ledger["table"]
    one_of("name", name, list(names.unique()))
    one_of("format", format, FORMATS)
    rows = ledger[names == name]
    if format == "csv":
        exact = rows.assign(value=rows["value_printed"], spread=rows["spread_printed"])
        return exact.to_csv(columns=LEDGER, index=False, lineterminator="\n")
    escape = "latex" if format == "latex" else "html"
    styler = display(rows).style.hide(axis="index").format(escape=escape)
    if format == "latex":
        return str(styler.to_latex(hrules=True, column_format="llrrrlrrrl"))
    return str(styler.to_html(table_attributes='class="dprepro"', exclude_styles=True))


def _rounded(value: float, digits: int) -> str:
    # "z" writes a rounded -0.00 as 0.00: its sign is a last bit too.
    return "" if math.isnan(value) else f"{value:z.{max(digits, 0)}f}"
