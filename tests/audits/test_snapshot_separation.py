"""Reports by shift: audits of the mechanisms themselves, caps, calibration there and back, ceilings over a grid."""

import numpy as np
import pytest
from scipy.special import expit

from dprepro.audits.snapshot import Snapshot, active_audit, passive_audit
from dprepro.audits.snapshot_expectation import white_box_runs
from dprepro.audits.snapshot_separation import (
    THRESHOLDS,
    ReportCurve,
    Separation,
    calibrate,
    corrected_ceiling,
    logistic_runs,
    predict,
    report,
    report_curves,
)
from dprepro.base import results
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.stats.bounds import bernstein_radius, clopper_pearson

DELTA = 1e-5
SMALL = {
    "logistic_shifts": [0.5, 1.0, 2.0, 4.0],
    "gaussian_shifts": [0.5, 1.0, 2.0],
    "active_repeats": 1,
    "passive_repeats": 30,
}


@pytest.mark.parametrize("choice", ["same", "held_out"])
def test_runs_agree_with_audits_of_a_product_of_experts(choice):
    # The audit draws Gumbel noise from release() and scores it; the runs draw logistic noise. Means must agree.
    mechanism, n, repeats, r = ProductOfExperts(4.0, 3, delta=DELTA), 500, 400, 0.8
    u_in, u_out = mechanism.separated(r)
    snapshot = Snapshot(np.tile(u_in, (n, 1)), np.tile(u_out, (n, 1)))
    recipe = "inferred" if choice == "same" else "valid"
    rng = np.random.default_rng(0)
    audits = np.array(
        [passive_audit(snapshot, mechanism, recipe=recipe, rng=rng).epsilon for _ in range(repeats)]
    )
    search = {"choice": choice, "grid": 2000 if choice == "same" else None}
    runs = logistic_runs(r * 4.0, n, repeats, np.random.default_rng(1), delta=DELTA, **search)[:, 0]
    error = np.hypot(audits.std(), runs.std()) / repeats**0.5
    assert abs(audits.mean() - runs.mean()) < 4 * error
    assert audits.std() == pytest.approx(runs.std(), rel=0.25)


@pytest.mark.parametrize(("trials", "cap"), [(2_000, 6.295), (400_000, 11.59)])
def test_no_report_exceeds_the_cap_of_zero_false_positives(trials, cap):
    # At the cap every trial with the canary and none without is accepted: log((low - delta)/up) by hand.
    low, up = 0.025 ** (1 / trials), 1 - 0.025 ** (1 / trials)
    assert np.log((low - DELTA) / up) == pytest.approx(cap, abs=0.005)
    assert clopper_pearson(trials, trials, 0.05)[0] == pytest.approx(low, rel=1e-9)
    runs = logistic_runs([16.0, 40.0], trials, 3, np.random.default_rng(2), delta=DELTA)
    assert runs.max() <= np.log((low - DELTA) / up) + 1e-9
    assert runs[:, 1] == pytest.approx(cap, abs=0.005)


def test_a_repeat_does_not_depend_on_how_many_there_are():
    few = logistic_runs([1.0, 2.0], 100, 3, np.random.default_rng(5), delta=DELTA)
    many = logistic_runs([1.0, 2.0], 100, 8, np.random.default_rng(5), delta=DELTA)
    np.testing.assert_allclose(few, many[:3], rtol=1e-12)


def test_all_scores_find_at_least_what_quantiles_find():
    quantiles = logistic_runs(3.0, 5_000, 10, np.random.default_rng(6), delta=DELTA, grid=200)
    everything = logistic_runs(3.0, 5_000, 10, np.random.default_rng(6), delta=DELTA)
    assert np.all(everything >= quantiles)


def test_gaussian_report_is_that_of_white_box_runs():
    found = report("gaussian, passive, 2000 quantiles, 0", np.random.default_rng(7), **SMALL)
    runs = white_box_runs([0.5, 1.0, 2.0], 2_000, 30, np.random.default_rng(7), delta=DELTA, grid=2_000)
    np.testing.assert_allclose(found["mean"], runs.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["sd"], runs.std(axis=0, ddof=1), rtol=1e-12)
    assert (found["repeats"], found["shift"]) == (30, [0.5, 1.0, 2.0])


@pytest.mark.parametrize("line", ["logistic, passive, held-out half", "gaussian, passive, all scores"])
def test_parts_joined_are_the_whole(line):
    once, again = np.random.default_rng(3), np.random.default_rng(3)
    whole = report(f"{line}, 0", once, **{**SMALL, "passive_repeats": 12})
    parts = {
        f"{line}, {part}": report(f"{line}, {part}", again, **{**SMALL, "passive_repeats": audits})
        for part, audits in enumerate((5, 4, 3))
    }
    found = report_curves(parts)
    assert list(found) == [line]
    assert found[line].repeats == whole["repeats"] == 12
    for name in ("shift", "mean", "sd"):
        np.testing.assert_allclose(getattr(found[line], name), whole[name], rtol=1e-10)


def test_saved_curves_between_their_knots():
    # Half-way between two knots the spline has to agree with a simulation of its own.
    curves = report_curves(results.load("snapaudit_separation"))
    for key, shift in (
        ("logistic, passive, 2000 quantiles", 7.2),
        ("logistic, passive, 2000 quantiles", 12.0),
        ("logistic, passive, held-out half", 4.5),
    ):
        curve, (choice, grid) = curves[key], THRESHOLDS[key.split(", ")[2]]
        runs = logistic_runs(
            shift, 2_000, 300, np.random.default_rng(8), delta=DELTA, choice=choice, grid=grid
        )
        assert abs(runs.mean() - curve(shift)) < 4 * np.hypot(runs.std() / 300**0.5, curve.error(shift)), key
    gaussian = curves["gaussian, passive, 2000 quantiles"]
    runs = white_box_runs(1.4, 2_000, 300, np.random.default_rng(9), delta=DELTA, grid=2_000)
    assert abs(runs.mean() - gaussian(1.4)) < 4 * np.hypot(runs.std() / 300**0.5, gaussian.error(1.4))
    active = curves["gaussian, active, 2000 quantiles"]
    runs = white_box_runs(1.4, 400_000, 8, np.random.default_rng(9), delta=DELTA, grid=2_000)
    assert abs(runs.mean() - active(1.4)) < 5 * active.spread(1.4) / 8**0.5


