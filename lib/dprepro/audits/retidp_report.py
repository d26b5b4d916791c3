r"""ReTiDP's eight scenarios (arXiv 2509.20283, main experiment) often enough to judge a rate of alarms, and exactly.

`report` runs a scenario with the real mechanisms under every monitor, on the same counts, and keeps when each raised
its first alarm. `signal` says from the exact probabilities alone how fast evidence of a violation grows, and
`informed_alarms` when a bet with that knowledge raises an alarm: what a monitor needs beyond it is the price of not
knowing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_rivals import HistoryMeanMonitor, StepwiseMonitor
from dprepro.audits.monitor_state import Monitor
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import NEVER, IntArray, scenario_alarms
from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.stats.two_rates import anchored_bet, log_e_value

COMPARED = "ReTiDP"  # against each of the other monitors
INFORMED = "informed bet"
_LEAST = 1e-12  # of a rate and of its complement: at 0 and 1 a bet has no end


def monitors(alpha: float, horizon: int, beta: float) -> dict[str, Callable[[], Monitor]]:
    """Return a maker of each monitor, all of one level and for the same number of steps.

    "ReTiDP" takes the threshold of the horizon's own grid, "ReTiDP, limit" that of the continuous limit.
    """
    return {
        COMPARED: lambda: ReTiDPMonitor(EPSILON, alpha, horizon=horizon, beta=beta),
        "ReTiDP, limit": lambda: ReTiDPMonitor(EPSILON, alpha, horizon=horizon, beta=beta, threshold="limit"),
        "betting": lambda: BettingMonitor(EPSILON, alpha, horizon=horizon),
        "stepwise": lambda: StepwiseMonitor(EPSILON, alpha, horizon=horizon),
        "history mean": lambda: HistoryMeanMonitor(EPSILON, alpha, horizon=horizon),
    }


def report(
    key: str,
    rng: np.random.Generator,
    *,
    repetitions: int,
    n: int,
    horizon: int,
    change: int,
    alpha: float,
    beta: float,
) -> dict[str, Any]:
    """Run a scenario under all monitors: an item of a saved result.

    Parameters
    ----------
    key : str
        Letter of a scenario and a part of its repetitions, "d, 2". With "unchanged", as in "b unchanged, 1", the
        mechanism before the change runs to the end. "thresholds" asks for those of the monitors instead.
    rng : numpy.random.Generator
    repetitions, n, horizon, change
        As in `Scenario.counts`.
    alpha, beta : float
        Level of every monitor, and the weight of ReTiDP's windows.

    Returns
    -------
    dict
        By monitor, and by `INFORMED`, the number of repetitions whose first alarm is at step 0 (none), 1, ...,
        horizon. "before ReTiDP: MONITOR" counts as `order` does. "outputs before" and "outputs after" are those in
        the event, on x and on x', over all steps and repetitions. Without a change there are alarms alone. The
        item "thresholds": a number for each monitor.

    Raises
    ------
    ValueError
        For a key that names no scenario, and sizes outside their domain.
    """
    makers = monitors(alpha, horizon, beta)
    if key == "thresholds":
        return {monitor: make().threshold for monitor, make in makers.items()}
    name, _, _ = key.partition(", ")
    letter, _, rest = name.partition(" ")
    scenario = SCENARIOS[one_of("scenario of the key", letter, tuple(SCENARIOS))]
    unchanged = one_of("rest of the key", rest, ("", "unchanged")) == "unchanged"
    found = scenario_alarms(
        letter,
        rng,
        repetitions=repetitions,
        n=n,
        horizon=horizon,
        change=horizon + 1 if unchanged else change,
        monitors=makers,
    )
    sides = found.pop("count_x"), found.pop("count_y")
    parts = {}
    if not unchanged:
        parts = {
            f"before {COMPARED}: {other}": order(first, found[COMPARED], change)
            for other, first in found.items()
            if other != COMPARED
        }
        x, y = (side[:, change - 1 :] for side in sides)
        parts["outputs before"] = [int(side[:, : change - 1].sum()) for side in sides]
        parts["outputs after"] = [int(x.sum()), int(y.sum())]
        first = informed_alarms(scenario.probabilities()[1], x, y, n, alpha)
        found[INFORMED] = np.where(first == NEVER, NEVER, first + change - 1)
    alarms = {other: np.bincount(first, minlength=horizon + 1).tolist() for other, first in found.items()}
    return {**alarms, **parts}


def merged(saved: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, IntArray]]:
    """Add up the parts of each scenario, "d, 1" and "d, 2" to "d"; "thresholds" has no parts and is left out."""
    names = dict.fromkeys(key.partition(", ")[0] for key in saved if key != "thresholds")
    parts = {
        name: [found for key, found in saved.items() if key.partition(", ")[0] == name] for name in names
    }
    return {
        name: {what: np.sum([part[what] for part in found], axis=0) for what in found[0]}
        for name, found in parts.items()
    }


def first_steps(histogram: IntArray) -> IntArray:
    """Return the first alarms, sorted, of a histogram over the steps 0 (none), 1, ..., horizon."""
    return np.repeat(np.arange(len(histogram)), histogram)


def order(first: IntArray, other: IntArray, change: int) -> list[int]:
    """Return how often `first` comes before `other`, with it (or neither ever comes), and after it.

    Repetitions in which either alarm comes before the change are left out.
    """
    never = np.iinfo(np.int64).max
    ours, theirs = (np.where(steps == NEVER, never, steps) for steps in (first, other))
    valid = (ours >= change) & (theirs >= change)
    return [int(np.sum(valid & where)) for where in (ours < theirs, ours == theirs, ours > theirs)]


@dataclass(frozen=True)
class Signal:
    """Evidence that one step of n outputs a side holds, if the event has the rates a and b.

    Attributes
    ----------
    violation : float
        p = a - e^epsilon b.
    drift : float
        p over its standard error, or over 1/n where that is larger.
    growth : float
        Mean of the log payoff of the best bet, in nats: n times the divergence of (a, b) from the nearest pair of
        rates that keeps the claim. 0 without a violation, near drift^2/2 for a slight one.
    stake, anchor : float
        That bet, for `log_e_value`.
    """

    violation: float
    drift: float
    growth: float
    stake: float
    anchor: float


def signal(rates: tuple[float, float], n: int, epsilon: float = EPSILON) -> Signal:
    """Return what a step holds.

    Parameters
    ----------
    rates : (float, float)
        P(A(x) in E) and P(A(x') in E).
    n : int
        Outputs a side, at least 1.
    epsilon : float
        The claim.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    a, b = in_interval("rates", rates, 0, 1)
    n = int(positive_count("n", n))
    ratio = np.exp(epsilon)
    error = np.sqrt((a * (1 - a) + ratio**2 * b * (1 - b)) / n)
    inside = np.clip([a, b], _LEAST, 1 - _LEAST)
    stake, anchor = anchored_bet(inside[0], inside[1], epsilon)
    growth = log_e_value(n * inside[0], n * inside[1], n, stake, anchor, epsilon)
    violation = a - ratio * b
    return Signal(*map(float, (violation, violation / max(error, 1 / n), growth, stake, anchor)))


def informed_alarms(
    rates: tuple[float, float], count_x: IntArray, count_y: IntArray, n: int, alpha: float
) -> IntArray:
    """Return the first alarms of a bet that knows the rates and starts with them.

    Parameters
    ----------
    rates : (float, float)
        As in `signal`.
    count_x, count_y : integer array, shape (repetitions, steps)
        From the first step with these rates.
    n : int
        Outputs a side and step.
    alpha : float
        Level, by Ville's inequality as for `BettingMonitor`.

    Returns
    -------
    integer array, shape (repetitions,)
        Steps from 1, 0 for none.
    """
    best = signal(rates, n)
    pay = log_e_value(count_x, count_y, n, best.stake, best.anchor, EPSILON)
    reached = np.cumsum(pay, axis=1) >= np.log(1 / alpha)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, NEVER)
