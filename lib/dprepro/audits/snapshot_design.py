"""The recipes of a snapshot audit in design mode: closed forms of the declared noise, nothing is drawn.

The attack's success rate on a clean output is known exactly as a function of the threshold
(``mechanism.success``), so a recipe's bound is a function of the threshold alone, and the best threshold may be
sought freely: that uses the declared noise and the calls that named the reference outputs, no tested data. What
the release function really does is not looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.snapshot_code import anticipated_mass, bet
from dprepro.audits.snapshot_trial import NAMING_SHARE, Array, Trial, named
from dprepro.stats.bounds import bernstein_radius, clopper_pearson, modal_mass_low
from dprepro.stats.lower_bound import Rates

Limits = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class _Side:
    """The clean outputs of one side: each distinct value once, with the calls that gave it."""

    trial: Trial
    rows: Array

    @cached_property
    def _distinct(self) -> tuple[Array, NDArray[np.intp], Array]:
        # By their bytes: np.unique would sort the rows, which takes most of an audit's time where they are long.
        places: dict[bytes, int] = {}
        inverse = np.array([places.setdefault(row.tobytes(), len(places)) for row in self.rows])
        first = np.unique(inverse, return_index=True)[1]
        return self.rows[first], inverse, np.bincount(inverse) / len(self.rows)

    def success(self, threshold: Array) -> Array:
        """Of each call, shape (calls, t)."""
        values, inverse, _ = self._distinct
        return _success(self.trial, values, threshold)[inverse]

    def moments(self, threshold: Array) -> tuple[Array, Array]:
        """Mean and sample variance over the calls, shape (t,) each."""
        values, _, share = self._distinct
        success = _success(self.trial, values, threshold)
        mean = share @ success
        n = len(self.rows)
        return mean, share @ (success - mean) ** 2 * n / max(n - 1, 1)


def _success(trial: Trial, rows: Array, threshold: Array) -> Array:
    closed_form = getattr(trial.mechanism, "success", None)
    if closed_form is None:
        raise ValueError(
            "mode must be 'code' for a mechanism without a success method (its noise is not declared), "
            "got 'design'"
        )
    return closed_form(rows, *trial.references, trial.view, threshold)


def inferred(trial: Trial) -> Rates:
    """Clopper-Pearson at the expected counts (rounded against the auditor) of n_sample trials."""
    side_in, side_out = (_Side(trial, rows) for rows in trial.sides)

    def limits(threshold: Array) -> tuple[Array, Array]:
        hits_in = np.floor(side_in.moments(threshold)[0] * trial.n_sample)
        hits_out = np.ceil(side_out.moments(threshold)[0] * trial.n_sample)
        return (
            clopper_pearson(hits_in, trial.n_sample, trial.alpha)[0],
            clopper_pearson(hits_out, trial.n_sample, trial.alpha)[1],
        )

    return _at(trial, side_in, side_out, _best(trial, limits), limits)


def as_stated(trial: Trial) -> Rates:
    """The paper's radius around the exact rates."""
    side_in, side_out = (_Side(trial, rows) for rows in trial.sides)

    def radius(variance: Array, side: _Side) -> Array:
        return np.asarray(bernstein_radius(variance, len(side.rows), trial.n_sample, 1 - trial.alpha))

    def limits(threshold: Array) -> tuple[Array, Array]:
        tpr, variance_in = side_in.moments(threshold)
        fpr, variance_out = side_out.moments(threshold)
        low = np.maximum(tpr - radius(variance_in, side_in), 0)
        return low, np.minimum(fpr + radius(variance_out, side_out), 1)

    return _at(trial, side_in, side_out, _best(trial, limits), limits)


