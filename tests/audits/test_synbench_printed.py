"""The checks of SynBench's tables on small tables worked by hand, and their counts on the printed ones."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dprepro.audits.synbench_printed import (
    BUDGETS,
    GENERATORS,
    against_baselines,
    decline,
    kept_utility,
    missing,
    run_deviation,
    series,
)
from dprepro.kit import claims


def test_counts_below_the_baselines_against_a_loop_over_the_file():
    table = claims.load_reported("synbench", "table1")
    cells = against_baselines(table)
    counted = {"random": 0, "majority": 0, "printed": 0}
    for _, row in table[table["column"].isin(GENERATORS) & table["value"].notna()].iterrows():
        counted["printed"] += 1
        for name in ("random", "majority"):
            bar = table[(table["row"] == row["row"]) & (table["column"] == name)]["value"].item()
            counted[name] += row["value"] < bar
    assert (len(cells), cells["below_majority"].sum(), cells["below_random"].sum()) == (72, 24, 13)
    assert counted == {"printed": 72, "majority": 24, "random": 13}


def test_kept_utility_of_cells_worked_by_hand():
    kept = kept_utility(claims.load_reported("synbench", "table1"), 0.5).set_index(["dataset", "generator"])
    assert kept.loc[("HoC", "DP-Gen"), "kept"] == pytest.approx((14.7 - 9.1) / (51.0 - 9.1))
    assert kept.loc[("MIMIC", "AUG-PE"), "kept"] == pytest.approx(
        (60.8 - 48.8) / (64.9 - 48.8)
    )  # random is better
    assert kept.loc[("HoC", "AUG-PE"), "kept"] == 0  # below the guesser
    # Nothing to lose, and a dash.
    assert ("AsyLax", "AUG-PE") not in kept.index
    assert ("PsyTAR", "DP-Diffusion") not in kept.index
    assert len(kept) == 12
    assert len(kept_utility(claims.load_reported("synbench", "table1"), 0.5, least=4.3)) == 10
    with pytest.raises(ValueError, match="epsilon must be one of"):
        kept_utility(claims.load_reported("synbench", "table1"), 3.0)


def test_series_keep_order_and_dashes():
    wide = series(claims.load_reported("synbench", "table1"))
    assert list(wide.columns) == list(BUDGETS)
    assert wide.shape == (15, 5)
    assert wide.isna().to_numpy().sum() == 3
    assert wide.loc[("MIMIC", "AUG-PE")].to_list() == [60.8, 59.5, 62.6, 65.1, 64.9]
    fidelity = claims.load_reported("synbench", "table2")
    flat = [
        series(fidelity, "mauve").loc[name].dropna().nunique() == 1
        for name in series(fidelity, "mauve").index
    ]
    assert sum(flat) == 5


def test_decline_against_a_simulation_of_what_was_printed():
    """Half-widths of Student intervals: the rejection rate of the Welch test at equal means is its level."""
    rng = np.random.default_rng(0)
    runs, rejected = 10, 0
    for _ in range(300):
        first, second = rng.normal(0, [[2.0], [1.0]], (2, runs))
        widths = [stats.t.ppf(0.975, runs - 1) * stats.sem(part) for part in (first, second)]
        rows = [
            {"value": part.mean(), "spread": width}
            for part, width in zip((first, second), widths, strict=True)
        ]
        found = decline(*rows, runs)
        expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater")
        assert found.p_welch == pytest.approx(expected.pvalue)
        assert found.degrees == pytest.approx(expected.df)
        rejected += found.p_welch < 0.1
    assert abs(rejected - 30) < 4 * math.sqrt(300 * 0.1 * 0.9)


def test_decline_of_the_printed_table():
    table = claims.load_reported("synbench", "table3")
    found = decline(table.iloc[0], table.iloc[2])
    assert found.difference == pytest.approx(1.238)
    assert found.half_width == pytest.approx(math.hypot(1.9161, 1.3395))
    assert (found.z, found.p_normal) == (pytest.approx(1.0379, abs=1e-3), pytest.approx(0.15, abs=1e-3))


def test_run_deviation_undoes_the_interval():
    rng = np.random.default_rng(1)
    widths = [stats.t.ppf(0.975, 9) * stats.sem(rng.normal(40, 2.0, 10)) for _ in range(400)]
    assert run_deviation(pd.DataFrame({"spread": widths})) == pytest.approx(2.0, rel=0.05)


def test_every_number_that_is_not_run_says_what_it_needs():
    table = claims.load_reported("synbench")
    for _, row in table[~table["table"].isin(["table3", "table4"])].iterrows():  # of those none is NOT-RUN
        reason = missing(row, "a check")
        assert reason.startswith("missing: the ")
        assert "with them: " in reason
        assert reason.endswith("; a check")
    gain = table[table["column"] == "MAUVE gain"].iloc[0]
    assert "text_mauve" in missing(gain)
    assert "GPU" not in missing({"table": "table2", "row": "HoC", "column": "original:mauve"})
    with pytest.raises(ValueError, match="table must be one of"):
        missing({"table": "table4", "row": "HoC", "column": "real"})


def test_too_few_runs():
    row = {"value": 1.0, "spread": 1.0}
    with pytest.raises(ValueError, match="runs must be"):
        decline(row, row, runs=1)
    with pytest.raises(ValueError, match="runs must be"):
        run_deviation(pd.DataFrame({"spread": [1.0]}), runs=1)
