"""Outputs and time until a monitor decides, with the real mechanisms, beside what static samplers publish.

A step takes 750 outputs a side; a decision takes steps * 2 * 750.
"""

import time

import numpy as np
import pytest
from scipy.stats import binom

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.retidp_delays import MECHANISMS
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_static import one_shot_size
from dprepro.kit import claims

pytestmark = pytest.mark.benchmark

N, BUDGET, ALPHA, RUNS = 750, 100, 0.05, 20
MONITORS = {
    "ReTiDP": lambda: ReTiDPMonitor(EPSILON, ALPHA, horizon=BUDGET),
    "betting": lambda: BettingMonitor(EPSILON, ALPHA),
}
# The most outputs that the median decision may take: half a million is the least published.
MOST = {"SVT 4": 45_000, "SVT 5": 1_500, "SVT 6": 45_000, "Laplace scale 1/2": 3_000}


def decide(scenario, monitor, rng):
    """Return the steps until an alarm (the budget without one), whether there was one, and the seconds."""
    start = time.perf_counter()
    for step in range(1, BUDGET + 1):
        sides = (scenario.after(x, N, rng) for x in (scenario.x, scenario.x_neighbour))
        counts = (int(np.count_nonzero(scenario.event(outputs))) for outputs in sides)
        if monitor.update(*counts, N).alarm:
            return step, True, time.perf_counter() - start
    return BUDGET, False, time.perf_counter() - start


def published():
    rows = claims.load_reported("retidp", "text")
    rows = rows[rows["row"] == "samples"]
    return ", ".join(f"{row['column']} {row['value']:,.0f}" for _, row in rows.iterrows())


@pytest.mark.parametrize("name", MONITORS)
def test_outputs_until_a_decision(name):
    MONITORS[name]()  # its threshold may have to be simulated first, once and for all
    print(f"\n{name}, {RUNS} runs with at most {BUDGET} steps of 2 * {N} outputs; printed: {published()}")
    for mechanism, key in MECHANISMS.items():
        scenario, rng = SCENARIOS[key], np.random.default_rng([20250922, ord(key)])
        steps, alarms, seconds = zip(
            *(decide(scenario, MONITORS[name](), rng) for _ in range(RUNS)), strict=True
        )
        outputs, found = 2 * N * np.median(steps), sum(alarms)
        text = f"{mechanism}: alarm in {found} of {RUNS}, median {outputs:,.0f} outputs, {np.median(seconds):.3f} s"
        if mechanism in MOST:
            fixed = 2 * one_shot_size(scenario.probabilities()[1], EPSILON, ALPHA, 0.95)
            print(f"  {text}; one exact test of the same event at equal error rates {fixed:,}")
            assert found == RUNS
            assert outputs <= MOST[mechanism]
        else:
            print(f"  {text}: no violation within the budget")
            assert binom.sf(found - 1, RUNS, ALPHA) > 1e-3
        assert np.median(seconds) < 2
