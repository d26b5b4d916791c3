"""Rival recipes for the printed tables of SnapAudit (arXiv 2511.13502), table 1, private voting.

The summary of the paper leaves open which recipe made the printed numbers. Each rival here differs from
``inferred`` in one respect; how well it fits is judged on all cells at once by `misfit`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dprepro.audits.snapshot_expectation import black_box_moments, white_box_runs
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.in_context.voting import PrivateVoting

EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
DELTA = 1e-5
VOTES = np.array([[1.0, 2.0], [0.0, 3.0]])  # with and without the canary, label it votes for first
ACTIVE_TRIALS = 400_000


@dataclass(frozen=True)
class Rival:
    """A recipe: joint level of the two limits, conversion, noise, trials of a passive audit, threshold search."""

    alpha: float = 0.05
    conversion: str = "gdp"
    adjacency: str = "replace-one"
    passive_trials: int = 2_000
    grid: int | None = 2_000
    choice: str = "same"

    def trials(self, mode: str) -> int:
        """Trials a side of an "active" or a "passive" audit."""
        return (
            ACTIVE_TRIALS if one_of("mode", mode, ("active", "passive")) == "active" else self.passive_trials
        )


INFERRED = Rival()
RIVALS = {
    "inferred": INFERRED,
    "one-sided 95 % limits": replace(INFERRED, alpha=0.10),
    "1,000 trials passive": replace(INFERRED, passive_trials=1_000),
    "4,000 trials passive": replace(INFERRED, passive_trials=4_000),
    "noise for sensitivity 1": replace(INFERRED, adjacency="add-remove"),
    "standard conversion": replace(INFERRED, conversion="standard"),
    "200 thresholds": replace(INFERRED, grid=200),
    "all thresholds": replace(INFERRED, grid=None),
    "held-out half": replace(INFERRED, grid=None, choice="held_out"),
}
BLACK_BOX = tuple(RIVALS)[:6]  # a black box has no threshold to choose


def black_box(name: str, mode: str, epsilon: float) -> tuple[float, float]:
    """Mean and standard deviation of one black-box audit under a rival, exact.

    Parameters
    ----------
    name : str
        One of `BLACK_BOX`.
    mode : {"active", "passive"}
    epsilon : float
        Claimed.
    """
    rival = RIVALS[one_of("name", name, BLACK_BOX)]
    tpr, fpr = PrivateVoting(epsilon, DELTA, rival.adjacency).win_probability(VOTES, label=0)
    return black_box_moments(
        tpr, fpr, rival.trials(mode), delta=DELTA, alpha=rival.alpha, conversion=rival.conversion
    )


def white_box(
    key: str, rng: np.random.Generator, *, active_repeats: int, passive_repeats: int
) -> dict[str, Any]:
    """Means and standard deviations of one white-box audit under a rival, simulated: an item of a saved result.

    Parameters
    ----------
    key : str
        Such as "inferred, active".
    rng : numpy.random.Generator
    active_repeats, passive_repeats : int
        Simulated audits.

    Returns
    -------
    dict
        "mean" and "sd", one value for each of `EPSILONS`, and "repeats".
    """
    name, _, mode = key.rpartition(", ")
    rival = RIVALS[one_of("key", name, tuple(RIVALS))]
    trials = rival.trials(mode)
    repeats = int(
        positive_count("repeats", active_repeats if mode == "active" else passive_repeats, minimum=2)
    )
    mechanisms = [PrivateVoting(epsilon, DELTA, rival.adjacency) for epsilon in EPSILONS]
    distance = np.linalg.norm(VOTES[0] - VOTES[1])
    runs = white_box_runs(
        [distance / mechanism.sigma for mechanism in mechanisms],
        trials,
        repeats,
        rng,
        delta=DELTA,
        alpha=rival.alpha,
        conversion=rival.conversion,
        choice=rival.choice,
        grid=rival.grid,
    )
    return {"mean": runs.mean(axis=0).tolist(), "sd": runs.std(axis=0, ddof=1).tolist(), "repeats": repeats}


def misfit(
    printed: Iterable[float], unit: float, expected: Iterable[float], sd: Iterable[float], runs: int = 5
) -> float:
    """Chi-square a cell of printed means under a recipe: about 1 for the true one.

    Parameters
    ----------
    printed : floats, shape (cells,)
        Each the mean of `runs` audits.
    unit : float
        Place of the last printed digit; rounding adds a variance of unit^2/12.
    expected, sd : floats, shape (cells,)
        Of a single audit under the recipe.
    """
    values, means, spread = (np.asarray([*part], dtype=np.float64) for part in (printed, expected, sd))
    variance = spread**2 / runs + unit**2 / 12
    return float(np.mean((values - means) ** 2 / variance))
