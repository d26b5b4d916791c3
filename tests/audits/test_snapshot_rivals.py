"""Rival recipes: what each reports, and that the misfit singles out the recipe that made the numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from dprepro.audits import snapshot_rivals as rivals
from dprepro.audits.snapshot_expectation import white_box_runs
from dprepro.kit import claims
from dprepro.mechanisms.in_context.voting import PrivateVoting

FEW = {"active_repeats": 2, "passive_repeats": 3, "audit_seed": 0}


def report(key, **sizes):
    return rivals.report(key, None, **(FEW | sizes))


@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_every_rival_reports_for_every_view(name):
    found = report(f"{name}, white box, passive, 1, 0")
    assert len(found["mean"]) == len(found["sd"]) == len(rivals.EPSILONS)
    assert np.all(np.diff(found["mean"]) > 0)


def test_rivals_differ_from_the_inferred_recipe_in_one_respect():
    for name, rival in rivals.RIVALS.items():
        changed = [field for field in vars(rival) if getattr(rival, field) != getattr(rivals.INFERRED, field)]
        # A held-out threshold is sought over all scores of its half: grid and choice are one respect.
        assert len(changed) == {"inferred": 0, "held-out half": 2}.get(name, 1)


def test_parts_joined_are_the_audits_of_a_stream_at_once():
    whole = report("200 thresholds, white box, passive, 4, 0", passive_repeats=12)
    stream = np.random.default_rng(np.random.SeedSequence(0).spawn(5)[4])
    mu = [2**0.5 / PrivateVoting(epsilon, rivals.DELTA).sigma for epsilon in rivals.EPSILONS]
    runs = white_box_runs(mu, 2_000, 12, stream, delta=rivals.DELTA, conversion="gdp", grid=200)
    assert whole["mean"] == pytest.approx(runs.mean(axis=0))
    parts = {
        f"200 thresholds, white box, passive, 4, {part}": report(
            f"200 thresholds, white box, passive, 4, {part}", passive_repeats=4
        )
        for part in range(3)
    }
    black = {"inferred, black box, passive": {"mean": [1.0], "sd": [0.5]}}
    found = rivals.joined(parts | black)
    assert found.keys() == {"200 thresholds, white box, passive", "inferred, black box, passive"}
    assert found["inferred, black box, passive"] == {"mean": [1.0], "sd": [0.5]}
    for what in ("mean", "sd"):
        assert found["200 thresholds, white box, passive"][what] == pytest.approx(whole[what], rel=1e-12)
    printed = pd.DataFrame([{"column": "White-PV (Passive)", "epsilon": 2.0, "value": 1.8, "unit": 0.01}])
    at_once = {"200 thresholds, white box, passive": {what: whole[what] for what in ("mean", "sd")}}
    fits = [rivals.misfits(printed, given)["white box"]["200 thresholds"] for given in (parts, at_once)]
    assert fits[0] == pytest.approx(fits[1])


def test_noise_for_sensitivity_1_separates_the_votes_further():
    # Distance sqrt 2 at noise for 1: mu grows by sqrt 2, so the audit reports more than is claimed.
    found = report("noise for sensitivity 1, black box, active")
    assert found["mean"][1] > 2.5


def synthetic(name, rng):
    """Printed means of five audits under one rival, rounded as print rounds."""
    rows = []
    for mode in ("active", "passive"):
        moments = report(f"{name}, black box, {mode}")
        for epsilon, mean, sd in zip(rivals.EPSILONS, moments["mean"], moments["sd"], strict=True):
            for _ in range(4):
                value = round(rng.normal(mean, sd / 5**0.5), 2)
                rows.append(
                    {"column": f"Black-PV ({mode.title()})", "epsilon": epsilon, "value": value, "unit": 0.01}
                )
    return pd.DataFrame(rows)


def test_misfit_is_one_for_the_true_recipe_and_large_for_others():
    keys = [
        f"{n}, black box, {m}" for n in ("inferred", "one-sided 95 % limits") for m in ("active", "passive")
    ]
    reports = {key: report(key) for key in keys}
    printed = synthetic("inferred", np.random.default_rng(3))
    found = rivals.misfits(printed, reports)["black box"]
    cells = len(printed)
    assert chi2.ppf(5e-4, cells) < cells * found["inferred"] < chi2.ppf(1 - 5e-4, cells)
    assert found["one-sided 95 % limits"] > 2
    assert found["standard conversion"] != found["standard conversion"]  # NaN: not reported


def test_the_inferred_recipe_wins_on_the_printed_black_box_cells():
    printed = claims.load_reported("snapaudit", "table1")
    printed = printed[printed["column"].str.contains("PV")]
    names = list(rivals.RIVALS)[:6]
    keys = [f"{name}, black box, {mode}" for name in names for mode in ("active", "passive")]
    found = rivals.misfits(printed, {key: report(key) for key in keys})["black box"].dropna().sort_values()
    assert found.index[0] == "inferred"
    assert found.iloc[0] < 1 < 2 < found.iloc[1]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("best, white box, active", "rival of the key must be one of"),
        ("inferred, grey box, active", "view of the key must be one of 'black box', 'white box'"),
        ("inferred, white box, active", "number of the stream"),
        ("inferred, white box, active, 2", "number of the part"),
        ("inferred, white box", "mode must be one of 'active', 'passive', got ''"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        report(key)
