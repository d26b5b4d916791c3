"""Stated target of the monitors: a step costs at most a millisecond, however many came before it."""

import time

import numpy as np
import pytest

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor

pytestmark = pytest.mark.benchmark

STEPS = 10_000


@pytest.mark.parametrize(
    "make",
    [lambda: ReTiDPMonitor(1, 0.05, horizon=STEPS + 50, threshold=3.0), lambda: BettingMonitor(1, 0.05)],
    ids=["retidp", "betting"],
)
def test_the_ten_thousandth_step_costs_at_most_a_millisecond(make):
    rng = np.random.default_rng(1)
    x, y = rng.binomial(750, [[0.18394], [0.06767]], (2, STEPS + 50)).tolist()
    monitor = make()
    seconds = []
    for step in range(STEPS + 50):
        start = time.perf_counter()
        monitor.update(x[step], y[step], 750)
        seconds.append(time.perf_counter() - start)
    best = min(seconds[STEPS - 1 :])  # so that a busy moment does not count
    print(
        f"\n{type(monitor).__name__}: {1e6 * best:.0f} us, the first steps {1e6 * min(seconds[:50]):.0f} us"
    )
    assert best <= 1e-3
