"""What was printed, what comes out, and the row that holds both.

`load_reported` reads the printed numbers of a paper (data/reported/<paper>.csv), `judge` lays a recomputed
number beside one of them and returns a row of the ledger, `judge_claim` does so for a claim in words,
`save` and `save_claims` leave a notebook's rows where the batch gathers them. The numbers were taken from
published summaries of the papers, and the column `source` says from where in them. The rule behind a
verdict is in `verdicts`.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dprepro.base import paths
from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.kit import rows as files
from dprepro.kit import verdicts
from dprepro.kit.verdicts import chance_fails as chance_fails  # notebooks print it below their verdicts

OUTCOMES = ("HOLDS", "FAILS", "UNDECIDED")


def papers() -> list[str]:
    """Return the short names of the papers: the files of data/reported."""
    return sorted(path.stem for path in (paths.DATA / "reported").glob("*.csv") if path.stem != "claims")


def table_names() -> list[str]:
    """Return "<paper>/<table>" for every printed table."""
    return [f"{paper}/{table}" for paper in papers() for table in load_reported(paper)["table"].unique()]


def load_reported(paper: str, table: str | None = None) -> pd.DataFrame:
    """Return the printed numbers of a paper, or of one of its tables.

    Parameters
    ----------
    paper : str
        Short name: the stem of a file in data/reported.
    table : str, optional
        As in the column `table`; all tables by default.

    Returns
    -------
    DataFrame
        Columns paper, table, row, column, epsilon, value, spread, spread_is, source; then value_printed and
        spread_printed (the very digits, "0.60"), unit and spread_unit (the place of the last digit, .01). A
        printed dash is an empty value_printed and a NaN. The index is the position in the file, from 0.

    Raises
    ------
    ValueError
        For an unknown paper or table, and for a malformed file, naming its line.
    """
    one_of("paper", paper, papers())
    frame = files.read_printed(paths.DATA / "reported" / f"{paper}.csv")
    if table is None:
        return frame
    one_of("table", table, list(frame["table"].unique()))
    return frame[frame["table"] == table]


def load_claims() -> pd.DataFrame:
    """Return the claims in words (id, paper, claim, test); ValueError names the line of a malformed file."""
    return files.read_claims(paths.DATA / "reported" / "claims.csv")


def judge(
    printed_row: Mapping[str, Any] | pd.Series,
    recomputed: float | None,
    recomputed_se: float = 0.0,
    *,
    recipe: str,
    verdict: str | None = None,
    reason: str = "",
    ceiling: float | None = None,
    floor: float | None = None,
) -> dict[str, Any]:
    """Lay a recomputed number beside a printed one and return the row of the ledger.

    Parameters
    ----------
    printed_row : Series or mapping
        One row of `load_reported`.
    recomputed : float or None
        In the unit of the printed number. None (nothing was recomputed) only with a given `verdict`.
    recomputed_se : float
        Its Monte Carlo standard error: sd / sqrt(repeats), or the sd of one run where one stochastic run was
        printed without spread; 0 for an exact value.
    recipe : str
        How it was recomputed: "as_stated", "inferred", "valid" or another name. A "valid" row carries its
        value, no verdict and no tolerance.
    verdict : str, optional
        Computed by default (`verdicts.decide`; DASH where a dash was printed). Only STAND-IN, CALIBRATED,
        INPUT, DASH and NOT-RUN can be given.
    reason : str
        Needed for STAND-IN (`verdicts.check_stand_in` says what it holds) and for NOT-RUN (what is missing,
        and the command that would run it).
    ceiling, floor : float, optional
        Values that no run of the method exceeds, or stays below. A printed number beyond one by more than its
        own spread and rounding allow is CONTRADICTED.

    Returns
    -------
    dict
        The columns of the ledger in order, then value_printed, spread_printed, unit and spread_unit.

    Raises
    ------
    ValueError
        Naming the argument, its domain and the value got.
    """
    row = dict(printed_row)
    missing = [name for name in files.PRINTED + files.DIGITS if name not in row]
    if missing:
        raise ValueError(f"printed_row must be a row of load_reported, got one without {', '.join(missing)}")
    if not isinstance(recipe, str) or not recipe.isidentifier():
        raise ValueError(
            "recipe must be inferred, as_stated, valid or another name of letters, digits and underscores, "
            f"got {recipe!r}"
        )
    verdict = _given_verdict(verdict, recipe, dash=row["value_printed"] == "")
    computed = verdict is None and recipe != "valid"
    for name, limit in (("ceiling", ceiling), ("floor", floor)):
        if limit is not None and not (computed and math.isfinite(limit)):
            raise ValueError(f"{name} must be finite and go with a computed verdict, got {limit!r}")
    if verdict == "NOT-RUN" and (recomputed is not None or not reason.strip()):
        raise ValueError(
            "reason must say what is missing and the command that would run it, and recomputed be None, "
            f"for NOT-RUN, got {reason!r} and {recomputed!r}"
        )
    if verdict == "STAND-IN":
        verdicts.check_stand_in(reason, row["paper"], set(load_claims()["id"]))
    value, error = _recomputed(recomputed, recomputed_se, optional=verdict is not None)
    if computed:
        decision = verdicts.decide(row, value, error, ceiling, floor)
    else:
        decision = verdicts.Decision(verdict or "", math.nan, "")
    found = [value, error, recipe, decision.tolerance, decision.tolerance_from, decision.verdict, reason, ""]
    return {
        **{name: row[name] for name in files.PRINTED},
        **dict(zip(files.RECOMPUTED, found, strict=True)),
        **{name: row[name] for name in files.DIGITS},
    }


def _given_verdict(verdict: str | None, recipe: str, *, dash: bool) -> str | None:
    """Return the verdict that is not left to the rule, None where the rule decides."""
    if recipe == "valid":
        if verdict is not None:
            raise ValueError(
                f"verdict must be None under valid, which carries a value alone, got {verdict!r}"
            )
        return None
    if verdict is None:
        return "DASH" if dash else None
    if verdict not in verdicts.GIVEN:
        computed = ", ".join(verdicts.COMPUTED)
        raise ValueError(
            f"verdict must be one of {', '.join(verdicts.GIVEN)} ({computed} are computed), got {verdict!r}"
        )
    if (verdict == "DASH") != dash:
        raise ValueError(f"verdict must be DASH where a dash was printed, and only there, got {verdict!r}")
    return verdict


def _recomputed(value: float | None, error: float, *, optional: bool) -> tuple[float, float]:
    if value is None and optional:
        return math.nan, math.nan
    if value is None or math.isnan(value):
        raise ValueError(f"recomputed must be a number, got {value!r}")
    return float(value), float(in_interval("recomputed_se", error, 0, math.inf, closed="left"))


def judge_claim(
    id: str, outcome: str, effect: float, low: float, high: float, n: int, reason: str = ""
) -> dict[str, Any]:
    """Return the row of the ledger for a claim in words.

    Parameters
    ----------
    id : str
        As in data/reported/claims.csv.
    outcome : str
        HOLDS, FAILS or UNDECIDED.
    effect, low, high : float
        The measured effect and its 95 % interval (low = effect = high where it is exact); `reason` says what
        it is and in which unit.
    n : int
        How many units (cells, runs, texts) it was measured on.
    reason : str
        What was measured, in which unit and by which rule it was judged.

    Raises
    ------
    ValueError
        For an unknown id or outcome, NaN, an effect outside its interval, or n below 1.
    """
    claims = load_claims().set_index("id", drop=False)
    one_of("id", id, list(claims.index))
    one_of("outcome", outcome, OUTCOMES)
    if not low <= effect <= high:
        raise ValueError(f"effect must lie in [low, high], got {effect!r} and [{low!r}, {high!r}]")
    found = [outcome, float(effect), float(low), float(high), int(positive_count("n", n)), reason, ""]
    return dict(zip(files.CLAIM_LEDGER, [*claims.loc[id], *found], strict=True))


def save(rows: Sequence[dict[str, Any]] | pd.DataFrame) -> Path:
    """Write a notebook's rows to rows.csv in its output folder.

    Parameters
    ----------
    rows : sequence of dict, or DataFrame
        From `judge`.

    Raises
    ------
    ValueError
        If a printed number comes twice under one recipe.
    """
    frame = _frame(rows, files.LEDGER + files.DIGITS)
    return _write("rows.csv", frame, files.LEDGER, files.number_key(frame) + ", recipe " + frame["recipe"])


def save_claims(rows: Sequence[dict[str, Any]]) -> Path:
    """Write a notebook's rows of `judge_claim` to claims.csv there; ValueError for a claim judged twice."""
    frame = _frame(rows, files.CLAIM_LEDGER)
    return _write("claims.csv", frame, files.CLAIM_LEDGER, frame["id"])


