r"""How long monitors take: delays against n and T, at error rates made equal, and outputs until a decision.

"Monitoring Violations of Differential Privacy over Time" (ReTiDP, arXiv 2509.20283), theorem 2: the delay is

    O_P(T^((1/2 - beta)/(1 - beta)) n^(-1/(2 (1 - beta)))),   at beta = 1/4: T^(1/3) n^(-2/3).

Counts are drawn as binomials from the exact probabilities of the scenarios.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_state import IntArray, Monitor
from dprepro.audits.retidp_nulls import BETA, recalibrated_threshold
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import NEVER, delays, first_alarms, median_limits
from dprepro.base.check import one_of, sample
from dprepro.mechanisms.additive import LaplaceCount
from dprepro.stats.score_law import Rates

_MILD = replace(SCENARIOS["b"], before=LaplaceCount(1.1), after=LaplaceCount(0.95))
CHANGES: dict[str, tuple[Rates, Rates]] = {
    **{key: SCENARIOS[key].probabilities() for key in "abcdef"},
    "mild": _MILD.probabilities(),  # a true epsilon of .91, then of 1.05
}
RECALIBRATED = ("ordinary", "rare")  # nulls at which ReTiDP is given a true false-alarm rate of alpha
# A mechanism in use from step 1, with the pair and the event of its scenario; SVT 1 keeps the claim.
MECHANISMS = {"SVT 1": "h", "SVT 4": "d", "SVT 5": "e", "SVT 6": "f", "Laplace scale 1/2": "a"}


class Delay(NamedTuple):
    """Delays of many streams in steps: mean and its error, median and its 95 % limits, then numbers of streams.

    `early` raised an alarm before the change and are left out, `missed` none by the horizon, `runs` are all.
    """

    mean: float
    error: float
    median: float
    low: float
    high: float
    early: int
    missed: int
    runs: int


class PowerLaw(NamedTuple):
    """Fit of log y = constant + exponent log x; `error` and `misfit` as in `power_law`."""

    exponent: float
    error: float
    misfit: float


def power_law(x: ArrayLike, y: ArrayLike, relative_error: ArrayLike) -> PowerLaw:
    """Fit an exponent by weighted least squares of log y on log x.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        Positive, at least three points.
    relative_error : array_like, shape (n,)
        Standard errors of y over y.

    Returns
    -------
    PowerLaw
        `error` is the standard error of the exponent: that of the errors given, times sqrt(misfit) where the points
        scatter about the line by more than those. `misfit` is chi-square over its degrees of freedom.

    Raises
    ------
    ValueError
        For fewer than three points.
    """
    at, value = np.log(sample("x", x, minimum=3)), np.log(sample("y", y, minimum=3))
    weight = sample("relative_error", relative_error, minimum=3) ** -2
    centre = np.average(at, weights=weight)
    spread = float(np.sum(weight * (at - centre) ** 2))
    exponent = float(np.sum(weight * (at - centre) * value)) / spread
    residual = value - np.average(value, weights=weight) - exponent * (at - centre)
    misfit = float(np.sum(weight * residual**2)) / (len(at) - 2)
    return PowerLaw(exponent, (max(1.0, misfit) / spread) ** 0.5, misfit)


def leading_delay(drift: float, horizon: int, threshold: float, beta: float = BETA) -> float:
    """Steps after which the mean of ReTiDP's sum reaches its threshold.

    Parameters
    ----------
    drift : float
        Mean score of a step after the change, (a - e^epsilon b) / sigma.
    horizon : int
        T.
    threshold, beta : float
        Of the monitor.

    Notes
    -----
    L steps of drift d give L^(1 - beta) T^(beta - 1/2) d. Set equal to the threshold that is theorem 2 with its
    constant, as d grows with sqrt(n). The noise of the sum and the drift before the change are left out.
    """
    return float((threshold * horizon ** (0.5 - beta) / drift) ** (1 / (1 - beta)))


def counts(
    change: tuple[Rates, Rates], at: int, runs: int, n: int, horizon: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return counts whose rates change with step `at`, each of shape (runs, horizon)."""
    before, after = change
    late = np.arange(1, horizon + 1) >= at
    x, y = (rng.binomial(n, rate, (runs, horizon)) for rate in np.where(late[:, None], after, before).T)
    return x, y


