"""The headline: each printed number of the ledger counted once, in one class.

A number counts in the first class that any of its rows gives, under the recipes as_stated and inferred
alone: REPRODUCED means that the stated method gives the printed number, EXPLAINED that only the inferred
recipe does.
"""

from typing import Any

import pandas as pd

from dprepro.kit import rows, verdicts

CLASSES = (
    "REPRODUCED",
    "EXPLAINED",
    "CONTRADICTED",
    "FAIL",
    "STAND-IN holds",
    "STAND-IN fails or undecided",
    "CALIBRATED",
    "INPUT",
    "DASH",
    "NOT-RUN",
)
COUNTED = ("as_stated", "inferred")


def classes(ledger: pd.DataFrame) -> pd.Series:
    """Return for each row the class of its printed number: the first of CLASSES that any of its rows gives."""
    rank = pd.Series(map(CLASSES.index, map(_class, ledger.to_dict("records"))), index=ledger.index)
    best = rank.groupby(rows.number_key(ledger)).transform("min")
    return best.map(dict(enumerate(CLASSES)))


def _class(row: dict[Any, Any]) -> str:
    if pd.isna(row["value"]):
        return "DASH"
    if row["recipe"] not in COUNTED:
        return "NOT-RUN"
    if row["verdict"] in ("MATCH", "PASS"):
        return "REPRODUCED" if row["recipe"] == "as_stated" else "EXPLAINED"
    if row["verdict"] == "STAND-IN":
        outcome = verdicts.stand_in_outcome(row["reason"])
        return {"holds": "STAND-IN holds", "": "NOT-RUN"}.get(outcome, "STAND-IN fails or undecided")
    return str(row["verdict"])


def headline(ledger: pd.DataFrame) -> pd.DataFrame:
    """Return how many printed numbers of each table are in each class.

    Returns
    -------
    DataFrame
        Index (paper, table), columns "printed" (how many there are) and CLASSES, which add up to it.
    """
    once = ledger.assign(found=classes(ledger))[~rows.number_key(ledger).duplicated()]
    counts = once.groupby(["paper", "table", "found"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=list(CLASSES), fill_value=0).rename_axis(columns=None)
    counts.insert(0, "printed", counts.sum(axis=1))
    return counts


def fails(ledger: pd.DataFrame) -> pd.DataFrame:
    """Return how many FAILs there are and how many chance alone would give, if the recipe were exactly right.

    Returns
    -------
    DataFrame
        Columns paper, table, recipe (as_stated, inferred), judged (rows with a computed verdict), FAIL,
        CONTRADICTED, by chance (`verdicts.chance_fails`). A row that repeats a number of another table
        (its reason says "repeats table ...") is not counted again.
    """
    counted = ledger[ledger["recipe"].isin(COUNTED) & ledger["verdict"].isin(verdicts.COMPUTED)]
    counted = counted[~counted["reason"].str.contains("repeats table")]
    found = []
    for (paper, table, recipe), group in counted.groupby(["paper", "table", "recipe"], sort=False):
        outside = [int((group["verdict"] == verdict).sum()) for verdict in ("FAIL", "CONTRADICTED")]
        found.append([paper, table, recipe, len(group), *outside, verdicts.chance_fails(group)])
    return pd.DataFrame(
        found, columns=["paper", "table", "recipe", "judged", "FAIL", "CONTRADICTED", "by chance"]
    )
