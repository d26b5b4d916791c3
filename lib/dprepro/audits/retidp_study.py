"""When monitors raise their alarm: many repetitions of one stream of counts, and what is read off them.

The measures of ReTiDP (arXiv 2509.20283, experiments): rate of alarms by each step, delay after the change, false
alarms before it.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dprepro.audits.monitor_state import Monitor
from dprepro.audits.retidp_scenarios import SCENARIOS
from dprepro.stats.bounds import clopper_pearson

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
NEVER = 0  # first_alarms of a repetition without one; steps count from 1


def first_alarms(monitor: Monitor, count_x: IntArray, count_y: IntArray, n: int) -> IntArray:
    """Return the step of the first alarm of each repetition, 0 if there is none.

    Parameters
    ----------
    monitor : Monitor
        A new one.
    count_x, count_y : integer array, shape (repetitions, steps)
    n : int
        Outputs a side and step.

    Returns
    -------
    integer array, shape (repetitions,)
    """
    first = np.full(len(count_x), NEVER)
    for step, (x, y) in enumerate(zip(count_x.T, count_y.T, strict=True), 1):
        alarm = monitor.update(x, y, n).alarm
        first[alarm & (first == NEVER)] = step
    return first


def rate(hits: int | np.integer, repetitions: int) -> tuple[float, float, float]:
    """Return a rate and its two-sided 95 % Clopper-Pearson limits."""
    low, high = clopper_pearson(hits, repetitions, alpha=0.05)
    return float(hits / repetitions), float(low), float(high)


def delays(first: IntArray, change: int) -> FloatArray:
    """Return the delays of the repetitions without an alarm before the change, sorted; infinity for no alarm."""
    valid = first[(first == NEVER) | (first >= change)]
    return np.sort(np.where(valid == NEVER, np.inf, valid - change))


def median_delay(first: IntArray, change: int) -> float:
    """Return the median of `delays`: infinity where half of them are, NaN where there is none."""
    valid = delays(first, change)
    return float(np.median(valid)) if len(valid) else float("nan")


def median_limits(first: IntArray, change: int) -> tuple[float, float]:
    """Return two-sided limits of the median delay that miss it with probability .05 at most.

    Notes
    -----
    Of m delays at least Bin(m, 1/2) lie at or below their median, so the k-th from below exceeds it with probability
    at most P(Bin(m, 1/2) < k), and the k-th from above falls below it as rarely. k is the largest for which that is
    below .025; without one (m below 6) the limits are 0 and infinity. Ties make the limits safer.
    """
    valid = delays(first, change)
    k = int(binom.ppf(0.025, len(valid), 0.5))  # the least with P(Bin <= k) of at least .025
    return (float(valid[k - 1]), float(valid[-k])) if k > 0 else (0.0, float("inf"))


def alarm_curve(first: IntArray, horizon: int) -> FloatArray:
    """Return the share of repetitions with an alarm by step 1, ..., horizon."""
    steps = np.bincount(first, minlength=horizon + 1)[1:]
    return np.cumsum(steps) / len(first)


def scenario_alarms(
    key: str,
    rng: np.random.Generator,
    *,
    repetitions: int,
    n: int,
    horizon: int,
    change: int,
    monitors: Mapping[str, Callable[[], Monitor]],
) -> dict[str, IntArray]:
    """Run one of the eight scenarios under several monitors on the same counts.

    Returns
    -------
    dict
        First alarms by monitor; under "count_x" and "count_y" the counts.
    """
    count_x, count_y = SCENARIOS[key].counts(repetitions, rng, n=n, horizon=horizon, change=change)
    alarms = {name: first_alarms(make(), count_x, count_y, n) for name, make in monitors.items()}
    return {**alarms, "count_x": count_x, "count_y": count_y}
