"""What the planted contamination shows of two claims of SynBench (arXiv 2509.14594): table 3, and MAUVE.

Both are tests of order within runs: each run is one series (an exact test for a common trend, ``stats.trend``), and
an effect is a difference within runs with Student's 95 % interval over runs.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from dprepro.audits.contamination_study import LEVELS
from dprepro.audits.contamination_texts import OTHERS
from dprepro.audits.judged import Judged, Mean, mean_of
from dprepro.base.check import one_of
from dprepro.stats.trend import trend

ALPHA = 0.05
BUDGETS = ("eps", "inf")
FIRST_RUNS = (0, 1, 2)  # had been seen before the number of the further ones was set

_NAMES = {"eps": "private", "inf": "without privacy"}


class Looks(NamedTuple):
    """Items of the saved result ``synbench_contamination`` by run: a first look, and fresh runs, which judge."""

    first: dict[str, Mapping[str, Any]]
    fresh: dict[str, Mapping[str, Any]]


def looks(found: Mapping[str, Mapping[str, Any]]) -> Looks:
    """Part the items of the runs that had been seen (FIRST_RUNS) from those of fresh ones.

    A claim is judged by the fresh runs alone: to go on until an interval clears 0 is no test.
    """
    parts = Looks({}, {})
    for key, item in found.items():
        early = int(key.rpartition(", ")[2]) in FIRST_RUNS
        (parts.first if early else parts.fresh)[key] = item
    return parts


def planted(found: Mapping[str, Mapping[str, Any]], measure: str, budget: str) -> pd.DataFrame:
    """Return a measure by run (rows) and share of the private texts in the pretraining (columns; "others" last).

    Parameters
    ----------
    found : mapping
        Items of the saved result ``synbench_contamination``.
    measure : str
        "micro", "macro", "mauve", "longest" or "copies".
    budget : {"eps", "inf"}

    Raises
    ------
    ValueError
        Another budget.
    """
    name = f"{measure}, {one_of('budget', budget, BUDGETS)}"
    keys = [(key, key.split(", ")) for key in found if key.startswith("planted, ")]
    rows = [
        (int(run), share if share == OTHERS else float(share), found[key][name])
        for key, (_, share, run) in keys
    ]
    table = pd.DataFrame(rows, columns=["run", "share", "value"]).pivot(
        index="run", columns="share", values="value"
    )
    shares = sorted(share for share in table.columns if share != OTHERS)
    return table[[*shares, OTHERS]]


def removed(found: Mapping[str, Mapping[str, Any]], measure: str, budget: str) -> dict[str, pd.DataFrame]:
    """Return, for marked and for unmarked texts, a measure by run (rows) and share of the marked number removed.

    Raises
    ------
    ValueError
        Another budget.
    """
    one_of("budget", budget, BUDGETS)
    tables = {}
    for what, levels in LEVELS.items():
        start = f"{what}, {budget}, "
        runs = {int(key.removeprefix(start)): found[key][measure] for key in found if key.startswith(start)}
        tables[what] = pd.DataFrame.from_dict(runs, orient="index", columns=list(levels)).sort_index()
    return tables


def mauve_rises(found: Mapping[str, Mapping[str, Any]], budget: str) -> Judged:
    """Judge at one budget whether MAUVE rises with the share of the private texts in the pretraining.

    The effect is MAUVE with all of them there less MAUVE with none. HOLDS if it rises over the shares (p at most .05)
    and the interval of the effect lies above 0; FAILS if it falls, or the interval lies below 0; UNDECIDED otherwise.
    """
    table = planted(found, "mauve", budget)
    shares = [share for share in table.columns if share != OTHERS]
    order = trend(list(table[shares].to_numpy()))
    rise = mean_of(table[shares[-1]] - table[shares[0]])
    domain = mean_of(table[OTHERS] - table[shares[0]])
    reason = (
        f"MAUVE, all private texts in the pretraining less none, {_NAMES[budget]}; "
        f"S = {order.s} of {order.pairs}, p rising {_p(order.p_rising)}; with as many other texts of the same kinds "
        f"in place of the private ones {domain.value:.3f} [{domain.low:.3f}, {domain.high:.3f}]"
    )
    return Judged(_decided(order.p_rising, order.p_falling, rise), *rise, len(table), reason)


def utility_falls(found: Mapping[str, Mapping[str, Any]], budget: str) -> Judged:
    """Judge synbench-04 at one budget: does removing contaminated texts lower utility, by more than removing others?

    The effect is the extra cost: F1 after unmarked texts were removed less F1 after as many marked ones were, mean
    over the levels, in points. HOLDS if F1 falls with the share of marked texts removed (p at most .05) and the
    interval of the extra cost lies above 0; FAILS if F1 rises, or the interval lies below 0: contaminated texts are
    then those that cost least; UNDECIDED otherwise.
    """
    tables = removed(found, "macro", budget)
    order = trend(list(tables["marked"].to_numpy()))
    shared = list(LEVELS["unmarked"])
    extra = mean_of(100 * (tables["unmarked"][shared] - tables["marked"][shared]).mean(axis=1))
    decline = mean_of(100 * (tables["marked"][0.0] - tables["marked"][shared[-1]]))
    reason = (
        f"points of F1 that removing contaminated texts costs more than removing as many others, {_NAMES[budget]}; "
        f"F1 over the shares removed: S = {order.s} of {order.pairs}, p falling {_p(order.p_falling)}, decline from "
        f"none to 75 % removed {decline.value:.1f} [{decline.low:.1f}, {decline.high:.1f}]"
    )
    return Judged(_decided(order.p_falling, order.p_rising, extra), *extra, len(tables["marked"]), reason)


def mauve_claim(found: Mapping[str, Mapping[str, Any]]) -> Judged:
    """Judge synbench-08 (`mauve_rises`): the outcome of both budgets if they agree, FAILS if it fails at one."""
    private, free = (mauve_rises(found, budget) for budget in BUDGETS)
    if private.outcome == free.outcome:
        outcome = private.outcome
    else:
        outcome = "FAILS" if "FAILS" in (private.outcome, free.outcome) else "UNDECIDED"
    reason = f"{private.reason}. Besides: {free.effect:.3f} [{free.low:.3f}, {free.high:.3f}], {free.reason}"
    return private._replace(outcome=outcome, reason=reason)


def _decided(p_claimed: float, p_opposite: float, effect: Mean) -> str:
    if p_claimed <= ALPHA and effect.low > 0:
        return "HOLDS"
    return "FAILS" if p_opposite <= ALPHA or effect.high < 0 else "UNDECIDED"


def _p(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"= {value:.4f}"