def report(
    key: str,
    rng: np.random.Generator,
    *,
    runs: int,
    run_steps: int,
    horizon: int,
    n: int,
    alpha: float,
    null_runs: int,
    null_seed: int,
) -> dict[str, Any]:
    """Simulate one set of delays: an item of a saved result.

    Parameters
    ----------
    key : str
        "rate, mild, 2000, 400" (change, n, T; the change at T/2): `summary` of both monitors, and the
        threshold of ReTiDP, that of the limit;
        "scenario, a": a change at horizon/2, first alarms by monitor;
        "samples, SVT 4, 750" (`MECHANISMS`, n): in use from step 1, first alarms by monitor.
    rng : numpy.random.Generator
    runs : int
        Streams; for "rate" at most run_steps // T.
    run_steps : int
    horizon, n, alpha
        Steps, outputs a side and step where the key has none, level.
    null_runs, null_seed : int
        Streams and seed of the recalibrated thresholds, the same in every item.

    Returns
    -------
    dict
        First alarms are given as how many streams had theirs at no step, at step 1, ..., at the horizon; under
        "threshold, rare" the recalibrated threshold of the monitor "ReTiDP, rare" and its standard error.

    Raises
    ------
    ValueError
        For a key of another form.
    """
    kind, *what = key.split(", ")
    if one_of("key", kind, ("rate", "scenario", "samples")) == "rate":
        name, size, steps = what[0], int(what[1]), int(what[2])
        at = steps // 2
        x, y = counts(CHANGES[name], at, min(runs, run_steps // steps), size, steps, rng)
        retidp = ReTiDPMonitor(EPSILON, alpha, horizon=steps, beta=BETA, threshold="limit")
        return {
            "ReTiDP": summary(first_alarms(retidp, x, y, size), at, steps),
            "betting": summary(first_alarms(BettingMonitor(EPSILON, alpha), x, y, size), at, steps),
            "threshold": retidp.threshold,
        }
    if kind == "scenario":
        size, at, change = n, horizon // 2, CHANGES[what[0]]
    else:
        after = SCENARIOS[MECHANISMS[what[0]]].probabilities()[1]
        size, at, change = int(what[1]), 1, (after, after)
    x, y = counts(change, at, runs, size, horizon, rng)
    thresholds = {
        event: recalibrated_threshold(
            event, np.random.default_rng(null_seed), runs=null_runs, n=size, horizon=horizon, alpha=alpha
        )
        for event in RECALIBRATED
    }
    monitors: dict[str, Monitor] = {
        "ReTiDP": ReTiDPMonitor(EPSILON, alpha, horizon=horizon, beta=BETA),
        **{
            f"ReTiDP, {event}": ReTiDPMonitor(EPSILON, alpha, horizon=horizon, beta=BETA, threshold=threshold)
            for event, (threshold, _) in thresholds.items()
        },
        "betting": BettingMonitor(EPSILON, alpha, horizon=horizon),
    }
    found: dict[str, Any] = {f"threshold, {event}": pair for event, pair in thresholds.items()}
    for name, monitor in monitors.items():
        found[name] = np.bincount(first_alarms(monitor, x, y, size), minlength=horizon + 1)
    return found


def summary(first: IntArray, change: int, horizon: int) -> Delay:
    """Summarise first alarms; a stream without one counts with the step after the horizon.

    Raises
    ------
    ValueError
        With fewer than two streams that raised no alarm before the change.
    """
    valid = np.minimum(delays(first, change), horizon + 1 - change)
    if len(valid) < 2:
        raise ValueError(
            f"first must have two streams without an alarm before step {change}, got {len(valid)}"
        )
    low, high = (min(limit, horizon + 1.0 - change) for limit in median_limits(first, change))
    return Delay(
        mean=float(valid.mean()),
        error=float(valid.std(ddof=1) / len(valid) ** 0.5),
        median=float(np.median(valid)),
        low=low,
        high=high,
        early=len(first) - len(valid),
        missed=int(np.count_nonzero(first == NEVER)),
        runs=len(first),
    )
