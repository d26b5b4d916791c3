"""The ledger: every printed number and every claim beside what came out.

`gather` collects the rows that accepted notebook runs left behind, checks them against the printed files
and against the rule of `verdicts`, adds the numbers that no notebook judged, and writes ledger.csv,
claims.csv and ledger.html. `ledger_text` shows the same in a terminal; how numbers are counted is in
`headline`.
"""

from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dprepro.base import paths, store
from dprepro.base.check import one_of
from dprepro.kit import batch, rows, tables, verdicts
from dprepro.kit import claims as reported
from dprepro.kit.headline import CLASSES, classes, fails, headline

STALE = "from a run before its inputs changed; "
RECIPES = ("as_stated", "inferred", "valid")
SOURCES = "Printed numbers were taken from published summaries of the papers, not from the papers themselves."
TITLES = {
    "cape": "Cape (arXiv 2505.05922)",
    "lesson": "DP for LLMs (public course rohitg00/ai-engineering-from-scratch, phase 18, lesson 22)",
    "retidp": "ReTiDP (arXiv 2509.20283)",
    "snapaudit": "SnapAudit (arXiv 2511.13502)",
    "synbench": "SynBench (arXiv 2509.14594)",
}


def gather(profile: str = "laptop") -> pd.DataFrame:
    """Collect the results of all accepted notebook runs of a profile and write the ledger.

    Parameters
    ----------
    profile : str
        smoke (written to build/smoke), laptop or paper (written to build).

    Returns
    -------
    DataFrame
        As `claims.load_ledger`.

    Raises
    ------
    ValueError
        Naming the notebook: for a row whose printed number is not in data/reported or differs from it, a
        verdict that the rule does not give, or a claim, or a number under one recipe, that two notebooks
        judge.
    OSError
        If the build folder cannot be written.
    """
    one_of("profile", profile, batch.PROFILES)
    untouched = reported.untouched()
    judged, judged_claims = [], []
    for run in batch.accepted(profile):
        if (run.folder / "rows.csv").exists():
            frame = rows.read_rows(run.folder / "rows.csv", rows.LEDGER).assign(notebook=run.name)
            _check(frame, untouched, run.name)
            judged.append(frame if run.current else frame.assign(reason=STALE + frame["reason"]))
        if (run.folder / "claims.csv").exists():
            frame = rows.read_rows(run.folder / "claims.csv", rows.CLAIM_LEDGER).assign(notebook=run.name)
            judged_claims.append(frame if run.current else frame.assign(reason=STALE + frame["reason"]))
    ledger = _complete(judged, untouched)
    all_claims = _complete_claims(judged_claims)
    folder = paths.build_dir() / "smoke" if profile == "smoke" else paths.build_dir()
    rows.write_rows(folder / "ledger.csv", ledger, rows.LEDGER)
    rows.write_rows(folder / "claims.csv", all_claims, rows.CLAIM_LEDGER)
    store.write_atomic(folder / "ledger.html", page(ledger, all_claims, profile))
    return ledger


def _check(frame: pd.DataFrame, untouched: pd.DataFrame, notebook: str) -> None:
    """Refuse rows that were not made by `claims.judge` from the printed files as they are now."""
    as_printed = ["value_printed", "spread_printed", "spread_is", "source"]
    printed = untouched.set_index(rows.number_key(untouched))[as_printed]
    claim_ids = set(reported.load_claims()["id"])
    for key, row in zip(rows.number_key(frame), frame.to_dict("records"), strict=True):
        if key not in printed.index:
            raise ValueError(f"{notebook}: no printed number {key} in data/reported")
        if list(printed.loc[key]) != [row[name] for name in as_printed]:
            raise ValueError(
                f"{notebook}: {key} differs from what data/reported holds; run the notebook again"
            )
        if row["verdict"] not in verdicts.VERDICTS and (row["verdict"], row["recipe"]) != ("", "valid"):
            raise ValueError(f"{notebook}: {key} has the unknown verdict {row['verdict']!r}")
        if row["verdict"] == "STAND-IN":
            verdicts.stand_in_outcome(row["reason"], row["paper"], claim_ids)
        if row["verdict"] in ("MATCH", "PASS", "FAIL"):
            rule = verdicts.decide(row, row["recomputed"], row["recomputed_se"]).verdict
            if rule != row["verdict"]:
                raise ValueError(f"{notebook}: {key} says {row['verdict']} where the rule gives {rule}")


def _complete(judged: list[pd.DataFrame], untouched: pd.DataFrame) -> pd.DataFrame:
    """Return all rows in printed order, the untouched numbers among them."""
    place = {key: position for position, key in enumerate(rows.number_key(untouched))}
    touched = {key for frame in judged for key in rows.number_key(frame)}
    rest = untouched[[key not in touched for key in place]]
    ledger = pd.concat([*judged, *([rest] if len(rest) else [])], ignore_index=True)
    key = rows.number_key(ledger)
    _refuse_twice(key + ", recipe " + ledger["recipe"], ledger["notebook"])
    recipes = [*RECIPES, *sorted(set(ledger["recipe"]) - set(RECIPES))]
    order = np.lexsort([ledger["recipe"].map(recipes.index), key.map(place)])
    return ledger.iloc[order].reset_index(drop=True)


