"""What the monitors owe to n, beta, the floor and the grid of the threshold, and what a second change does to them.

The ablations of "Monitoring Violations of Differential Privacy over Time" (ReTiDP, arXiv 2509.20283) and more of
their kind, as items of a saved result. How many of n independent outputs lie in one event is binomial: counts are
drawn with the mechanism's exact probabilities. Several events on the same outputs depend on each other: for them
(`retidp_event_panel`) the mechanism is run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_state import Monitor
from dprepro.audits.retidp_event_panel import panel_alarms
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import delays, first_alarms
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.additive import LaplaceCount
from dprepro.stats.brownian import increment_supremum_limit, increment_supremum_quantile

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rates = tuple[float, float]  # P(A(x) in E), P(A(x') in E)

FLOORS = ("1/n", 1e-6, 0.002, 0.003, 0.005, 0.01, 0.02)

_MILD = replace(SCENARIOS["a"], after=LaplaceCount(0.9))
_BOUNDARY = SCENARIOS["b"].probabilities()[0]  # e^epsilon P(x') = P(x)
CHANGES: dict[str, tuple[Rates, Rates]] = {
    **{key: SCENARIOS[key].probabilities() for key in "abdfh"},
    "Laplace 0.9": _MILD.probabilities(),
    "no change": (_BOUNDARY, _BOUNDARY),
}
GRADUAL = ("a", "b", "d", "f", "Laplace 0.9")  # also made step by step, for beta
# Rates from a step on; what follows a repair is what was before the change.
STAGES: dict[str, Sequence[tuple[int, Rates]]] = {
    f"{key} from 30 to {repair - 1}": [(1, CHANGES[key][0]), (30, CHANGES[key][1]), (repair, CHANGES[key][0])]
    for key in "abd"
    for repair in (40, 60)
}
STAGES["h at 30, d at 60"] = [(1, CHANGES["h"][0]), (30, CHANGES["h"][1]), (60, CHANGES["d"][1])]


@dataclass(frozen=True)
class Study:
    """Sizes shared by all items: `many` repetitions where ReTiDP alone is run, `repetitions` where bets are."""

    repetitions: int
    many: int
    n: int
    horizon: int
    change: int
    alpha: float

    def retidp(self, **options: Any) -> ReTiDPMonitor:
        """Return a new monitor of the paper."""
        return ReTiDPMonitor(EPSILON, self.alpha, horizon=self.horizon, **options)

    def betting(self) -> BettingMonitor:
        """Return a new monitor that bets."""
        return BettingMonitor(EPSILON, self.alpha, horizon=self.horizon)

    def changed(self, name: str) -> FloatArray:
        """Return the rates of each step, shape (horizon, 2), of one of `CHANGES`."""
        before, after = CHANGES[one_of("key", name, tuple(CHANGES))]
        return staged([(1, before), (self.change, after)], self.horizon)

    def histogram(self, monitor: Monitor, counts: tuple[IntArray, IntArray]) -> IntArray:
        """Return how many repetitions raise their first alarm at no step, at step 1, ..., at the horizon."""
        return np.bincount(first_alarms(monitor, *counts, self.n), minlength=self.horizon + 1)


def report(key: str, rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    """Simulate one ablation: an item of a saved result.

    Parameters
    ----------
    key : str
        "size, b, 500" (scenario, n); "beta, 0.25, 750" (beta, n); "floor, f" (scenario); "grid, 1000" or
        "grid, limit"; "two changes, b from 30 to 39" (of `STAGES`); "panel, Laplace 0.9, part 1 of 2".
    rng : numpy.random.Generator
    **sizes
        The fields of `Study`.

    Returns
    -------
    dict
        By name how many repetitions raised their first alarm at step 0 (none), 1, ..., horizon; "grid" also the
        thresholds for alpha and alpha/4, "panel" also what `panel_alarms` says of paired differences.

    Raises
    ------
    ValueError
        For a key of another form.
    """
    kind, _, what = key.partition(", ")
    return _KINDS[one_of("key", kind, tuple(_KINDS))](what, rng, Study(**sizes))


def mean_delay(first: IntArray, change: int, horizon: int) -> tuple[float, float]:
    """Return the mean delay and its standard error.

    Parameters
    ----------
    first : integer array
        First alarms; those before the change are left out, none counts as one at the step after the horizon.
    change : int
        First step with the changed mechanism.
    horizon : int

    Returns
    -------
    mean, standard_error : float
        In steps; NaN if no repetition is left.
    """
    delay = np.minimum(delays(first, change), horizon + 1 - change)
    if len(delay) == 0:
        return float("nan"), float("nan")
    return float(delay.mean()), float(delay.std() / len(delay) ** 0.5)


def staged(stages: Sequence[tuple[int, Rates]], horizon: int) -> FloatArray:
    """Return the rates of each step, shape (horizon, 2), from those that begin at some steps."""
    rates = np.empty((horizon, 2))
    for start, pair in stages:
        rates[start - 1 :] = pair
    return rates


def rolled_out(before: Rates, after: Rates, change: int, horizon: int) -> FloatArray:
    """Return the rates of each step, shape (horizon, 2), when ever more outputs come from a changed mechanism.

    Its share is 0 before `change`, then grows by the same amount each step, to 1 at the horizon.
    """
    share = np.clip((np.arange(1, horizon + 1) - change + 1) / (horizon - change + 1), 0, 1)[:, None]
    return (1 - share) * np.array(before) + share * np.array(after)


def draw(rates: FloatArray, repetitions: int, n: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return counts of an event on n outputs a side, each of shape (repetitions, horizon).

    Raises
    ------
    ValueError
        An n below 1.
    """
    n, shape = int(positive_count("n", n)), (repetitions, len(rates))
    return rng.binomial(n, rates[:, 0], shape), rng.binomial(n, rates[:, 1], shape)