def _frame(rows: Sequence[dict[str, Any]] | pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    if missing := [name for name in columns if name not in frame]:
        raise ValueError(
            f"rows must be rows of judge or judge_claim, at least one, got {', '.join(missing)} missing"
        )
    return frame


def _write(name: str, frame: pd.DataFrame, columns: list[str], key: pd.Series) -> Path:
    again = key[key.duplicated()]
    if len(again):
        raise ValueError(
            f"rows must judge a claim, or a number under one recipe, once, got twice {again.iloc[0]}"
        )
    return files.write_rows(paths.output_dir() / name, frame, columns)


def load_ledger() -> pd.DataFrame:
    """Return the ledger as it was last gathered, or with every number NOT-RUN if it never was.

    Returns
    -------
    DataFrame
        A row for each printed number and recipe, columns as `judge` returns them. Numbers that no notebook
        judged have an empty recipe and NOT-RUN, printed dashes DASH.
    """
    path = paths.build_dir() / "ledger.csv"
    return files.read_rows(path, files.LEDGER) if path.exists() else untouched()


def untouched() -> pd.DataFrame:
    """Return all printed numbers as rows of the ledger that no notebook judged."""
    frame = pd.concat([load_reported(paper) for paper in papers()], ignore_index=True)
    dash = frame["value_printed"] == ""
    missing = "no accepted run of a notebook judges it; `dprepro run` executes every notebook there is"
    frame = frame.assign(
        **dict.fromkeys(("recomputed", "recomputed_se", "tolerance"), math.nan),
        **dict.fromkeys(("recipe", "tolerance_from", "notebook"), ""),
        verdict=dash.map({True: "DASH", False: "NOT-RUN"}),
        reason=dash.map({True: "the source prints a dash", False: missing}),
    )
    return frame[files.LEDGER + files.DIGITS]


def load_claim_ledger() -> pd.DataFrame:
    """Return the claims in words as last gathered, all NOT-RUN if they never were."""
    path = paths.build_dir() / "claims.csv"
    return files.read_rows(path, files.CLAIM_LEDGER) if path.exists() else untouched_claims()


def untouched_claims() -> pd.DataFrame:
    """Return all claims as rows of the ledger that no notebook judged."""
    frame = load_claims().assign(verdict="NOT-RUN", reason="", notebook="")
    return frame.assign(**dict.fromkeys(("effect", "low", "high", "n"), math.nan))[files.CLAIM_LEDGER]
