"""What the searches for signal texts reach at equal numbers of embeddings (SnapAudit, arXiv 2511.13502, table 3).

The paper sets its search beside one sweep and beside sentences that a language model wrote to be opposites. No model
is run here: the third is natural English, a statement and its opposite put together from phrases in
data/wordlists/opposites.toml. As opposites speak of the same thing, the furthest two of all those sentences are taken
as well, which any generator would find hard to beat with so many texts.
"""

import tomllib
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from dprepro.audits.signal_item import kept, method_and_budget
from dprepro.audits.signal_search import Meter, SignalPair, signal_search
from dprepro.base import paths
from dprepro.base.check import positive_count
from dprepro.text.embedders import TextEmbedder, embedder
from dprepro.text.wordlist import searchable

METHODS = ("multi-sweep", "single sweep", "opposites", "natural")
_CHUNK = 64  # texts for one call of the embedder


@cache
def opposites() -> tuple[tuple[str, str], ...]:
    """Return 4,000 pairs of a natural sentence and its opposite."""
    groups = tomllib.loads((paths.DATA / "wordlists" / "opposites.toml").read_text(encoding="utf-8"))
    return tuple(
        (f"{subject} {one}.", f"{subject} {other}.")
        for group in groups.values()
        for subject, (one, other) in product(group["subjects"], group["opposites"])
    )


def natural_search(
    encoder: TextEmbedder,
    budget: int,
    rng: np.random.Generator,
    *,
    any_two: bool = False,
    progress: bool | None = None,
) -> SignalPair:
    """Find the furthest pair among natural sentences, embedded in random order until the budget is spent.

    Parameters
    ----------
    encoder, budget, rng, progress
        As for `signal_search`; there are 8,000 sentences, and no more are embedded.
    any_two : bool
        Compare every two sentences, not only each with its opposite.

    Returns
    -------
    SignalPair

    Raises
    ------
    ValueError
        A budget below 2, or an embedder that `signal_search` would refuse.
    """
    listed = opposites()
    count = int(positive_count("budget", budget, minimum=2)) // 2
    order = rng.permutation(len(listed))[:count]
    texts = [text for row in order for text in listed[row]]
    blocks: list[np.ndarray] = []
    with Meter(encoder, len(texts), progress) as meter:
        for start in range(0, len(texts), _CHUNK):
            block = meter.encode(texts[start : start + _CHUNK])
            blocks.append(block)
            if any_two:
                seen = np.concatenate(blocks)
                one, other = divmod(int(np.argmin(seen @ block.T)), len(block))
                distance = float(np.linalg.norm(seen[one] - block[other]))
            else:
                gaps = np.linalg.norm(block[::2] - block[1::2], axis=1)
                other = 2 * int(gaps.argmax())
                one, distance = start + other + 1, float(gaps.max())
            meter.offer((texts[one], texts[start + other]), distance)
    return meter.best()


def report(
    key: str, rng: np.random.Generator, *, sweeps: int, length: int, checkpoints: list[int]
) -> dict[str, Any]:
    """Run one search on the packaged embedder: an item of a saved result.

    Parameters
    ----------
    key : str
        Method (one of `METHODS`), budget and number of the run: "multi-sweep, 2000, run 3".
    rng : numpy.random.Generator
    sweeps, length : int
        Of the multi-sweep search; words of a searched sentence.
    checkpoints : list of int
        Where to keep the trajectory: at these numbers of embeddings and at its end.

    Returns
    -------
    dict
        As `signal_item.kept` has it.

    Raises
    ------
    ValueError
        For a key that names no method or budget.
    KeyboardInterrupt
        Half a search is no item.
    """
    method, budget = method_and_budget(key, METHODS)
    encoder = embedder(threads=1)
    if method in ("opposites", "natural"):
        found = natural_search(encoder, budget, rng, any_two=method == "natural")
    else:
        found = signal_search(
            encoder,
            searchable(encoder.vocabulary),
            budget,
            rng,
            sweeps=1 if method == "single sweep" else sweeps,
            length=length,
        )
    if found.interrupted:
        raise KeyboardInterrupt
    return kept(found, checkpoints)
