"""Outcomes of the two claims on made-up results whose answer is known."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits import contamination_report as report
from dprepro.audits.judged import stand_in
from dprepro.kit import claims

SHARES = ("0", "0.25", "0.5", "0.75", "1", "others")


def planted(values, runs=4, noise=0.0, seed=0):
    """Items of the saved result with the same MAUVE by share in each run, and noise."""
    rng = np.random.default_rng(seed)
    found = {}
    for run in range(runs):
        for share, value in zip(SHARES, values, strict=True):
            noisy = value + noise * rng.standard_normal()
            found[f"planted, {share}, {run}"] = {"mauve, eps": noisy, "mauve, inf": 2 * noisy}
    return found


def removed(marked, unmarked, runs=4, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for run in range(runs):
        for what, line in (("marked", marked), ("unmarked", unmarked)):
            values = (np.array(line) + noise * rng.standard_normal(len(line))).tolist()
            found |= {f"{what}, {budget}, {run}": {"macro": values} for budget in ("eps", "inf")}
    return found


def test_tables_are_by_run_and_share():
    found = planted([0.1, 0.2, 0.3, 0.4, 0.5, 0.9], runs=2)
    table = report.planted(dict(reversed(found.items())), "mauve", "inf")
    assert table.columns.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, "others"]
    assert table.loc[1].tolist() == [0.2, 0.4, 0.6, 0.8, 1.0, 1.8]
    with pytest.raises(ValueError, match="budget must be one of"):
        report.planted(found, "mauve", "2")
    tables = report.removed(removed([0.9, 0.8, 0.7, 0.6], [0.9, 0.9, 0.8], runs=2), "macro", "inf")
    assert tables["marked"].loc[0].to_dict() == {0.0: 0.9, 0.25: 0.8, 0.5: 0.7, 0.75: 0.6}
    assert tables["unmarked"].loc[1].to_dict() == {0.25: 0.9, 0.5: 0.9, 0.75: 0.8}


def test_fresh_runs_are_told_from_those_that_had_been_seen():
    found = planted([0.1] * 6, runs=12) | removed([0.9] * 4, [0.9] * 3, runs=12)
    first, fresh = report.looks(found)
    assert first.keys() | fresh.keys() == found.keys()
    assert set(report.planted(first, "mauve", "eps").index) == {0, 1, 2}
    assert set(report.planted(fresh, "mauve", "eps").index) == set(range(3, 12))
    assert set(report.removed(fresh, "macro", "eps")["unmarked"].index) == set(range(3, 12))


@pytest.mark.parametrize(
    ("values", "outcome", "effect"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.2], "HOLDS", 0.4),
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.2], "FAILS", -0.4),
        ([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], "UNDECIDED", 0.0),
    ],
)
def test_mauve_rises_falls_or_neither(values, outcome, effect):
    noise = 0.001 if outcome != "UNDECIDED" else 0.05
    found = report.mauve_claim(planted(values, noise=noise))
    assert found.outcome == outcome
    assert found.n == 4
    assert found.low <= found.effect <= found.high
    assert abs(found.effect - effect) < 5 * noise


def test_mauve_without_a_trend_is_judged_to_rise_in_no_more_runs_than_alpha_allows():
    outcomes = [
        report.mauve_rises(planted([0.3] * 6, noise=0.05, seed=seed), "eps").outcome for seed in range(60)
    ]
    assert outcomes.count("HOLDS") <= stats.binom.ppf(0.999, 60, 0.05)
    assert outcomes.count("UNDECIDED") >= 45


def test_budgets_that_disagree():
    found = planted([0.1, 0.2, 0.3, 0.4, 0.5, 0.2], noise=0.001)
    falls = planted([0.5, 0.4, 0.3, 0.2, 0.1, 0.2], noise=0.001)
    flat = planted([0.3] * 6, noise=0.05, seed=2)

    def joined(free):
        return {key: {**item, "mauve, inf": free[key]["mauve, inf"]} for key, item in found.items()}

    assert report.mauve_claim(joined(found)).outcome == "HOLDS"
    assert report.mauve_claim(joined(falls)).outcome == "FAILS"
    assert report.mauve_claim(joined(flat)).outcome == "UNDECIDED"


@pytest.mark.parametrize(
    ("marked", "unmarked", "outcome", "effect"),
    [
        ([0.9, 0.8, 0.7, 0.6], [0.9, 0.9, 0.9], "HOLDS", 20),  # they carry the utility
        ([0.9, 0.8, 0.7, 0.6], [0.8, 0.7, 0.6], "UNDECIDED", 0),  # less data costs that much
        ([0.9, 0.88, 0.86, 0.84], [0.8, 0.7, 0.6], "FAILS", -16),  # they cost least
        ([0.6, 0.7, 0.8, 0.9], [0.6, 0.7, 0.8], "FAILS", -10),  # F1 rises
        ([0.7, 0.7, 0.7, 0.7], [0.7, 0.7, 0.7], "UNDECIDED", 0),
    ],
)
def test_utility_falls_by_more_than_the_price_of_less_data(marked, unmarked, outcome, effect):
    found = report.utility_falls(
        removed(marked, unmarked, noise=0.02 if effect == 0 else 0.002, seed=3), "inf"
    )
    assert found.outcome == outcome
    assert abs(found.effect - effect) < 3
    assert found.n == 4


def test_reasons_are_those_of_a_stand_in_row():
    row = claims.load_reported("synbench", "table3").iloc[0]
    found = [
        report.mauve_claim(planted([0.1, 0.2, 0.3, 0.4, 0.5, 0.2], noise=0.001)),
        report.utility_falls(removed([0.9, 0.88, 0.86, 0.84], [0.8, 0.7, 0.6], noise=0.01), "eps"),
    ]
    for id, outcome in zip(("synbench-08", "synbench-04"), found, strict=True):
        reason = stand_in(id, outcome, "DP-Gen")
        judged = claims.judge(row, outcome.effect, recipe="as_stated", verdict="STAND-IN", reason=reason)
        assert judged["verdict"] == "STAND-IN"
        claims.judge_claim(id, *outcome)
