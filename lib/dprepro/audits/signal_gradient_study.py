"""What the searches for signal texts reach within up to 32,000 embeddings (SnapAudit, arXiv 2511.13502, table 3).

An item of the saved result is one search on the packaged embedder, read on its way:

    "gradient, 32000, run 0"         words ranked by the gradient, which counts
    "cached words, 8000, run 1"      words ranked by their own embeddings, one of each word, which are not counted
    "multi-sweep, 32000, run 0"      the plain search, which divides its budget among its sweeps: read at its end only
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.signal_gradient import Ranker, WordCache, ranked_search
from dprepro.audits.signal_item import kept, method_and_budget
from dprepro.audits.signal_search import SignalPair, signal_search
from dprepro.text.embedder_gradient import WordGradient
from dprepro.text.embedders import SentenceEmbedder, embedder
from dprepro.text.wordlist import searchable

METHODS = ("multi-sweep", "gradient", "cached words")
SWEEPS = 4  # of the plain search, as in its own saved result


def search(key: str, rng: np.random.Generator, encoder: SentenceEmbedder, *, length: int) -> SignalPair:
    """Run the search that a key names.

    Parameters
    ----------
    key : str
        Method (one of `METHODS`), budget and number of the run.
    rng : numpy.random.Generator
    encoder : SentenceEmbedder
        The words that `searchable` leaves of its vocabulary may be written.
    length : int
        Words of a sentence.

    Returns
    -------
    SignalPair

    Raises
    ------
    ValueError
        For a key that names no method or budget.
    """
    method, budget = method_and_budget(key, METHODS)
    words = searchable(encoder.vocabulary)
    if method == "multi-sweep":
        return signal_search(encoder, words, budget, rng, sweeps=SWEEPS, length=length)
    ranker: Ranker = WordGradient(encoder, words) if method == "gradient" else WordCache(encoder, words)
    return ranked_search(ranker, budget, rng, length=length)


def report(key: str, rng: np.random.Generator, *, length: int, checkpoints: list[int]) -> dict[str, Any]:
    """Run one search on the packaged embedder.

    Parameters
    ----------
    key, rng, length
        As for `search`.
    checkpoints : list of int
        Where to keep the trajectory: at these numbers of embeddings and at its end.

    Returns
    -------
    dict
        As `signal_item.kept` has it; and "words", the number of words that were to choose from.

    Raises
    ------
    ValueError
        For a key that names no method or budget.
    KeyboardInterrupt
        Half a search is no item.
    """
    method_and_budget(key, METHODS)  # a wrong key is refused before a model is loaded
    encoder = embedder(threads=1)
    found = search(key, rng, encoder, length=length)
    if found.interrupted:
        raise KeyboardInterrupt
    return {**kept(found, checkpoints), "words": len(searchable(encoder.vocabulary))}


def reached(item: dict[str, Any], budgets: list[int]) -> NDArray[np.float64]:
    """Return the distance that an item had reached at each number of embeddings, NaN before its first entry."""
    at = np.searchsorted(item["embeddings"], budgets, "right")
    return np.concatenate([[np.nan], item["distance"]])[at]