def _complete_claims(judged: list[pd.DataFrame]) -> pd.DataFrame:
    """Return all claims in the order of their file, those that no notebook judged among them."""
    untouched = reported.untouched_claims()
    found = pd.concat([*judged, untouched], ignore_index=True)
    place = {claim: position for position, claim in enumerate(untouched["id"])}
    for claim, notebook in zip(found["id"], found["notebook"], strict=True):
        if claim not in place:
            raise ValueError(f"{notebook}: no claim {claim} in data/reported")
    by_notebook = found[found["notebook"] != ""]
    _refuse_twice(by_notebook["id"], by_notebook["notebook"])
    found = found.drop_duplicates("id")
    return found.sort_values("id", key=lambda ids: ids.map(place), ignore_index=True)


def _refuse_twice(key: pd.Series, notebook: pd.Series) -> None:
    again = key[key.duplicated()]
    if len(again):
        both = " and ".join(notebook[key == again.iloc[0]])
        raise ValueError(f"{both} both judge {again.iloc[0]}")


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
    if claims:
        frame = reported.load_claim_ledger()
        return _claims_text(frame if paper is None else frame[frame["paper"] == paper])
    ledger = reported.load_ledger()
    ledger = ledger if paper is None else ledger[ledger["paper"] == paper]
    if cls is not None:
        one_of("cls", cls, CLASSES)
        return _rows_text(ledger[classes(ledger) == cls])
    return _headline_text(ledger) if paper is None else f"{_headline_text(ledger)}\n\n{_rows_text(ledger)}"


def _headline_text(ledger: pd.DataFrame) -> str:
    counts = headline(ledger)
    total = counts.groupby(level="paper").sum()
    lines = [
        [paper, table, *map(_count, row)]
        for (paper, table), row in zip(counts.index, counts.to_numpy(), strict=True)
    ]
    lines += [
        [paper, "all", *map(_count, row)] for paper, row in zip(total.index, total.to_numpy(), strict=True)
    ]
    if len(total) > 1:
        lines.append(["all", "", *map(_count, counts.sum())])
    headings = [name.replace(" fails or ", "\nfails or\n").replace("N h", "N\nh") for name in counts.columns]
    text = [SOURCES, "", tables.fixed_width(["paper", "table", *headings], lines, left=("paper", "table"))]
    missed = fails(ledger)
    if len(missed):
        cells = missed.assign(**{"by chance": missed["by chance"].map("{:.1f}".format)}).astype(str)
        text += ["", "FAILs, and how many chance alone would give if the recipe were exactly right:", ""]
        text.append(
            tables.fixed_width(
                [str(name) for name in cells], cells.to_numpy().tolist(), left=("paper", "table", "recipe")
            )
        )
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
    cells = [
        [
            row["id"],
            row["verdict"],
            _effect(row),
            "" if pd.isna(row["n"]) else f"{row['n']:.0f}",
            row["claim"],
        ]
        for row in frame.to_dict("records")
    ]
    headings = ["id", "verdict", "effect", "n", "claim"]
    return tables.fixed_width(headings, cells, left=("id", "verdict", "claim"))


def _effect(row: dict[Any, Any]) -> str:
    return "" if pd.isna(row["effect"]) else f"{row['effect']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"


def page(ledger: pd.DataFrame, claim_ledger: pd.DataFrame, profile: str) -> str:
    """Return the ledger as one HTML page: one table for each paper, readable without a script or a network."""
    shown = tables.display(ledger).assign(
        table=ledger["table"].to_numpy(),
        reason=ledger["reason"].to_numpy(),
        notebook=ledger["notebook"].to_numpy(),
        found=classes(ledger).to_numpy(),
        tolerance_from=ledger["tolerance_from"].to_numpy(),
    )
    counts = headline(ledger)
    loader = PackageLoader("dprepro.kit")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("ledger.html").render(
        profile=profile,
        sources=SOURCES,
        classes=CLASSES,
        counts=[
            (*names, list(row)) for names, row in zip(counts.index, counts.to_numpy().tolist(), strict=True)
        ],
        totals=counts.sum().tolist(),
        fails=fails(ledger).to_dict("records"),
        papers=[
            (name, TITLES.get(name, name), shown[(ledger["paper"] == name).to_numpy()].to_dict("records"))
            for name in ledger["paper"].unique()
        ],
        claims=[{**row, "effect": _effect(row)} for row in claim_ledger.to_dict("records")],
    )
