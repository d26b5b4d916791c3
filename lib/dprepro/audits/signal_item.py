"""An item of a saved search for signal texts (SnapAudit, arXiv 2511.13502): its key, and what is kept of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dprepro.audits.signal_search import SignalPair
from dprepro.base.check import one_of


def method_and_budget(key: str, methods: Sequence[str]) -> tuple[str, int]:
    """Read the key of an item: method, embeddings and number of the run, as in "multi-sweep, 2000, run 3".

    Raises
    ------
    ValueError
        A key that is no text, a method that is none of `methods`, or a budget that is no whole number.
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a text like {methods[0] + ', 2000, run 0'!r}, got {key!r}")
    name, budget, *_ = [*key.split(", "), ""]
    method = one_of("method of the key", name, methods)
    if not (budget.isascii() and budget.isdigit()):
        raise ValueError(f"budget of the key must be a whole number, got {budget!r}")
    return method, int(budget)


def kept(found: SignalPair, checkpoints: Sequence[int]) -> dict[str, Any]:
    """Return what is saved of a search.

    Parameters
    ----------
    found : SignalPair
    checkpoints : sequence of int
        Where to keep the trajectory: at these numbers of embeddings and at its end.

    Returns
    -------
    dict
        "embeddings" and "distance" along the trajectory, "first" and "second". Distances have six digits, as the
        seventh depends on the CPU; at a near tie, so may the words.
    """
    used, distances = np.array(found.trajectory).T
    rows = sorted({at - 1 for at in np.searchsorted(used, [*checkpoints, used[-1]], "right").tolist()} - {-1})
    return {
        "embeddings": used[rows].astype(int),
        "distance": distances[rows].round(6),
        "first": found.first,
        "second": found.second,
    }