def stated_ceiling(trial: Trial, chance: float = 1e-6) -> float:
    """Epsilon that a run of the as_stated recipe exceeds with probability at most `chance`, whatever its threshold.

    The empirical rates of n simulated releases exceed the exact ones nowhere by more than
    sqrt(log(2/chance)/(2n)), with probability chance/2 a side (Massart 1990, one-sided DKW inequality). Clean
    outputs are taken for constant, so the empirical variance is 0 and the radius is at its smallest.
    """
    side_in, side_out = (_Side(trial, rows) for rows in trial.sides)
    luck = np.sqrt(np.log(2 / chance) / (2 * trial.n_sample))
    radius = [bernstein_radius(0.0, len(rows), trial.n_sample, 1 - trial.alpha) for rows in trial.sides]

    def limits(threshold: Array) -> tuple[Array, Array]:
        tpr, fpr = side_in.moments(threshold)[0], side_out.moments(threshold)[0]
        return np.clip(tpr + luck - radius[0], 0, 1), np.clip(fpr - luck + radius[1], 0, 1)

    threshold = np.array([_best(trial, limits)])
    return float(trial.epsilon(*limits(threshold))[0])


def modal(trial: Trial) -> Rates:
    """The exact rates of the named clean outputs; all of alpha bounds their mass."""
    (value_in, mass_in), (value_out, mass_out) = (
        modal_mass_low(rows, trial.alpha / 2, NAMING_SHARE) for rows in trial.sides
    )
    side_in, side_out = (_Side(trial, value[None, :]) for value in (value_in, value_out))

    def limits(threshold: Array) -> tuple[Array, Array]:
        tpr, fpr = side_in.moments(threshold)[0], side_out.moments(threshold)[0]
        return mass_in * tpr, mass_out * fpr + 1 - mass_out

    return _at(trial, side_in, side_out, _best(trial, limits), limits)


def betting(trial: Trial) -> Rates:
    """Bet on the exact success rate of each call; the threshold comes from the calls that named the references."""
    first_in, first_out = (_Side(trial, rows[: named(len(rows))]) for rows in trial.sides)
    mass = anticipated_mass(trial)

    def anticipated(threshold: Array) -> tuple[Array, Array]:
        tpr, fpr = first_in.moments(threshold)[0], first_out.moments(threshold)[0]
        return mass * tpr, mass * fpr + 1 - mass

    threshold = np.array([_best(trial, anticipated)])
    tested_in, tested_out = (
        _Side(trial, rows[named(len(rows)) :]).success(threshold)[:, 0] for rows in trial.sides
    )
    return bet(trial, float(threshold[0]), tested_in, tested_out)


def _best(trial: Trial, limits: Limits) -> float:
    """The threshold with the largest epsilon for closed-form limits (tpr_low, fpr_up)."""
    if trial.threshold is not None:
        return trial.threshold
    low, high = _range(trial)
    for _ in range(3):
        # Three grids, each between the neighbours of the best of the one before.
        grid = np.linspace(low, high, 201)
        best = int(np.argmax(trial.epsilon(*limits(grid))))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(grid[best])


def _range(trial: Trial) -> tuple[float, float]:
    # Doubles outwards until the attack accepts every release below and none above, for either clean output.
    both = np.stack(trial.references)
    low, high = -1.0, 1.0
    while _success(trial, both, np.array([low])).min() < 1 - 1e-12 and low > -1e12:
        low *= 2
    while _success(trial, both, np.array([high])).max() > 1e-12 and high < 1e12:
        high *= 2
    return low, high


def _at(trial: Trial, side_in: _Side, side_out: _Side, threshold: float, limits: Limits) -> Rates:
    point = np.array([threshold])
    tpr, fpr = side_in.moments(point)[0], side_out.moments(point)[0]
    low, high = limits(point)
    return Rates(threshold, float(tpr[0]), float(fpr[0]), float(low[0]), float(high[0]))


RECIPES: dict[tuple[str, str], Callable[[Trial], Rates]] = {
    ("inferred", "Clopper-Pearson"): inferred,
    ("as_stated", "empirical Bernstein"): as_stated,
    ("valid", "modal"): modal,
    ("valid", "betting"): betting,
}
