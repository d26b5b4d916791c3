"""What the searches for signal texts reach within up to 32,000 embeddings (SnapAudit, arXiv 2511.13502, table 3).

An item of the saved result is one search on the packaged embedder, read on its way:

    "gradient, 32000, run 0"         words ranked by the gradient, which counts
    "cached words, 2000, run 0"      words ranked by their own embeddings, one of each word, which are not counted
    "multi-sweep, 32000, run 0"      the plain search, which divides its budget among its sweeps: read at its end only
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits import signal_comparison
from dprepro.audits.signal_gradient import Ranker, WordCache, ranked_search
from dprepro.base.check import one_of
from dprepro.text.embedder_gradient import WordGradient
from dprepro.text.embedders import embedder
from dprepro.text.wordlist import searchable

METHODS = ("multi-sweep", "gradient", "cached words")
SWEEPS = 4  # of the plain search, as in its own saved result


def report(key: str, rng: np.random.Generator, *, length: int, checkpoints: list[int]) -> dict[str, Any]:
    """Run one search on the packaged embedder.

    Parameters
    ----------
    key : str
        Method (one of `METHODS`), budget and number of the run.
    rng : numpy.random.Generator
    length : int
        Words of a sentence.
    checkpoints : list of int
        Where to keep the trajectory: at these numbers of embeddings and at its end.

    Returns
    -------
    dict
        As `signal_comparison.report`; and "words", the number of words that were to choose from.

    Raises
    ------
    ValueError
        For a key that names no method or budget.
    KeyboardInterrupt
        Half a search is no item.
    """
    name, budget_text, *_ = [*key.split(", "), ""]
    method = one_of("method of the key", name, METHODS)
    if not budget_text.isdigit():
        raise ValueError(f"budget of the key must be a whole number, got {budget_text!r}")
    encoder = embedder(threads=1)
    words = searchable(encoder.vocabulary)
    if method == "multi-sweep":
        plain = signal_comparison.report(key, rng, sweeps=SWEEPS, length=length, checkpoints=checkpoints)
        return {**plain, "words": len(words)}
    ranker: Ranker = WordGradient(encoder, words) if method == "gradient" else WordCache(encoder, words)
    found = ranked_search(ranker, int(budget_text), rng, length=length)
    if found.interrupted:
        raise KeyboardInterrupt
    used, distances = np.array(found.trajectory).T
    kept = sorted({at - 1 for at in np.searchsorted(used, [*checkpoints, used[-1]], "right").tolist()} - {-1})
    return {
        "embeddings": used[kept].astype(int),
        "distance": distances[kept].round(6),
        "first": found.first,
        "second": found.second,
        "words": len(words),
    }


def reached(item: dict[str, Any], budgets: list[int]) -> NDArray[np.float64]:
    """Return the distance that an item had reached at each number of embeddings, NaN before its first entry."""
    at = np.searchsorted(item["embeddings"], budgets, "right")
    return np.concatenate([[np.nan], item["distance"]])[at]
