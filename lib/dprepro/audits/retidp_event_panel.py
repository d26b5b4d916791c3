"""Four events on the outputs of one noisy count, watched together: the panel of ReTiDP (arXiv 2509.20283).

The summary of the paper names the two events (-inf, .5] and (-inf, 0] and says that the former finds next to nothing
and that four events share alpha. It names neither the change nor the other two events. Under scenario (a), Laplace
noise of scale .5 for 1, both events have the same violation; so milder changes stand beside it here, and the tails
(-inf, -.5] and (-inf, -1] complete the four.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_panel import MonitorPanel
from dprepro.audits.monitor_state import Monitor
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import NEVER
from dprepro.base.check import one_of
from dprepro.mechanisms.additive import GaussianCount, LaplaceCount
from dprepro.mechanisms.events import Interval
from dprepro.stats import brownian

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Counts = Mapping[str, tuple[IntArray, IntArray]]

BEFORE = LaplaceCount(1.0)
AFTER = {
    "Laplace 0.9": LaplaceCount(0.9),
    "Laplace 0.8": LaplaceCount(0.8),
    "Laplace 0.5": LaplaceCount(0.5),
    "Gaussian": GaussianCount(2**0.5),
    "no change": LaplaceCount(1.0),
}
EVENTS = {str(event): event for event in (Interval(high=high) for high in (0.5, 0.0, -0.5, -1.0))}
DATABASES = SCENARIOS["a"].x, SCENARIOS["a"].x_neighbour
BETA = 0.25

_RUNS = 1 << 18  # outputs at a time


def panel_counts(
    mechanism: Any, repetitions: int, steps: int, n: int, rng: np.random.Generator
) -> dict[str, tuple[IntArray, IntArray]]:
    """Run the mechanism and count all events on the same outputs.

    Returns
    -------
    dict
        For each event the counts on x and on x', each of shape (repetitions, steps), of n outputs.
    """
    groups, block = repetitions * steps, max(1, _RUNS // n)
    found = np.empty((2, len(EVENTS), groups), dtype=np.int64)
    for side, x in enumerate(DATABASES):
        for start in range(0, groups, block):
            size = min(block, groups - start)
            outputs = mechanism(x, size * n, rng)
            for place, event in enumerate(EVENTS.values()):
                inside = event(outputs).reshape(size, n)
                found[side, place, start : start + size] = np.count_nonzero(inside, axis=1)
    on_x, on_neighbour = found.reshape(2, len(EVENTS), repetitions, steps)
    return {name: (on_x[place], on_neighbour[place]) for place, name in enumerate(EVENTS)}


def statistics(
    make: Callable[[float], Monitor], alpha: float, counts: Counts, n: int
) -> tuple[FloatArray, FloatArray]:
    """Return what a panel computes at each step.

    Returns
    -------
    whole : array, shape (steps, repetitions)
        The panel's statistic.
    single : array, shape (steps, events, repetitions)
        That of each event.
    """
    panel = MonitorPanel(make, counts, alpha)
    steps = next(iter(counts.values()))[0].shape[1]
    whole, single = [], []
    for step in range(steps):
        found = panel.update({name: (x[:, step], y[:, step]) for name, (x, y) in counts.items()}, n)
        whole.append(found.statistic)
        single.append([found.statistics[name] for name in counts])
    return np.array(whole), np.array(single)


def first_reached(statistic: FloatArray, threshold: float) -> IntArray:
    """Return the first step, from 1, at which a statistic of shape (steps, ...) reaches a threshold, 0 if none."""
    reached = statistic >= threshold
    return np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, NEVER)


def panel_alarms(
    name: str,
    rng: np.random.Generator,
    *,
    repetitions: int,
    betting: int,
    n: int,
    horizon: int,
    change: int,
    alpha: float,
) -> dict[str, Any]:
    """First alarms of a panel, and of each of its events alone, after one of the changes.

    Parameters
    ----------
    name : str
        Of `AFTER`.
    rng : numpy.random.Generator
    repetitions, betting : int
        For ReTiDP, and the first of them for bets.
    n, horizon, change, alpha
        As in `retidp_ablation.Study`.

    Returns
    -------
    dict
        Histograms of first alarms. By recipe (inferred, as_stated, betting): "inferred, panel"; for each event
        "inferred, (-inf, 0], share" with its share alpha/4 and "inferred, (-inf, 0], alone" with all of alpha.
        "inferred, panel - (-inf, 0]" is the `paired_difference` of the panel and the event alone.
    """
    after = AFTER[one_of("name", name, tuple(AFTER))]
    early = panel_counts(BEFORE, repetitions, change - 1, n, rng)
    late = panel_counts(after, repetitions, horizon - change + 1, n, rng)
    counts = {
        event: (
            np.concatenate([early[event][0], late[event][0]], axis=1),
            np.concatenate([early[event][1], late[event][1]], axis=1),
        )
        for event in EVENTS
    }
    some = {event: (x[:betting], y[:betting]) for event, (x, y) in counts.items()}
    share = alpha / len(EVENTS)
    retidp = statistics(lambda a: ReTiDPMonitor(EPSILON, a, horizon=horizon), alpha, counts, n)
    bets = statistics(lambda a: BettingMonitor(EPSILON, a, horizon=horizon), alpha, some, n)
    finite = [float(brownian.stored_quantile(level, BETA, horizon)[0]) for level in (alpha, share)]
    limit = [float(brownian.stored_limit(level, BETA)[0]) for level in (alpha, share)]
    found: dict[str, Any] = {}
    for recipe, (whole, single), threshold, of_share, of_alpha in (
        ("inferred", retidp, finite[1], finite[1], finite[0]),
        ("as_stated", retidp, limit[1], limit[1], limit[0]),
        ("betting", bets, -np.log(alpha), -np.log(share), -np.log(alpha)),
    ):
        panel = first_reached(whole, threshold)
        found[f"{recipe}, panel"] = np.bincount(panel, minlength=horizon + 1)
        for event, statistic in zip(EVENTS, single.transpose(1, 0, 2), strict=True):
            shared, alone = first_reached(statistic, of_share), first_reached(statistic, of_alpha)
            found[f"{recipe}, {event}, share"] = np.bincount(shared, minlength=horizon + 1)
            found[f"{recipe}, {event}, alone"] = np.bincount(alone, minlength=horizon + 1)
            found[f"{recipe}, panel - {event}"] = paired_difference(panel, alone, change, horizon)
    return found


def paired_difference(panel: IntArray, alone: IntArray, change: int, horizon: int) -> list[int]:
    """Compare two monitors on the same counts.

    Parameters
    ----------
    panel, alone : integer array, shape (repetitions,)
        First alarms, 0 for none.
    change, horizon : int

    Returns
    -------
    list of int
        Number of repetitions in which neither raised a false alarm, sum and sum of squares of the panel's delay less
        the other one, no alarm counting as one at the step after the horizon. Parts of a study add up.
    """
    valid = ((panel == NEVER) | (panel >= change)) & ((alone == NEVER) | (alone >= change))
    ends = [np.where(first[valid] == NEVER, horizon + 1, first[valid]) for first in (panel, alone)]
    difference = ends[0] - ends[1]
    return [len(difference), int(difference.sum()), int((difference**2).sum())]
