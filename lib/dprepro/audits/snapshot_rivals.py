"""Rival recipes for the printed tables of SnapAudit (arXiv 2511.13502), table 1, private voting.

The summary of the paper leaves open which recipe made the printed numbers. Each rival here differs from
``inferred`` in one respect; how well it fits is judged on all cells at once by `misfits`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dprepro.audits.snapshot_expectation import black_box_moments, pooled, white_box_runs
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.in_context.voting import PrivateVoting

EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
DELTA = 1e-5
VOTES = np.array([[1.0, 2.0], [0.0, 3.0]])  # with and without the canary, label it votes for first
ACTIVE_TRIALS = 400_000
RUNS = 5  # audits behind each printed mean
WORST_OUT = "white box, worst cell left out"


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
        """Trials a side of an "active" or a "passive" audit.

        Raises
        ------
        ValueError
            Another mode.
        """
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


def report(
    key: str, rng: np.random.Generator, *, active_repeats: int, passive_repeats: int, audit_seed: int
) -> dict[str, Any]:
    """Mean and standard deviation of what one audit under a rival reports: an item of a saved result.

    Parameters
    ----------
    key : str
        Rival, view and mode: "inferred, black box, active". Of a white box the numbers of its stream and of a part of
        its audits too: "inferred, white box, active, 2, 0". Each part goes on where the one before ends.
    rng : numpy.random.Generator
        Not used: audits have a seed of their own.
    active_repeats, passive_repeats : int
        Simulated white-box audits in a part; a black box is summed exactly.
    audit_seed : int
        Audit r of stream s draws by SeedSequence(audit_seed, spawn_key=(s, r)).

    Returns
    -------
    dict
        "mean" and "sd", one value for each of `EPSILONS`; of a white box "audits", how many they are of.

    Raises
    ------
    ValueError
        For a key that names no rival, view or mode, or a white box without its numbers.
    """
    name, view, mode, stream, part = [*key.split(", "), "", "", "", ""][:5]
    rival = RIVALS[one_of("rival of the key", name, tuple(RIVALS))]
    trials = rival.trials(mode)
    mechanisms = [PrivateVoting(epsilon, DELTA, rival.adjacency) for epsilon in EPSILONS]
    if one_of("view of the key", view, ("black box", "white box")) == "black box":
        wins = [mechanism.win_probability(VOTES, label=0) for mechanism in mechanisms]
        moments = [
            black_box_moments(tpr, fpr, trials, delta=DELTA, alpha=rival.alpha, conversion=rival.conversion)
            for tpr, fpr in wins
        ]
        return {"mean": [mean for mean, _ in moments], "sd": [sd for _, sd in moments]}
    repeats = active_repeats if mode == "active" else passive_repeats
    which = int(positive_count("number of the stream", stream, minimum=0))
    before = int(positive_count("number of the part", part, minimum=0)) * repeats
    audits = np.random.SeedSequence(audit_seed, spawn_key=(which,), n_children_spawned=before)
    distance = float(np.linalg.norm(VOTES[0] - VOTES[1]))
    runs = white_box_runs(
        [distance / mechanism.sigma for mechanism in mechanisms],
        trials,
        repeats,
        np.random.default_rng(audits),
        delta=DELTA,
        alpha=rival.alpha,
        conversion=rival.conversion,
        choice=rival.choice,
        grid=rival.grid,
    )
    return {"mean": runs.mean(axis=0), "sd": runs.std(axis=0, ddof=1), "audits": repeats}


def joined(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Put the parts of each white box together, "inferred, white box, active, 2, 0" and so on.

    Parameters
    ----------
    reports : mapping
        Key to moments, as `report` returns them.

    Returns
    -------
    dict
        By rival, view and mode: mean and sd over the audits of all parts.
    """
    parts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for key, moments in reports.items():
        parts[", ".join(key.split(", ")[:3])].append(moments)
    whole: dict[str, Mapping[str, Any]] = {key: found[0] for key, found in parts.items()}
    for key, found in parts.items():
        if "audits" in found[0]:
            mean, sd = pooled(*([part[name] for part in found] for name in ("audits", "mean", "sd")))
            whole[key] = {"mean": mean, "sd": sd}
    return whole


def misfits(printed: pd.DataFrame, reports: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Chi-square a cell of the printed means under each rival: about 1 for the one that made them.

    Parameters
    ----------
    printed : DataFrame
        Columns column ("Black-PV (Active)" and the like), epsilon, value, unit: each value the mean of
        `RUNS` audits, rounded to its unit (which adds a variance of unit^2/12).
    reports : mapping
        Key to moments, as `report` returns them, in any number of parts.

    Returns
    -------
    DataFrame
        A row for each rival; columns "black box", "white box", and the latter without the cell that fits worst.
        NaN where a rival was not reported.
    """
    moments = joined(reports)
    found = pd.DataFrame(index=list(RIVALS), columns=["black box", "white box", WORST_OUT], dtype=float)
    for name in RIVALS:
        for view in ("black box", "white box"):
            cells = printed[printed["column"].str.startswith(view[:5].title())].to_dict("records")
            squares = sorted(_squared_deviation(cell, name, view, moments) for cell in cells)
            if squares:
                found.loc[name, view] = np.mean(squares)
            if view == "white box" and len(squares) > 1:
                found.loc[name, WORST_OUT] = np.mean(squares[:-1])
    return found


def _squared_deviation(
    cell: Mapping[Any, Any], name: str, view: str, reports: Mapping[str, Mapping[str, Any]]
) -> float:
    mode = "active" if "Active" in cell["column"] else "passive"
    # A rival in the passive trials alone leaves the active cells as they are.
    shared = (
        "inferred" if mode == "active" and RIVALS[name].passive_trials != INFERRED.passive_trials else name
    )
    moments = reports.get(f"{shared}, {view}, {mode}")
    if moments is None:
        return float("nan")
    at = EPSILONS.index(cell["epsilon"])
    variance = moments["sd"][at] ** 2 / RUNS + cell["unit"] ** 2 / 12
    return float((cell["value"] - moments["mean"][at]) ** 2 / variance)
