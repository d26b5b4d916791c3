"""Many repetitions of a monitored stream: first alarms against a plain loop, and what is read off them."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.retidp_scenarios import SCENARIOS
from dprepro.audits.retidp_study import (
    NEVER,
    alarm_curve,
    delays,
    first_alarms,
    median_delay,
    median_limits,
    rate,
    scenario_alarms,
)

HORIZON, N = 12, 40
MAKERS = {
    "retidp": lambda: ReTiDPMonitor(1.0, 0.05, horizon=HORIZON, threshold=2.6),
    "betting": lambda: BettingMonitor(1.0, 0.05),
}


def loop_over_streams(make, count_x, count_y):
    """The first alarm of every repetition with a monitor of its own, fed single numbers."""
    first = []
    for xs, ys in zip(count_x, count_y, strict=True):
        monitor, found = make(), NEVER
        for step, (x, y) in enumerate(zip(xs, ys, strict=True), 1):
            if monitor.update(int(x), int(y), N).alarm and found == NEVER:
                found = step
        first.append(found)
    return np.array(first)


@pytest.mark.parametrize("name", list(MAKERS))
def test_first_alarms_against_single_streams(name):
    rng = np.random.default_rng(5)
    b = np.array([0.2] * 5 + [0.12] * 7)  # the claim, .5 <= e b, is kept by five steps and then broken
    count_x, count_y = rng.binomial(N, 0.5, (25, HORIZON)), rng.binomial(N, b, (25, HORIZON))
    found = first_alarms(MAKERS[name](), count_x, count_y, N)
    np.testing.assert_array_equal(found, loop_over_streams(MAKERS[name], count_x, count_y))
    assert len(set(found)) > 3  # alarms at different steps
    assert NEVER in found


def test_an_alarm_at_every_step_counts_at_the_first():
    full, none = np.full((2, HORIZON), N), np.zeros((2, HORIZON), dtype=int)
    assert first_alarms(MAKERS["retidp"](), full, none, N).tolist() == [1, 1]
    assert first_alarms(MAKERS["retidp"](), none, full, N).tolist() == [NEVER, NEVER]


@pytest.mark.parametrize(("hits", "repetitions"), [(0, 2000), (7, 2000), (2000, 2000), (1, 1)])
def test_rate_and_its_limits(hits, repetitions):
    interval = stats.binomtest(hits, repetitions).proportion_ci(0.95, method="exact")
    assert rate(hits, repetitions) == pytest.approx((hits / repetitions, interval.low, interval.high))


def test_rate_without_a_hit_still_has_an_upper_limit():
    assert rate(0, 2000)[2] == pytest.approx(0.001842739793)


def test_delays_leave_out_early_alarms_and_keep_those_that_never_come():
    first = np.array([NEVER, 3, 49, 50, 52, NEVER, 57])
    assert delays(first, 50).tolist() == [0, 2, 7, np.inf, np.inf]
    assert median_delay(first, 50) == 7
    assert delays(first, 1).tolist() == [2, 48, 49, 51, 56, np.inf, np.inf]


@pytest.mark.parametrize(
    ("first", "median"),
    [([50, 51], 0.5), ([50, NEVER], np.inf), ([NEVER], np.inf), ([60], 10), ([50, 50, NEVER], 0)],
)
def test_median_delay(first, median):
    assert median_delay(np.array(first), 50) == median


def test_median_delay_of_nothing_is_not_a_number():
    assert np.isnan(median_delay(np.array([3, 4]), 50))
    assert median_limits(np.array([3, 4]), 50) == (0, np.inf)


@pytest.mark.parametrize("m", [1, 5, 6, 9, 40, 101])
def test_median_limits_are_the_narrowest_that_hold(m):
    # Delays 0, 1, ..., m - 1: the limits are order statistics, so their ranks can be read off them.
    low, high = median_limits(50 + np.arange(m), 50)
    tails = [sum(stats.binom.pmf(range(k), m, 0.5)) for k in range(m + 1)]  # P(Bin < k)
    k = max((k for k, tail in enumerate(tails) if k > 0 and tail < 0.025), default=0)
    assert (low, high) == ((k - 1, m - k) if k else (0, np.inf))


def test_median_limits_hold_as_often_as_they_say():
    # Geometric delays with many ties, a fifth of them never: the median is known.
    rng = np.random.default_rng(2)
    runs, m = 2000, 51
    found = rng.geometric(0.15, (runs, m)) + 49
    found[rng.random((runs, m)) < 0.2] = NEVER
    truth = stats.geom.ppf(0.5 / 0.8, 0.15) - 1
    limits = np.array([median_limits(first, 50) for first in found])
    misses = int(((limits[:, 0] > truth) | (limits[:, 1] < truth)).sum())
    assert misses <= stats.binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(limits[:, 1] - limits[:, 0]) < 8


def test_alarm_curve_is_the_share_with_an_alarm_so_far():
    first = np.array([NEVER, 2, 2, 5, NEVER, 1, 3, 5])
    naive = [np.mean([0 < f <= step for f in first]) for step in range(1, 6)]
    assert alarm_curve(first, 5).tolist() == naive


def test_every_monitor_sees_the_same_counts():
    sizes = {"repetitions": 6, "n": N, "horizon": HORIZON, "change": 7}
    found = scenario_alarms("a", np.random.default_rng(1), monitors=MAKERS, **sizes)
    count_x, count_y = SCENARIOS["a"].counts(rng=np.random.default_rng(1), **sizes)
    np.testing.assert_array_equal(found["count_x"], count_x)
    np.testing.assert_array_equal(found["count_y"], count_y)
    for name, make in MAKERS.items():
        np.testing.assert_array_equal(found[name], loop_over_streams(make, count_x, count_y))
