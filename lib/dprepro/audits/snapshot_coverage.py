"""How often a recipe's bound exceeds the truth, when the clean outputs are random: coverage by simulation.

Private voting whose clean votes are (1, 2) with and (0, 3) without the canary, but the other way round with
probability 1 - mass: the differing calls hide the canary as well as they can. An audit fails if its bound exceeds
the epsilon of the exact true and false positive rates at its own threshold.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dprepro.audits.snapshot import Audit, Snapshot, active_audit
from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.tradeoff import CONVERSIONS

VOTES = np.array([[1.0, 2.0], [0.0, 3.0]])


def random_snapshot(mass: float, calls: int, rng: np.random.Generator) -> Snapshot:
    """Votes of `calls` model calls a side; each equals its mode with probability `mass`.

    Raises
    ------
    ValueError
        A mass outside [0, 1], or fewer than two calls.
    """
    differ = rng.random((2, calls)) >= float(in_interval("mass", mass, 0.0, 1.0))
    return Snapshot(VOTES[differ[0].astype(int)], VOTES[1 - differ[1].astype(int)])


def true_epsilon(audit: Audit, mechanism: PrivateVoting, mass: float) -> float:
    """Epsilon of the exact rates at the audit's threshold, under the audit's own conversion."""
    in_, out = mechanism.success(VOTES, VOTES[0], VOTES[1], audit.view, audit.rates.threshold)[:, 0]
    tpr, fpr = mass * in_ + (1 - mass) * out, mass * out + (1 - mass) * in_
    return float(CONVERSIONS[audit.conversion](tpr, fpr, mechanism.delta))


def failures(
    key: str,
    rng: np.random.Generator,
    *,
    audits: int,
    epsilon: float,
    calls: int,
    n_sample: int,
) -> dict[str, float]:
    """Failures of a recipe and its mean bound in a part of its audits: an item of a saved result.

    Parameters
    ----------
    key : str
        Recipe, bound, mass and number of the part: "valid, modal, 0.99, 0" or "as_stated, empirical Bernstein, 1, 3".
        Parts differ in their audits only; `joined` adds them up.
    rng : numpy.random.Generator
    audits : int
        Audits a part, simulated in code mode, white box, alpha .05, each on a snapshot of its own.
    epsilon : float
        Claimed, and kept.
    calls, n_sample : int
        Model calls and simulated releases a side.

    Returns
    -------
    dict
        "failures", "audits", "mean" (of the bounds) and "truth" (mean epsilon of the exact rates).

    Raises
    ------
    ValueError
        No audit, or what `active_audit` refuses.
    """
    recipe, bound, share, _ = key.split(", ")
    mass, mechanism = float(share), PrivateVoting(epsilon)
    bounds, truths = np.empty((2, int(positive_count("audits", audits))))
    for i in range(len(bounds)):
        snapshot = random_snapshot(mass, calls, rng)
        audit = active_audit(snapshot, mechanism, recipe=recipe, bound=bound, n_sample=n_sample, rng=rng)
        bounds[i], truths[i] = audit.epsilon, true_epsilon(audit, mechanism, mass)
    failed = int(np.sum(bounds > truths + 1e-9))
    return {"failures": failed, "audits": audits, "mean": bounds.mean(), "truth": truths.mean()}


def joined(saved: Mapping[Any, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Add up the parts of each recipe, bound and mass.

    Parameters
    ----------
    saved : mapping
        Items of `failures` by their keys.

    Returns
    -------
    dict
        By recipe, bound and mass ("valid, modal, 1"), in the order of `saved`: "failures" and "audits" of all
        parts, "mean" and "truth" over all audits.
    """
    whole: dict[str, dict[str, float]] = {}
    for key, part in saved.items():
        line = whole.setdefault(str(key).rpartition(", ")[0], dict.fromkeys(part, 0))
        before, audits = line["audits"], line["audits"] + part["audits"]
        line |= {
            name: (before * line[name] + part["audits"] * part[name]) / audits for name in ("mean", "truth")
        }
        line |= {"failures": line["failures"] + part["failures"], "audits": audits}
    return whole
