"""The rule that turns a printed and a recomputed number into a verdict.

One rule for every paper. A printed mean of five runs carries its own error, so does a simulated one, and
print rounds: PASS means |printed - recomputed| <= 2 sqrt(spread_se^2 + recomputed_se^2) + half a printed
unit. With so small a sample behind ``spread_se`` a true recipe fails now and then (Student t with 4 degrees
of freedom leaves .116 outside two standard errors), and `chance_fails` says how often.
"""

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

COMPUTED = ("MATCH", "PASS", "FAIL", "CONTRADICTED")
GIVEN = ("STAND-IN", "CALIBRATED", "INPUT", "DASH", "NOT-RUN")

# What a printed spread is -> (its ratio to the standard error of the printed mean, degrees of freedom).
SPREADS = {"sd of 5 runs": (math.sqrt(5), 4), "95 % half-width, 10 runs": (2.26, 9)}

EPS = float(np.finfo(float).eps)
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


class Decision(NamedTuple):
    """A computed verdict, the tolerance it rests on (in units of the printed number) and its sources."""

    verdict: str
    tolerance: float
    tolerance_from: str


def bound_side(column: str) -> str | None:
    """Return "upper" or "lower" if the printed column is a bound, else None."""
    words = column.lower()
    return next((side for side in ("upper", "lower") if f"{side} bound" in words), None)


def standard_error(spread: float, spread_is: str) -> float:
    """Return the standard error of a printed mean; 0 where no spread was printed (NaN and "")."""
    return float(spread) / SPREADS[spread_is][0] if spread_is else 0.0


def decide(
    printed_row: Mapping[Any, Any] | pd.Series,
    recomputed: float,
    recomputed_se: float,
    ceiling: float | None = None,
    floor: float | None = None,
) -> Decision:
    """Return MATCH, PASS, FAIL or CONTRADICTED for one printed number.

    Parameters
    ----------
    printed_row : Series or mapping
        value, unit (the place of its last digit), spread, spread_is and column. "upper bound" or "lower
        bound" in the column makes the value a one-sided limit, to be kept by both ends of the 95 % interval
        recomputed -+ 1.96 `recomputed_se` (PASS), by one (FAIL) or by none (CONTRADICTED).
    recomputed, recomputed_se : float
        The recomputed number and its Monte Carlo standard error, 0 if it has none.
    ceiling, floor : float, optional
        Values that no run of the method exceeds, or stays below. A printed number beyond one by more than its
        own spread and rounding allow is CONTRADICTED, whatever was recomputed.

    Returns
    -------
    Decision
    """
    printed, spread_is = float(printed_row["value"]), printed_row["spread_is"]
    side = bound_side(printed_row["column"])
    if side is not None:
        reach = 1.96 * recomputed_se
        ends = (recomputed + reach, recomputed - reach)
        kept = sum(_at_most(end, printed) if side == "upper" else _at_most(printed, end) for end in ends)
        source = "exact value" if recomputed_se == 0 else "95 % interval of the recomputed value"
        return Decision(
            ("CONTRADICTED", "FAIL", "PASS")[kept], reach, f"{source} against a printed {side} bound"
        )

    rounding = float(printed_row["unit"]) / 2
    printed_se = standard_error(printed_row["spread"], spread_is)
    parts = [spread_is] if printed_se > 0 else []
    allowed = 2 * printed_se + rounding
    source = " + ".join([*parts, "rounding"])
    if ceiling is not None and not _at_most(printed - allowed, ceiling):
        return Decision("CONTRADICTED", allowed, f"{source}, above the ceiling {ceiling:.6g}")
    if floor is not None and not _at_most(floor, printed + allowed):
        return Decision("CONTRADICTED", allowed, f"{source}, below the floor {floor:.6g}")
    tolerance = 2 * math.hypot(printed_se, recomputed_se) + rounding
    parts += ["Monte Carlo error"] if recomputed_se > 0 else []
    difference = abs(printed - recomputed)
    # Half a unit is itself a rounded double: |0.605 - 0.60| must not exceed .005 by its last bit.
    slack = 8 * EPS * max(abs(printed), 1.0)
    verdict = "PASS" if difference <= tolerance + slack else "FAIL"
    if recomputed_se == 0 and difference <= rounding + slack:
        verdict = "MATCH"
    return Decision(verdict, tolerance, " + ".join([*parts, "rounding"]))


