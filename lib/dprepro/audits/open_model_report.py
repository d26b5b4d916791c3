"""What audits on the packaged language model say of SnapAudit's claims (arXiv 2511.13502): cells, orderings, tails.

The saved results are those of `open_model`. Cells are judged against each other with the noise of the audits alone:
all audits of a cell share their clean outputs, as the paper's repeats share a model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dprepro.audits.open_model import EPSILONS, mechanism
from dprepro.audits.snapshot import Snapshot, active_audit
from dprepro.audits.snapshot_trial import Array
from dprepro.base.check import one_of

_WORST = 3.2  # standard errors: 70 cells at a joint level of .05, one-sided
_CALLS = 2_000  # as many as the paper makes
HEAVY, LIGHT = ("PoE", "KSA"), ("PV", "ESA")  # exponential mechanisms and Gaussian noise


def cells(found: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Means of the audits of a saved result.

    Parameters
    ----------
    found : mapping
        As `base.results.load` gives it.

    Returns
    -------
    DataFrame
        A row for each design, mechanism, view, kind of audit ("active", ...) and epsilon, with "runs", "mean" and
        "error" (standard error of the mean).
    """
    rows = []
    for key, item in found.items():
        for audit, audits in item.items():
            if audit == "runs":
                continue
            for epsilon, values in zip(EPSILONS, np.reshape(audits, (len(EPSILONS), -1)), strict=True):
                error = values.std(ddof=1) / len(values) ** 0.5
                where = (*key.split(", "), *audit.split(", "), epsilon)
                rows.append((*where, item["runs"], values.mean(), error))
    names = ["design", "mechanism", "view", "kind", "epsilon", "runs", "mean", "error"]
    return pd.DataFrame(rows, columns=names)


def by_betting(table: pd.DataFrame) -> pd.DataFrame:
    """Keep valid audits at equal model calls, active ones by betting, "kind" being "active" or "passive"."""
    rows = table[(table["design"] != "one deal") & ~table["kind"].str.startswith("printed")]
    # Where the default is the modal bound, betting is a kind of its own.
    same = rows.groupby(["design", "mechanism", "view"])["kind"].transform(
        lambda kinds: "active betting" in set(kinds)
    )
    kept = rows[(rows["kind"] != "active") | ~same]
    return kept.assign(kind=kept["kind"].str.replace(" betting", ""))


def stand_in(table: pd.DataFrame, printed: pd.DataFrame) -> list[list[str]]:
    """Lay audits of redrawn demonstrations beside the printed cells of the same columns.

    Parameters
    ----------
    table : DataFrame
        As `cells` gives it.
    printed : DataFrame
        Columns "column" ("Black-PV (Active)"), "row", "epsilon", "value_printed", as `kit.claims.load_reported` does.

    Returns
    -------
    list of list of str
        Column, what the line is, runs of the model a side ("" where printed), and five values. Printed lines come
        first, then "stand-in" by the recipe that fits them and by a valid one, which bets on each run.
    """
    valid = by_betting(table).assign(recipe="valid")
    known = valid["design"] == "redrawn informed"
    valid.loc[known, "recipe"] = "valid, informed"
    fits = table[(table["design"] == "redrawn") & table["kind"].str.startswith("printed")]
    fits = fits.assign(recipe="inferred", kind=fits["kind"].str.replace("printed ", ""))
    rows = pd.concat([fits, valid[valid["design"] != "fixed data"]])
    names = rows["view"].str.title() + "-" + rows["mechanism"] + " (" + rows["kind"].str.title() + ")"
    rows, lines = rows.assign(column=names), []
    for column, cell in printed.groupby("column", sort=False):
        for name, part in cell.groupby("row", sort=False):
            values = part.sort_values("epsilon")["value_printed"]
            lines.append([str(column), f"printed, {name}", "", *values])
        for recipe, part in rows[rows["column"] == column].groupby("recipe"):
            means = part.sort_values("epsilon")["mean"]
            lines.append(
                [str(column), f"stand-in, {recipe}", f"{part['runs'].iloc[0]}", *(f"{m:.1f}" for m in means)]
            )
    return lines


class Ordering(NamedTuple):
    """Whether one kind of audit is at least as tight as another in every cell.

    Attributes
    ----------
    outcome : str
        FAILS where a cell's difference is below 0 by more than 3.2 standard errors, HOLDS where none is below 0,
        else UNDECIDED.
    effect, low, high : float
        Mean difference over the cells, with its interval (noise of the audits alone).
    n : int
        Cells.
    against : pandas.Series
        Differences of the cells that speak against it.
    """

    outcome: str
    effect: float
    low: float
    high: float
    n: int
    against: pd.Series


