"""Delays: the fit of an exponent, the leading order of theorem 2, summaries, and the items of the saved result."""

from math import exp

import numpy as np
import pytest
from scipy.stats import binom

from dprepro.audits import retidp_delays as delays
from dprepro.audits.monitor import ReTiDPMonitor
from dprepro.audits.retidp_scenarios import SCENARIOS

SIZES = {
    "runs": 60,
    "run_steps": 4000,
    "horizon": 40,
    "n": 750,
    "alpha": 0.05,
    "null_runs": 400,
    "null_seed": 1,
}


def report(key, seed=0, **changed):
    return delays.report(key, np.random.default_rng(seed), **{**SIZES, **changed})


def test_an_exact_power_law_is_found_exactly():
    x = np.array([1.0, 3.0, 10.0, 40.0])
    fit = delays.power_law(x, 7 * x**-0.6, [0.01, 0.02, 0.01, 0.05])
    assert fit.exponent == pytest.approx(-0.6, abs=1e-12)
    assert fit.misfit == pytest.approx(0, abs=1e-12)


def test_the_error_of_an_exponent_is_that_of_repeated_fits():
    rng, x, error = np.random.default_rng(1), np.geomspace(200, 20_000, 7), np.linspace(0.01, 0.04, 7)
    fits = [delays.power_law(x, x**-0.5 * np.exp(error * rng.standard_normal(7)), error) for _ in range(2000)]
    exponents = np.array([fit.exponent for fit in fits])
    errors = np.array([fit.error for fit in fits])
    stated = min(errors)  # without the factor for a misfit above 1
    assert abs(exponents.mean() + 0.5) < 4 * exponents.std() / 2000**0.5
    assert exponents.std() == pytest.approx(stated, rel=0.06)
    misfits = np.array([fit.misfit for fit in fits])
    assert misfits.mean() == pytest.approx(1, abs=4 * (2 / 5 / 2000) ** 0.5)


def test_a_curve_has_a_misfit_and_a_larger_error():
    x = np.geomspace(1, 100, 6)
    straight, curved = (
        delays.power_law(x, x**-0.5 * np.exp(bend * np.log(x) ** 2), np.full(6, 0.01)) for bend in (0, 0.1)
    )
    assert curved.misfit > 10
    assert curved.error == pytest.approx(straight.error * curved.misfit**0.5)


def test_two_points_are_no_fit():
    with pytest.raises(ValueError, match="x must be a one-dimensional array of at least 3"):
        delays.power_law([1, 2], [1, 2], [0.1, 0.1])


def test_leading_delay_has_the_exponents_of_theorem_2():
    for beta in (0.0, 0.25, 0.4):
        base = delays.leading_delay(0.1, 100, 2.5, beta)
        longer = delays.leading_delay(0.1, 1600, 2.5, beta)
        larger = delays.leading_delay(0.1 * 9**0.5, 100, 2.5, beta)
        assert np.log(longer / base) / np.log(16) == pytest.approx((0.5 - beta) / (1 - beta))
        assert np.log(larger / base) / np.log(9) == pytest.approx(-1 / (2 * (1 - beta)))


def test_leading_delay_is_that_of_a_stream_without_noise():
    # Counts equal to their means before and after: scores of 0, then of the drift.
    n, horizon, before, after = 10**6, 200, (0.2, 0.2 / exp(1)), (0.21, 0.2 / exp(1))
    a, b = (
        np.round(np.where(np.arange(horizon) >= 100, late, early) * n)
        for early, late in zip(before, after, strict=True)
    )
    monitor = ReTiDPMonitor(1.0, 0.05, horizon=horizon, threshold=60.0)
    alarm = next(step for step in range(horizon) if monitor.update(int(a[step]), int(b[step]), n).alarm)
    spread = after[0] * (1 - after[0]) + exp(2) * after[1] * (1 - after[1])
    drift = 0.01 * (n / spread) ** 0.5
    assert alarm - 100 + 1 == np.ceil(delays.leading_delay(drift, horizon, 60.0))


def test_rates_change_with_the_step_given():
    x, y = delays.counts(((0.0, 1.0), (1.0, 0.0)), 4, 3, 9, 6, np.random.default_rng(0))
    assert x.tolist() == [[0, 0, 0, 9, 9, 9]] * 3
    assert y.tolist() == [[9, 9, 9, 0, 0, 0]] * 3


def test_the_mild_change_is_a_true_epsilon_of_1_over_its_scale():
    # At the far half-line the Laplace mechanism uses up its epsilon, 1/scale.
    (a, b), (c, d) = delays.CHANGES["mild"]
    assert np.log([a / b, c / d]) == pytest.approx([1 / 1.1, 1 / 0.95])
    assert delays.CHANGES["b"] == SCENARIOS["b"].probabilities()


def test_summary_of_first_alarms():
    found = delays.summary(np.array([3, 10, 12, 12, 20, 0, 0]), 10, 20)  # one early, two missed
    late = np.array([0, 2, 2, 10, 11, 11])
    assert found.mean == pytest.approx(late.mean())
    assert found.error == pytest.approx(late.std(ddof=1) / 6**0.5)
    assert (found.median, found.early, found.missed, found.runs) == (6, 1, 2, 7)
    assert (found.low, found.high) == (0, 11)


def test_a_summary_needs_two_delays():
    with pytest.raises(
        ValueError, match="first must have two streams without an alarm before step 10, got 1"
    ):
        delays.summary(np.array([3, 4, 12]), 10, 20)


def test_rate_items_summarise_both_monitors():
    found = report("rate, b, 20000, 40")
    for name in ("ReTiDP", "betting"):
        delay = delays.Delay(*found[name])
        assert delay.runs == 60
        assert delay.missed == 0
        assert 0 < delay.mean < 4
        assert delay.low <= delay.median <= delay.high
    assert found["threshold"] == ReTiDPMonitor(1.0, 0.05, horizon=40, threshold="limit").threshold
    assert delays.Delay(*report("rate, b, 2000, 100")["ReTiDP"]).runs == 40


@pytest.mark.parametrize("key", ["scenario, a", "samples, SVT 5, 750", "samples, Laplace scale 1/2, 50"])
def test_histograms_hold_every_stream(key):
    found = report(key)
    names = {"ReTiDP", "ReTiDP, ordinary", "ReTiDP, rare", "betting"}
    assert set(found) == names | {"threshold, ordinary", "threshold, rare"}
    for name in names:
        assert len(found[name]) == 41
        assert sum(found[name]) == 60
        assert found[name][0] == 0  # these are found by everybody
    assert found["threshold, ordinary"][0] < found["threshold, rare"][0]


def test_svt_1_is_no_violation_and_svt_5_is_one_at_once():
    harmless, broken = (report(f"samples, {name}, 750", runs=200) for name in ("SVT 1", "SVT 5"))
    for name in ("ReTiDP", "betting"):
        assert broken[name][1] == 200
        assert binom.sf(200 - harmless[name][0] - 1, 200, 0.05) > 1e-6


@pytest.mark.parametrize(
    ("key", "message"), [("speed, b, 750, 100", "key must be one of 'rate', 'scenario', 'samples'")]
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        report(key)