def _at_most(low: float, high: float) -> bool:
    return low <= high + 8 * EPS * max(abs(high), 1.0)


def stand_in_outcome(reason: str) -> str:
    """Return "holds", "fails" or "undecided", whichever the reason of a STAND-IN row says; "" unless it says one."""
    said = re.findall(r"\b(holds|fails|undecided)\b", reason.lower())
    return said[0] if len(set(said)) == 1 else ""


def check_stand_in(reason: str, paper: str, claim_ids: Collection[str]) -> None:
    """Refuse a STAND-IN whose reason does not say what was tested, on how many units, and what came out.

    Parameters
    ----------
    reason : str
        Must hold the id of a claim of the same paper, n=, effect=, an interval [low, high] around the
        effect, and one outcome: "synbench-01 n=500 effect=0.12 [0.05, 0.19] holds: outliers against random
        members of a Markov corpus".
    paper : str
        Whose number the row is.
    claim_ids : collection of str
        The known ids.

    Raises
    ------
    ValueError
        Naming every part that is missing or wrong.
    """
    n = re.search(r"\bn\s*=\s*([\d,]*\d)", reason)
    effect = re.search(rf"\beffect\s*[=:]?\s*({NUMBER})", reason)
    interval = re.search(rf"[\[(]\s*({NUMBER})\s*,\s*({NUMBER})\s*[\])]", reason)
    ids = set(re.findall(rf"\b{paper}-\d+\b", reason))
    wrong = []
    if not ids.intersection(claim_ids):
        wrong.append(f"the id of a claim of {paper}")
    if n is None or int(n[1].replace(",", "")) < 1:
        wrong.append("n=<positive integer>")
    if effect is None:
        wrong.append("effect=<number>")
    if interval is None or (effect and not float(interval[1]) <= float(effect[1]) <= float(interval[2])):
        wrong.append("[low, high] around the effect")
    if not stand_in_outcome(reason):
        wrong.append("exactly one of holds, fails, undecided")
    if wrong:
        raise ValueError(f"the reason of a STAND-IN must hold {'; '.join(wrong)}; got {reason!r}")


def chance_fails(rows: pd.DataFrame) -> float:
    """Return the expected number of FAILs among `rows` if every recipe were exactly right.

    Parameters
    ----------
    rows : DataFrame
        Ledger rows (columns spread, spread_is, unit, recomputed_se, column, verdict). Rows without a
        computed verdict, and bounds (which name no value to miss), count nothing.

    Returns
    -------
    float
        The sum over rows of P(|D| > tolerance). Given the printed spread, D over its standard error is
        Student t: with 4 degrees of freedom for the sd of five runs, 9 for the half-width of ten, more
        (Welch and Satterthwaite) the larger the share of the well-known Monte Carlo error, normal without a
        printed spread. Print rounds the mean evenly over its last unit, which is averaged over.
    """
    judged = rows[rows["verdict"].isin(COMPUTED) & rows["column"].map(bound_side).isna()]
    if judged.empty:
        return 0.0
    pairs = zip(judged["spread"], judged["spread_is"], strict=True)
    printed_se = np.array([standard_error(spread, kind) for spread, kind in pairs])
    degrees = np.array([SPREADS[kind][1] if kind else np.inf for kind in judged["spread_is"]])
    recomputed_se = judged["recomputed_se"].to_numpy(float)
    error = np.hypot(printed_se, recomputed_se)
    random = error > 0
    error, half_unit = error[random], judged["unit"].to_numpy(float)[random] / 2
    with np.errstate(divide="ignore"):
        degrees = degrees[random] * (error / printed_se[random]) ** 4
    # Midpoints of the rounding error: towards the recomputed value it takes from the tolerance, away it adds.
    shift = 1 + np.linspace(-1, 1, 64, endpoint=False)[:, None] + 1 / 64
    limit = 2 + half_unit / error * shift
    return float(np.sum(np.mean(2 * stats.t.sf(limit, np.minimum(degrees, 1e9)), axis=0)))
