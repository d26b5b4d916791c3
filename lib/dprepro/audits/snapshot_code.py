"""The recipes of a snapshot audit in code mode: every rate is counted on draws from the mechanism's release().

``inferred`` takes the bootstrap's trials for independent audits, tries 2,000 quantiles of the scores as
thresholds and tests the best on the same scores, two-sided Clopper-Pearson. It reproduces SnapAudit's printed
tables (arXiv 2511.13502). It is not a bound: the threshold is tested on the data that chose it.

``as_stated`` is the paper's correction: the same rates, less an empirical Bernstein radius for the finite
snapshot and a Hoeffding radius for the simulation.

``valid`` is a bound at confidence 1 - alpha over all that is random:

* *modal*, for a clean output that takes few values: with probability at least m it is one named value, so
  TPR >= m TPR(value) and FPR <= m FPR(value) + 1 - m; the rest counts against the auditor.
* *betting*, for any clean output: the attack's success rate on each call is one independent value in [0, 1],
  whose mean is bounded by betting (Waudby-Smith and Ramdas 2024); that covers calls and noise at once.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.snapshot_trial import GRID, NAMING_SHARE, Array, Trial, named
from dprepro.stats.betting import betting_interval
from dprepro.stats.bounds import bernstein_radius, modal_mass_low
from dprepro.stats.lower_bound import Rates, best_rates, epsilon_lower_bound, pooled_quantiles

MASS_SHARE = 0.5  # of alpha, where the modal mass and the simulated rates are both estimated


def passive(trial: Trial, recipe: str, rng: np.random.Generator) -> Rates:
    """One release for each call: the trials are independent, so no correction for a snapshot is due."""
    scores_in, scores_out = (trial.scores(rows.copy(), rng) for rows in trial.sides)
    return _clopper_pearson(trial, scores_in, scores_out, "same" if recipe == "inferred" else "held_out")


def inferred(trial: Trial, rng: np.random.Generator) -> Rates:
    """Bootstrap trials taken for independent audits, threshold chosen on the trials that are tested."""
    (_, scores_in), (_, scores_out) = (trial.bootstrap(rows, rng) for rows in trial.sides)
    return _clopper_pearson(trial, scores_in, scores_out, "same")


def _clopper_pearson(
    trial: Trial,
    scores_in: Array,
    scores_out: Array,
    choice: str,
    alpha: float | None = None,
    masses: tuple[float, float] = (1.0, 1.0),
) -> Rates:
    bound = epsilon_lower_bound(
        scores_in,
        scores_out,
        trial.mechanism.delta,
        trial.alpha if alpha is None else alpha,
        choice if trial.threshold is None else trial.threshold,
        trial.conversion,
        grid=GRID if choice == "same" and trial.threshold is None else None,
        mass_in=masses[0],
        mass_out=masses[1],
    )
    return Rates(bound.threshold, bound.tpr, bound.fpr, bound.tpr_low, bound.fpr_up)


def as_stated(trial: Trial, rng: np.random.Generator) -> Rates:
    """The paper's radius: empirical Bernstein over the calls, Hoeffding over the simulation."""
    drawn = [trial.bootstrap(rows, rng) for rows in trial.sides]
    sorted_in, sorted_out = (np.sort(scores) for _, scores in drawn)
    thresholds = pooled_quantiles(sorted_in, sorted_out, GRID)
    if trial.threshold is not None:
        thresholds = np.array([trial.threshold])
    tpr, fpr = (
        1 - np.searchsorted(scores, thresholds) / trial.n_sample for scores in (sorted_in, sorted_out)
    )

    def corrected(variances: tuple[float, float]) -> tuple[Array, Array]:
        radius = [
            bernstein_radius(variance, len(rows), trial.n_sample, 1 - trial.alpha)
            for variance, rows in zip(variances, trial.sides, strict=True)
        ]
        return np.maximum(tpr - radius[0], 0), np.minimum(fpr + radius[1], 1)

    # The variance depends on the threshold, hardly for outputs that are nearly constant: choose with none.
    best = int(np.argmax(trial.epsilon(*corrected((0.0, 0.0)))))
    variance_in, variance_out = (
        _variance_between(rows, *side, float(thresholds[best]))
        for rows, side in zip(trial.sides, drawn, strict=True)
    )
    low, high = corrected((variance_in, variance_out))
    return Rates(*(float(value[best]) for value in (thresholds, tpr, fpr, low, high)))


def _variance_between(rows: Array, picked: NDArray[np.int64], scores: Array, threshold: float) -> float:
    """Variance over the calls of the attack's success rate; equal clean outputs share one rate."""
    if len(rows) == 1:
        return 0.0
    _, kind = np.unique(rows, axis=0, return_inverse=True)
    trials = np.bincount(kind[picked], minlength=kind.max() + 1)
    hits = np.bincount(kind[picked], weights=scores >= threshold, minlength=kind.max() + 1)
    drawn = np.flatnonzero(trials[kind])
    return float(np.var((hits / np.maximum(trials, 1))[kind[drawn]], ddof=1))


def modal(trial: Trial, rng: np.random.Generator) -> Rates:
    """Simulate on the named value alone; half of alpha bounds its mass, half the simulated rates."""
    alpha_mass = MASS_SHARE * trial.alpha
    scores, masses = [], []
    for rows in trial.sides:
        named_row, mass = modal_mass_low(rows, alpha_mass / 2, NAMING_SHARE)
        scores.append(trial.scores(np.tile(named_row, (trial.n_sample, 1)), rng))
        masses.append(float(mass))
    alpha_rates = trial.alpha - alpha_mass
    return _clopper_pearson(trial, scores[0], scores[1], "held_out", alpha_rates, (masses[0], masses[1]))


def betting(trial: Trial, rng: np.random.Generator) -> Rates:
    """Bet on the success rate of each call; the threshold comes from the calls that named the references."""
    threshold = trial.threshold
    if threshold is None:
        scores = [trial.bootstrap(rows[: named(len(rows))], rng)[1] for rows in trial.sides]
        threshold = float(
            best_rates(
                scores[0],
                scores[1],
                trial.alpha,
                conversion=trial.conversion,
                delta=trial.mechanism.delta,
                grid=GRID,
                mass_in=anticipated_mass(trial),
                mass_out=anticipated_mass(trial),
            ).threshold
        )
    success = []
    for rows in trial.sides:
        tested = rows[named(len(rows)) :]
        repeats = max(1, trial.n_sample // len(tested))
        hits = trial.scores(np.repeat(tested, repeats, axis=0), rng) >= threshold
        success.append(hits.reshape(len(tested), repeats).mean(axis=1))
    return bet(trial, threshold, success[0], success[1])


def anticipated_mass(trial: Trial) -> float:
    """The modal mass that constant calls would prove: a threshold chosen with it suits the correction to come."""
    return float((trial.alpha / 2) ** (1 / max(trial.calls - named(trial.calls), 1)))


def bet(trial: Trial, threshold: float, success_in: Array, success_out: Array) -> Rates:
    """Rates from the success of the attack on each call, shape (calls,), alpha/2 a side."""
    low, _ = betting_interval(success_in, trial.alpha)
    _, high = betting_interval(success_out, trial.alpha)
    return Rates(threshold, float(success_in.mean()), float(success_out.mean()), float(low), float(high))


RECIPES: dict[tuple[str, str], Callable[[Trial, np.random.Generator], Rates]] = {
    ("inferred", "Clopper-Pearson"): inferred,
    ("as_stated", "empirical Bernstein"): as_stated,
    ("valid", "modal"): modal,
    ("valid", "betting"): betting,
}