def ordering(table: pd.DataFrame, by: str, high: str, low: str) -> Ordering:
    """Compare two values of a column of `cells`, cell by cell.

    Parameters
    ----------
    table : DataFrame
        Rows of `cells`; a cell has both values of the column.
    by : {"kind", "view"}
    high, low : str
        The one that should be larger, and the other.

    Raises
    ------
    ValueError
        Another column.
    """
    at = [
        name
        for name in ("design", "mechanism", "view", "kind", "epsilon")
        if name != one_of("by", by, ("kind", "view"))
    ]
    one, other = (table[table[by] == side].set_index(at)[["mean", "error"]] for side in (high, low))
    difference = one["mean"] - other["mean"]
    error = np.hypot(one["error"], other["error"])
    against = difference[difference < -_WORST * error]
    outcome = "FAILS" if len(against) else "HOLDS" if difference.min() >= 0 else "UNDECIDED"
    mean, margin = float(difference.mean()), 1.96 * float(np.sqrt((error**2).sum())) / len(difference)
    return Ordering(outcome, mean, mean - margin, mean + margin, len(difference), against)


def success_variance(snapshot: Snapshot, name: str) -> float:
    """Largest variance, over epsilon and sides, of the chance that a white box succeeds on a clean output.

    It is the variance that the radius of SnapAudit takes; its units are those of a rate, so it is at most 1/4 for
    many runs, whatever the statistic. The white box tells the commonest outputs of all runs apart (means, where
    outputs are not counts), with the threshold that is best where these two never vary.

    Parameters
    ----------
    snapshot : Snapshot
        As `clean` gives it.
    name : {"PV", "PoE", "ESA", "KSA"}
    """
    sides = snapshot.with_canary, snapshot.without_canary
    pair = [_typical(side, name in ("PV", "KSA")) for side in sides]
    constant = Snapshot(np.tile(pair[0], (_CALLS, 1)), np.tile(pair[1], (_CALLS, 1)))
    found = []
    for epsilon in EPSILONS:
        judged = mechanism(name, epsilon)
        threshold = active_audit(constant, judged, mode="design", bound="betting").rates.threshold
        success = (judged.success(side, *pair, "white", threshold) for side in sides)
        found += [float(np.var(chances, ddof=1)) for chances in success]
    return max(found)


def _typical(rows: Array, discrete: bool) -> Array:
    if not discrete:
        return np.asarray(rows.mean(axis=0))
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return np.asarray(values[np.argmax(counts)])


class Tails(NamedTuple):
    """Whether black boxes lose more at high epsilon under heavy tails than under Gaussian noise.

    Attributes
    ----------
    outcome : str
        HOLDS where the black box's share of what the white box proves falls from epsilon 4 to 16 for both exponential
        mechanisms, and by more than for either Gaussian one; FAILS where one of the two falls by less; UNDECIDED
        where 3.2 standard errors do not tell.
    effect, low, high : float
        The smaller fall of the exponential mechanisms less the larger of the Gaussian ones.
    falls : dict
        Of each mechanism: fall and standard error.
    """

    outcome: str
    effect: float
    low: float
    high: float
    falls: dict[str, tuple[float, float]]


def tails(table: pd.DataFrame) -> Tails:
    """Compare how the black box falls behind the white box; `table` as `cells` gives it, of one design and kind."""
    at = zip(table["view"], table["mechanism"], table["epsilon"], strict=True)
    by = dict(zip(at, zip(table["mean"], table["error"], strict=True), strict=True))

    def share(name: str, epsilon: float) -> tuple[float, float]:
        (white, white_error), (black, black_error) = (by[view, name, epsilon] for view in ("white", "black"))
        return black / white, float(np.hypot(black_error, black / white * white_error)) / white

    falls = {}
    for name in (*HEAVY, *LIGHT):
        (early, early_error), (late, late_error) = share(name, 4.0), share(name, 16.0)
        falls[name] = early - late, float(np.hypot(early_error, late_error))
    heavy, light = min(HEAVY, key=lambda name: falls[name][0]), max(LIGHT, key=lambda name: falls[name][0])
    effect = falls[heavy][0] - falls[light][0]
    margin = _WORST * float(np.hypot(falls[heavy][1], falls[light][1]))
    sure = effect > margin and falls[heavy][0] > _WORST * falls[heavy][1]
    outcome = "HOLDS" if sure else "FAILS" if effect < -margin else "UNDECIDED"
    return Tails(outcome, effect, effect - margin, effect + margin, falls)
