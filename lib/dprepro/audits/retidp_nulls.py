r"""How often monitors raise an alarm on a mechanism that just keeps its claim, over the whole horizon.

"Monitoring Violations of Differential Privacy over Time" (ReTiDP, arXiv 2509.20283), theorem 1: false alarms stay
below alpha in the limit of many outputs a step. The hardest mechanism that keeps a claim has a = e^epsilon b + delta
at every step, and what it does at a given n depends on how rare the event is. The nulls here are the Laplace
mechanism at its own epsilon and half-lines of three sizes; with delta > 0 the rate b is kept and a raised. An event
is counted on n independent outputs, so counts are drawn as binomials from the exact probabilities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_rivals import HistoryMeanMonitor, StepwiseMonitor
from dprepro.audits.monitor_state import FloatArray, IntArray, Monitor
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import first_alarms
from dprepro.base.check import in_interval, one_of
from dprepro.mechanisms.events import Interval
from dprepro.stats.brownian import increment_supremum_limit, increment_supremum_quantile
from dprepro.stats.score_law import Moments, Rates, score_moments

EVENTS = {"ordinary": Interval(high=-1.0), "rare": Interval(high=-2.945), "very rare": Interval(high=-5.0)}
BETA = 0.25
QUANTILE_ALPHAS = (0.05, 0.0125)  # of the items "quantile"; the second is that of a panel of four events

_LAPLACE = SCENARIOS["b"]  # scale 1 before its change: epsilon is exactly 1


class CentredReTiDP(ReTiDPMonitor):
    """ReTiDP whose scores are given mean 0 and variance 1 exactly: what is left is their skewness and their tail."""

    moments: Moments

    def _scores(self, x: IntArray, y: IntArray, n: IntArray) -> FloatArray:
        return (super()._scores(x, y, n) - self.moments.mean) / self.moments.sd


def boundary(event: str, delta: float = 0.0) -> Rates:
    """Return P(A(x) in E) = e^epsilon P(A(x') in E) + delta and P(A(x') in E) for one of `EVENTS`, epsilon = 1.

    Raises
    ------
    ValueError
        Another event, or delta outside [0, 1).
    """
    watched = EVENTS[one_of("event", event, tuple(EVENTS))]
    b = float(_LAPLACE.before.probability(_LAPLACE.x_neighbour, watched))
    return float(np.exp(EPSILON) * b + in_interval("delta", delta, 0, 1, closed="left")), b


def draw(rates: Rates, runs: int, steps: int, n: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return counts of an event with constant rates on n outputs a side, each of shape (runs, steps)."""
    return rng.binomial(n, rates[0], (runs, steps)), rng.binomial(n, rates[1], (runs, steps))


def peaks(monitor: Monitor, count_x: IntArray, count_y: IntArray, n: int) -> FloatArray:
    """Return the largest statistic of each stream over all steps: an alarm is raised where it reaches the threshold.

    Parameters
    ----------
    monitor : Monitor
        A new one.
    count_x, count_y : integer array, shape (streams, steps)
    n : int
        Outputs a side and step.
    """
    largest = np.full(len(count_x), -np.inf)
    for x, y in zip(count_x.T, count_y.T, strict=True):
        np.maximum(largest, monitor.update(x, y, n).statistic, out=largest)
    return largest


def recalibrated_threshold(
    event: str, rng: np.random.Generator, *, runs: int, n: int, horizon: int, alpha: float
) -> tuple[float, float]:
    """Return the threshold with which ReTiDP has a false-alarm rate of alpha at a boundary null, and its error.

    Parameters
    ----------
    event : str
        One of `EVENTS`.
    rng : numpy.random.Generator
    runs : int
        Simulated streams.
    n, horizon : int
        Outputs a side and step, and steps.
    alpha : float
        In (0, 1).

    Returns
    -------
    threshold, standard_error : float
        The order statistic of `peaks` that a further stream reaches with a probability of at most alpha; the error
        from the order statistics two standard deviations of its rank away.
    """
    counts = draw(boundary(event), runs, horizon, n, rng)
    found = np.sort(
        peaks(ReTiDPMonitor(EPSILON, alpha, horizon=horizon, beta=BETA, threshold=1.0), *counts, n)
    )
    rank = runs - int(alpha * (runs + 1))
    reach = 2 * (runs * alpha * (1 - alpha)) ** 0.5
    low, high = found[max(0, round(rank - reach))], found[min(runs - 1, round(rank + reach))]
    return float(found[rank]), float(high - low) / 4