def test_saved_curves_rise_and_stay_below_the_shift():
    for key, curve in report_curves(results.load("snapaudit_separation")).items():
        assert np.all(np.diff(curve.mean) > 0), key
        if key.startswith("logistic, active"):
            # No audit of 400,000 trials has enough luck on average to exceed the shift.
            assert np.all(curve.mean < curve.shift), key


LINE = ReportCurve(np.linspace(0.5, 8, 9), 0.9 * np.linspace(0.5, 8, 9), np.full(9, 0.2), 100)


def test_calibration_by_hand():
    # On the line report = .9 shift: a printed 2.7 is shift 3, at epsilon 4 a separation of .75.
    found = calibrate(LINE, 2.7, 0.09, 4.0)
    assert found.value == pytest.approx(0.75, rel=1e-12)
    assert found.error == pytest.approx(np.hypot(0.09, 0.02) / 0.9 / 4, rel=1e-9)


def test_prediction_carries_the_error_of_the_calibration():
    found = predict(LINE, Separation(0.75, 0.01), 8.0)
    assert found.value == pytest.approx(0.9 * 6, rel=1e-12)
    assert found.monte_carlo == pytest.approx(0.02, rel=1e-12)
    assert found.error == pytest.approx(np.hypot(0.02, 0.9 * 8 * 0.01), rel=1e-9)


def test_calibration_and_prediction_of_the_same_cell_agree():
    found = predict(LINE, calibrate(LINE, 3.3, 0.1, 4.0), 4.0)
    assert found.value == pytest.approx(3.3, rel=1e-9)
    assert found.error == pytest.approx(np.hypot(0.02, np.hypot(0.1, 0.02)), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0, 16.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_ceiling_by_brute_force_over_the_allowed_region(epsilon, delta):
    fpr = np.concatenate([np.logspace(-9, 0, 400_001), [(1 - delta) * expit(-epsilon)]])
    tpr = np.minimum(np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr))
    ratio = (np.clip(tpr, 0, 1) - 0.008443 - delta) / (fpr + 0.008443)
    assert corrected_ceiling(epsilon, delta, 0.008443) == pytest.approx(np.log(ratio.max()), rel=1e-9)


def test_ceiling_without_a_claim_is_the_cap_of_the_radius():
    radius = float(bernstein_radius(0.0, 2_000, 400_000))
    assert corrected_ceiling(np.inf, DELTA, radius) == pytest.approx(4.766, abs=0.002)
    assert corrected_ceiling(np.inf, 0.0, 0.25) == pytest.approx(np.log(3), rel=1e-12)
    assert corrected_ceiling(1.0, DELTA, 0.9) == 0.0


@pytest.mark.parametrize("separation", [0.7, 1.0])
def test_stated_audits_stay_below_the_ceiling(separation):
    for epsilon in (1.0, 4.0, 16.0):
        mechanism = ProductOfExperts(epsilon, 3, delta=DELTA)
        rows_in, rows_out = (np.tile(row, (2_000, 1)) for row in mechanism.separated(separation))
        audit = active_audit(
            Snapshot(rows_in, rows_out), mechanism, recipe="as_stated", mode="design", view="white"
        )
        radius = float(bernstein_radius(0.0, 2_000, 400_000))
        assert 0 < audit.epsilon < corrected_ceiling(epsilon, DELTA, radius)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: logistic_runs(-1.0, 10, 1, np.random.default_rng(0), delta=DELTA), "shifts must be in"),
        (lambda: logistic_runs(1.0, 1, 1, np.random.default_rng(0), delta=DELTA), "trials must be a whole"),
        (lambda: logistic_runs(1.0, 9, 0, np.random.default_rng(0), delta=DELTA), "repeats must be a whole"),
        (
            lambda: logistic_runs(1.0, 9, 1, np.random.default_rng(0), delta=DELTA, choice="best"),
            "choice must be one of 'same', 'held_out'",
        ),
        (lambda: report("logistic", np.random.default_rng(0), **SMALL), "mode of the key must be one of"),
        (
            lambda: report("cauchy, active, all scores", np.random.default_rng(0), **SMALL),
            "noise of the key must be one of 'logistic', 'gaussian', got 'cauchy'",
        ),
        (
            lambda: report("logistic, active, some", np.random.default_rng(0), **SMALL),
            "threshold of the key must be one of",
        ),
        (lambda: LINE(9.0), r"shift must be in \[0.5, 8\], got 9"),
        (lambda: LINE.inverse(7.3), r"value must be in \[0.45, 7.2\], got 7.3"),
        (lambda: calibrate(LINE, 2.0, -0.1, 4.0), "printed_error must be in"),
        (lambda: calibrate(LINE, 2.0, 0.1, 0.0), "scale must be in"),
        (lambda: corrected_ceiling(-1.0, 0.0, 0.1), "epsilon must be in"),
        (lambda: corrected_ceiling(1.0, 1.0, 0.1), "delta must be in"),
        (lambda: corrected_ceiling(1.0, 0.0, 0.0), "radius must be in"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
