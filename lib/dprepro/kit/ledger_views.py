"""How the ledger is shown: text for a terminal and the README, one HTML page, and the numbers that pages share.

How printed numbers are counted is in `headline`; the rows come from `ledger`.
"""

from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dprepro.base.check import one_of
from dprepro.base.tabular import fixed_width
from dprepro.kit import claims as reported
from dprepro.kit import tables
from dprepro.kit.headline import CLASSES, classes, fails, headline

SOURCES = "Printed numbers were taken from published summaries of the papers, not from the papers themselves."
TITLES = {
    "cape": "Cape (arXiv 2505.05922)",
    "lesson": "DP for LLMs (public course rohitg00/ai-engineering-from-scratch, phase 18, lesson 22)",
    "retidp": "ReTiDP (arXiv 2509.20283)",
    "snapaudit": "SnapAudit (arXiv 2511.13502)",
    "synbench": "SynBench (arXiv 2509.14594)",
}


def ledger_text(paper: str | None = None, cls: str | None = None, claims: bool = False) -> str:
    """Return the ledger as fixed-width text.

    Parameters
    ----------
    paper : str, optional
        One paper, row by row below its headline; the headline of all by default.
    cls : str, optional
        One of `headline.CLASSES`: only the rows of its numbers, with their reasons.
    claims : bool
        The claims in words instead of the numbers.

    Raises
    ------
    ValueError
        For an unknown paper or class.
    """
    if paper is not None:
        one_of("paper", paper, reported.papers())
    if cls is not None:
        one_of("cls", cls, CLASSES)
    frame = reported.load_claim_ledger() if claims else reported.load_ledger()
    frame = frame if paper is None else frame[frame["paper"] == paper]
    if claims:
        return _claims_text(frame)
    if cls is not None:
        return _rows_text(frame[classes(frame) == cls])
    return headline_text(frame) if paper is None else f"{headline_text(frame)}\n\n{_rows_text(frame)}"


def headline_text(ledger: pd.DataFrame) -> str:
    """Return the counts of each class by table and paper, and the FAILs beside those that chance would give."""
    counts = headline(ledger)
    total = counts.groupby(level="paper").sum()
    lines = [[*names, *map(_count, row)] for names, *row in counts.itertuples()]
    lines += [[paper, "all", *map(_count, row)] for paper, *row in total.itertuples()]
    if len(total) > 1:
        lines.append(["all", "", *map(_count, counts.sum())])
    headings = [name.replace(" fails or ", "\nfails or\n").replace("N h", "N\nh") for name in counts.columns]
    text = [SOURCES, "", fixed_width(["paper", "table", *headings], lines, left=("paper", "table"))]
    missed = fails(ledger)
    if len(missed):
        cells = missed.assign(**{"by chance": missed["by chance"].map("{:.1f}".format)}).astype(str)
        text += ["", "FAILs, and how many chance alone would give if the recipe were exactly right:", ""]
        left = ("paper", "table", "recipe")
        text.append(fixed_width(list(cells.columns), cells.to_numpy().tolist(), left))
    return "\n".join(text)


def _count(n: int) -> str:
    return str(n) if n else "."


def _rows_text(found: pd.DataFrame) -> str:
    parts = []
    for (paper, table), group in found.groupby(["paper", "table"], sort=False):
        reasons = "".join(f"\n  {reason}" for reason in group["reason"].unique() if reason)
        parts.append(f"{paper}/{table}\n{tables.printed_table(group)}{reasons}")
    return "\n\n".join(parts) or "none"


def _claims_text(frame: pd.DataFrame) -> str:
    cells = []
    for row in frame.to_dict("records"):
        n = "" if pd.isna(row["n"]) else f"{row['n']:.0f}"
        cells.append([row["id"], row["verdict"], _effect(row), n, row["claim"]])
    headings = ["id", "verdict", "effect", "n", "claim"]
    return fixed_width(headings, cells, left=("id", "verdict", "claim"))


def _effect(row: dict[Any, Any]) -> str:
    return "" if pd.isna(row["effect"]) else f"{row['effect']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"


def headline_values(ledger: pd.DataFrame) -> dict[str, Any]:
    """Return what pages show of the headline: classes, counts by table, totals, and FAILs beside those by chance."""
    counts = headline(ledger)
    return {
        "classes": CLASSES,
        "counts": [(*names, row) for names, *row in counts.itertuples()],
        "totals": counts.sum().tolist(),
        "fails": fails(ledger).to_dict("records"),
    }


def page(ledger: pd.DataFrame, claim_ledger: pd.DataFrame, profile: str) -> str:
    """Return the ledger as one HTML page: one table for each paper, readable without a script or a network."""
    also = ledger[["table", "reason", "notebook", "tolerance_from"]]
    shown = tables.display(ledger).join(also).assign(found=classes(ledger))
    loader = PackageLoader("dprepro.kit")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("ledger.html").render(
        profile=profile,
        sources=SOURCES,
        **headline_values(ledger),
        papers=[
            (paper, TITLES.get(paper, paper), lines.to_dict("records"))
            for paper, lines in shown.groupby(ledger["paper"], sort=False)
        ],
        claims=[{**row, "effect": _effect(row)} for row in claim_ledger.to_dict("records")],
    )