def report(key: str, rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    """Simulate one cell: an item of a saved result.

    Parameters
    ----------
    key : str
        "cell, ordinary, 750" or "cell, ordinary, 750, delta" (event, outputs a step): streams with an alarm, by
        monitor; "horizon, rare, 400" (event, T): the same for ReTiDP at T steps; "open end, rare, part 1": first
        alarms of betting over ten horizons in a quarter of the streams, 0 for none; "threshold, rare":
        `recalibrated_threshold`; "quantile, 400" or "quantile, limit": of the supremum on a grid and in
        continuous time.
    rng : numpy.random.Generator
    **sizes
        The fields of `Study`.

    Raises
    ------
    ValueError
        For a key of another form.
    """
    kind, *what = key.split(", ")
    return _KINDS[one_of("key", kind, tuple(_KINDS))](rng, Study(**sizes), *what)


@dataclass(frozen=True)
class Study:
    """Sizes of all items.

    Attributes
    ----------
    runs : int
        Streams of a cell.
    many : int
        Streams of "threshold", paths of "quantile".
    horizon, n : int
        Steps, and outputs a side and step, where the key has none.
    delta : float
        Of the claim, where the key says so.
    alpha : float
    """

    runs: int
    many: int
    horizon: int
    n: int
    delta: float
    alpha: float

    def retidp(self, **options: Any) -> ReTiDPMonitor:
        """Return a new monitor of the paper."""
        return ReTiDPMonitor(EPSILON, self.alpha, **{"horizon": self.horizon, "beta": BETA, **options})


def _cell(rng: np.random.Generator, study: Study, event: str, size: str, delta: str = "") -> dict[str, Any]:
    claimed = study.delta if one_of("key", delta, ("", "delta")) else 0.0
    n, rates = int(size), boundary(event, claimed)
    counts = draw(rates, study.runs, study.horizon, n, rng)
    common: dict[str, Any] = {"horizon": study.horizon, "delta": claimed}
    centred = CentredReTiDP(EPSILON, study.alpha, beta=BETA, **common)
    centred.moments = score_moments(rates, n, EPSILON, claimed)
    monitors: dict[str, Monitor] = {
        "ReTiDP": study.retidp(delta=claimed),
        "ReTiDP, centred": centred,
        "betting": BettingMonitor(EPSILON, study.alpha, **common),
        "stepwise": StepwiseMonitor(EPSILON, study.alpha, **common),
        "history mean": HistoryMeanMonitor(EPSILON, study.alpha, **common),
    }
    found = {name: peaks(monitor, *counts, n) for name, monitor in monitors.items()}
    alarms = {name: _alarms(found[name], monitor.threshold) for name, monitor in monitors.items()}
    limit = study.retidp(threshold="limit").threshold
    return {**alarms, "ReTiDP, limit": _alarms(found["ReTiDP"], limit)}


def _horizon(rng: np.random.Generator, study: Study, event: str, steps: str) -> dict[str, Any]:
    monitor = study.retidp(horizon=int(steps), threshold="limit")
    counts = draw(boundary(event), study.runs, int(steps), study.n, rng)
    found = peaks(monitor, *counts, study.n)
    grid, _ = increment_supremum_quantile(study.alpha, BETA, int(steps), study.many // 2, rng)
    return {"ReTiDP": _alarms(found, float(grid)), "ReTiDP, limit": _alarms(found, monitor.threshold)}


def _open_end(rng: np.random.Generator, study: Study, event: str, _part: str) -> dict[str, Any]:
    counts = draw(boundary(event), study.runs // 4, 10 * study.horizon, study.n, rng)
    return {"first alarms": first_alarms(BettingMonitor(EPSILON, study.alpha), *counts, study.n)}


def _threshold(rng: np.random.Generator, study: Study, event: str) -> dict[str, Any]:
    found = recalibrated_threshold(
        event, rng, runs=study.many, n=study.n, horizon=study.horizon, alpha=study.alpha
    )
    return dict(zip(("threshold", "error"), found, strict=True))


def _quantile(rng: np.random.Generator, study: Study, grid: str) -> dict[str, Any]:
    found: tuple[FloatArray, ...]
    if grid == "limit":
        found = increment_supremum_limit(QUANTILE_ALPHAS, BETA, study.many, rng)
    else:
        found = increment_supremum_quantile(QUANTILE_ALPHAS, BETA, int(grid), study.many, rng)
    return dict(zip(("quantile", "error", "residual"), found, strict=False))


def _alarms(found: FloatArray, threshold: float) -> int:
    return int(np.count_nonzero(found >= threshold))


_KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "cell": _cell,
    "horizon": _horizon,
    "open end": _open_end,
    "threshold": _threshold,
    "quantile": _quantile,
}
