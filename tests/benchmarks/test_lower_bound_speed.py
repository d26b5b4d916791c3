"""Stated targets of the statistics, as ratios to what numpy needs on the same machine."""

import time

import numpy as np
import pytest
from scipy import special

from dprepro.stats import threshold_search
from dprepro.stats.betting import betting_interval
from dprepro.stats.gdp import mu_to_epsilon
from dprepro.stats.lower_bound import best_rates, epsilon_lower_bound

pytestmark = pytest.mark.benchmark

TRIALS = 400_000


def seconds(*calls, repeats=7):
    """Best time of each call, taken in turns so that a busy moment hits all of them."""
    best = np.full(len(calls), np.inf)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def forget_tables():
    threshold_search._ceiling.cache_clear()
    threshold_search._knot_limits.cache_clear()


@pytest.mark.parametrize("conversion", ["standard", "gdp", "kairouz"])
def test_best_of_all_thresholds_costs_at_most_twice_drawing_and_sorting(conversion):
    rng = np.random.default_rng(1)
    inside, outside = rng.standard_normal(TRIALS) + 1.666, rng.standard_normal(TRIALS)

    def draw_and_sort():
        for _ in range(2):
            np.sort(rng.standard_normal(TRIALS))

    def warm():
        epsilon_lower_bound(inside, outside, 1e-5, 0.05, "same", conversion)

    def cold():
        forget_tables()
        warm()

    def limits_of_a_hundredth():
        counts = np.arange(1, TRIALS + 1, 100)
        special.betaincinv(counts, TRIALS - counts + 1, 0.025)
        special.betainccinv(counts, TRIALS - counts + 1, 0.025)

    base, warm_time, cold_time, hundredth = seconds(draw_and_sort, warm, cold, limits_of_a_hundredth)
    print(
        f"\n{conversion}: drawing and sorting {1e3 * base:.1f} ms; bound {warm_time / base:.2f} of it, "
        f"with empty tables {cold_time / base:.2f}, by the limits of every rate {100 * hundredth / base:.0f}"
    )
    assert warm_time <= 2 * base
    assert cold_time <= 2 * base


def test_small_calls_stay_under_a_millisecond():
    rng = np.random.default_rng(2)
    inside, outside = rng.standard_normal(2000) + 1.666, rng.standard_normal(2000)
    grid, every, bound = seconds(
        lambda: best_rates(inside, outside, 0.05, conversion="gdp", grid=2000),
        lambda: best_rates(inside, outside, 0.05, conversion="gdp"),
        lambda: epsilon_lower_bound(inside, outside, 1e-5, 0.05, "same", "gdp"),
        repeats=100,
    )
    print(f"\nbest_rates: grid {1e3 * grid:.2f} ms, all {1e3 * every:.2f} ms; bound {1e3 * bound:.2f} ms")
    assert max(grid, every, bound) < 2e-3


def test_arrays_of_conversions_and_bets():
    rng = np.random.default_rng(3)
    mu, delta = rng.uniform(0.01, 20, 100_000), 10 ** rng.uniform(-12, -1, 100_000)
    values = rng.random(2000)
    convert, bet = seconds(
        lambda: mu_to_epsilon(mu, delta), lambda: betting_interval(values, 0.05), repeats=3
    )
    print(f"\n100,000 conversions {convert:.2f} s; betting on 2,000 values {1e3 * bet:.1f} ms")
    assert convert < 1
    assert bet < 0.05