def _size(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    scenario, n = what.split(", ")
    study = replace(study, n=int(n))
    x, y = draw(study.changed(scenario), study.many, study.n, rng)
    few = x[: study.repetitions], y[: study.repetitions]
    return {
        "inferred": study.histogram(study.retidp(), (x, y)),
        "as_stated": study.histogram(study.retidp(threshold="limit"), (x, y)),
        "betting": study.histogram(study.betting(), few),
    }


def _beta(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    beta, n = what.split(", ")
    study = replace(study, n=int(n))
    streams = {"no change": study.changed("no change")}
    for name in GRADUAL:
        streams[f"{name}, abrupt"] = study.changed(name)
        streams[f"{name}, slow"] = rolled_out(*CHANGES[name], study.change, study.horizon)
    return {
        name: study.histogram(study.retidp(beta=float(beta)), draw(rates, study.repetitions, study.n, rng))
        for name, rates in streams.items()
    }


def _floor(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    counts = draw(study.changed(what), study.repetitions, study.n, rng)
    return {str(floor): study.histogram(study.retidp(floor=floor), counts) for floor in FLOORS}


def _grid(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    alphas, paths = np.array([study.alpha, study.alpha / 4]), 2 * study.many
    if what == "limit":
        quantile, error, _ = increment_supremum_limit(alphas, 0.25, paths, rng)
    else:
        quantile, error = increment_supremum_quantile(alphas, 0.25, int(what), paths, rng)
    found: dict[str, Any] = {"quantile": quantile, "standard error": error}
    for name in ("b", "d", "no change"):
        counts = draw(study.changed(name), study.many, study.n, rng)
        found[name] = study.histogram(study.retidp(threshold=float(quantile[0])), counts)
    return found


def _two_changes(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    stages = STAGES[one_of("key", what, tuple(STAGES))]
    counts = draw(staged(stages, study.horizon), study.repetitions, study.n, rng)
    monitors: dict[str, Monitor] = {"inferred": study.retidp(), "betting": study.betting()}
    return {name: study.histogram(monitor, counts) for name, monitor in monitors.items()}


def _panel(what: str, rng: np.random.Generator, study: Study) -> dict[str, Any]:
    name, part = what.split(", part ")
    parts = int(part.split(" of ")[1])
    quiet = name == "no change"
    return panel_alarms(
        name,
        rng,
        repetitions=(study.many if quiet else study.repetitions) // parts,
        betting=study.repetitions // parts,
        n=study.n,
        horizon=study.horizon,
        change=study.change,
        alpha=study.alpha,
    )


_KINDS: dict[str, Callable[[str, np.random.Generator, Study], dict[str, Any]]] = {
    "size": _size,
    "beta": _beta,
    "floor": _floor,
    "grid": _grid,
    "two changes": _two_changes,
    "panel": _panel,
}
