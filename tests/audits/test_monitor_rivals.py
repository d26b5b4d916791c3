"""Oracles: the statistics by hand and by plain loops, simulated levels, and what each rival is bad at."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import ReTiDPMonitor
from dprepro.audits.monitor_rivals import HistoryMeanMonitor, StepwiseMonitor

RIVALS = [StepwiseMonitor, HistoryMeanMonitor]
rivals = pytest.mark.parametrize("rival", RIVALS)


def alarms(monitors, rates, rng, steps, n):
    """Feed the same counts to all, rates(step) giving arrays a and b; return the first alarms."""
    first = None
    for step in range(1, steps + 1):
        a, b = np.broadcast_arrays(*rates(step))
        x, y = rng.binomial(n, a), rng.binomial(n, b)
        results = [monitor.update(x, y, n) for monitor in monitors]
        first = np.full((len(monitors), *a.shape), np.inf) if first is None else first
        for found, result in zip(first, results, strict=True):
            found[np.isinf(found) & result.alarm] = step
    return first


def test_by_hand():
    # Every standard error is below the floor of 1/2: scores 2 p_hat = 1, -1, 2.
    steps = ((6, 1), (1, 6), (10, 0))
    stepwise, mean = (rival(0, 0.05, horizon=16, floor=0.5) for rival in RIVALS)
    assert [stepwise.update(x, y, 10).statistic for x, y in steps] == pytest.approx([1, -1, 2])
    assert [mean.update(x, y, 10).statistic for x, y in steps] == pytest.approx([1 / 4, 0, 2 / 4])
    assert stepwise.threshold == pytest.approx(stats.norm.isf(0.05 / 16))
    assert mean.threshold == pytest.approx(1.959964, abs=1e-6)
    assert stepwise.update(0, 0, 10).change_point == 4
    assert mean.update(0, 0, 10).change_point == 1


@pytest.mark.parametrize("floor", ["1/n", 0.01])
def test_statistics_agree_with_plain_loops(floor):
    rng, epsilon, delta = np.random.default_rng(40), 0.7, 0.02
    monitors = [rival(epsilon, 0.05, horizon=30, delta=delta, floor=floor) for rival in RIVALS]
    total = 0.0
    for step in range(20):
        n = int(rng.choice([1, 20, 500]))
        x, y = (0, 0) if step % 5 == 0 else (int(rng.integers(n + 1)), int(rng.binomial(n, 0.05)))
        a, b = x / n, y / n
        sigma = math.sqrt(a * (1 - a) / n + math.exp(2 * epsilon) * b * (1 - b) / n)
        score = (a - math.exp(epsilon) * b - delta) / max(sigma, 1 / n if floor == "1/n" else floor)
        total += score
        got = [monitor.update(x, y, n).statistic for monitor in monitors]
        assert got == pytest.approx([score, total / math.sqrt(30)], abs=1e-9)


@pytest.mark.parametrize("delta", [0, 0.05])
def test_level_where_the_limit_theorem_holds(delta):
    rng, runs, horizon, n = np.random.default_rng(41), 4000, 100, 10**8
    monitors = [rival(1, 0.05, horizon=horizon, delta=delta) for rival in RIVALS]
    b = np.full(runs, 0.06767)
    first = alarms(monitors, lambda _: (math.e * b + delta, b), rng, horizon, n)
    for count, exact in zip(np.isfinite(first).sum(axis=1), (0.0488, 0.044), strict=True):
        low, high = stats.binom.ppf([0.001, 0.999], runs, exact)
        assert low <= count <= high
        assert exact < 0.05


def test_a_test_a_step_forgets_and_the_mean_dilutes():
    # A test a step hardly sees a weak violation after step 50. Where the claim was kept with room to spare, the mean
    # cannot make up for that even if the violation is strong. ReTiDP sees both.
    rng, runs = np.random.default_rng(42), 300
    before = np.array([[0.18394, 0.06767], [0.1, 0.1]])
    after = np.array([[0.23975, 0.07865], [0.4, 0.1]])

    def rates(step):
        now = (before if step <= 50 else after)[..., None]
        return now[:, 0] + np.zeros((2, runs)), now[:, 1]

    monitors = [ReTiDPMonitor(1, 0.05, horizon=100, threshold=2.416)]
    monitors += [rival(1, 0.05, horizon=100) for rival in RIVALS]
    retidp, stepwise, mean = alarms(monitors, rates, rng, 100, 750)
    retidp_delay, mean_delay = (np.median(first[:, :] - 51, axis=1) for first in (retidp, mean))
    assert np.isfinite(retidp).mean(axis=1).min() > 0.97
    assert np.isfinite(stepwise[0]).mean() < 0.5
    assert np.isfinite(stepwise[1]).mean() > 0.97
    assert mean_delay[0] > 1.3 * retidp_delay[0]
    assert np.isinf(mean_delay[1])


@rivals
def test_alarm_streams_and_saved_state(rival):
    rng = np.random.default_rng(43)
    many = rival(1, 0.05, horizon=30)
    ones = [rival(1, 0.05, horizon=30) for _ in range(3)]
    for step in range(30):
        x, y = rng.binomial(100, [0.1, 0.3, 0.9 if step < 2 else 0.1]), rng.binomial(100, 0.1, 3)
        copy = rival(1, 0.05, horizon=30)
        copy.restore(many.to_json())
        results, again = many.update(x, y, 100), copy.update(x, y, 100)
        assert copy.to_json() == many.to_json()
        np.testing.assert_array_equal(results.statistic, again.statistic)
        for i, one in enumerate(ones):
            result = one.update(int(x[i]), int(y[i]), 100)
            assert result.statistic == pytest.approx(results.statistic[i])
            assert result.alarm == results.alarm[i]
    assert results.alarm.tolist() == [False, False, True]
    assert results.statistic[2] < results.threshold


@rivals
def test_refusals(rival):
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got None"):
        rival(1, 0.05, horizon=None)
    with pytest.raises(ValueError, match=r"floor must be in \[1e-100, inf\), got 0"):
        rival(1, 0.05, horizon=5, floor=0)
    monitor = rival(1, 0.05, horizon=5)
    monitor.update(3, 1, 10)
    before = monitor.to_json()
    with pytest.raises(ValueError, match="count_x must be at most n"):
        monitor.update(11, 1, 10)
    for state in ({"sum": [1.0, 2.0]}, {"sum": [math.inf]}, 3, {"other": [1.0]}):
        with pytest.raises(ValueError, match="one that is damaged"):
            monitor.restore(json.dumps({**json.loads(before), "state": state}))
    assert monitor.to_json() == before
