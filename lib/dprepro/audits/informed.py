"""An attacker who knows the other demonstrations: clean outputs that vary with them, and a score that takes it out.

In the game that differential privacy plays the attacker knows both neighbouring inputs and only not which one was
used. SnapAudit (arXiv 2511.13502) gives its attacker one pair of clean outputs for all runs, which says the same
while demonstrations are fixed and outputs hardly vary. Where each run draws its demonstrations anew, that attacker
mistakes their effect for the canary's. `informed` puts the pair of each run beside its clean output, and `Informed`
scores a release by the pair of its own run. A claim that holds for every input and every way to deal it to partitions
holds given the pair, so bounds stay valid: rows are still independent, and only the attack has changed.

    active_audit(informed(snapshot), Informed(mechanism), bound="betting", rng=rng)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dprepro.audits.snapshot import Snapshot
from dprepro.audits.snapshot_trial import Array


def informed(snapshot: Snapshot) -> Snapshot:
    """Append to each clean output the two that its run has with the canary and without.

    Parameters
    ----------
    snapshot : Snapshot
        Run i of either side with the same demonstrations and partitions, as `snapshot_collect.collect` makes it.

    Returns
    -------
    Snapshot
        Rows of length 3d: clean output, the run's with the canary, the run's without.

    Raises
    ------
    ValueError
        The sides have different numbers of runs, so that they are not pairs.
    """
    sides = snapshot.with_canary, snapshot.without_canary
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            "with_canary and without_canary must have a row for each run, "
            f"got {len(sides[0])} and {len(sides[1])}"
        )
    with_canary, without_canary = (np.hstack([side, *sides]) for side in sides)
    return Snapshot(with_canary, without_canary, snapshot.provenance)


@dataclass(frozen=True)
class Informed:
    """A mechanism whose attacker knows each run's pair of clean outputs; rows as `informed` makes them.

    Parameters
    ----------
    mechanism
        With ``release`` and ``score``, such as `voting.PrivateVoting`.
    """

    mechanism: Any

    # Pairs are many, so no clean output is the common one: what is bounded is the success on each run.
    discrete = False

    @property
    def epsilon(self) -> float:
        """As claimed."""
        return float(self.mechanism.epsilon)

    @property
    def delta(self) -> float:
        """As claimed."""
        return float(self.mechanism.delta)

    @property
    def gaussian(self) -> bool:
        """Given its pair a release has the mechanism's noise."""
        return bool(getattr(self.mechanism, "gaussian", False))

    def release(self, clean: Array, rng: np.random.Generator) -> Array:
        """The mechanism's releases of the clean outputs, with the pairs behind them."""
        own, pairs = np.split(clean, [clean.shape[1] // 3], axis=1)
        return np.hstack([self.mechanism.release(own, rng), pairs])

    def score(self, released: Array, clean_in: Array, clean_out: Array, view: str) -> Array:
        """The mechanism's score of each release for the pair of its run, shape (n,); 0 where both are equal.

        Parameters
        ----------
        released : array, shape (n, m + 2d)
        clean_in, clean_out : array, shape (3d,)
            Give d alone.
        view : {"white", "black"}
        """
        d = len(clean_in) // 3
        seen, pairs = released[:, : -2 * d], released[:, -2 * d :]
        found = np.zeros(len(released))
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        for place, pair in enumerate(distinct):
            if np.any(pair[:d] != pair[d:]):
                rows = np.flatnonzero(which.ravel() == place)
                found[rows] = self.mechanism.score(seen[rows], pair[:d], pair[d:], view)
        return found
