"""Which film reviews are targets, private and auxiliary in the membership attack on synthetic text.

The stand-in for SynBench's nine corpora (arXiv 2509.14594): short snippets of film reviews, which the public model
that is fine-tuned (``text.tiny_lm``) has not seen. Drawn once and saved as ``synbench_targets``, so that nobody who
generates or scores has to embed thousands of texts; ``synbench_films`` reads it.
"""

from typing import Any

import numpy as np

from dprepro.audits.ngram_design import inserted_canaries, membership_design, split_texts
from dprepro.audits.outliers import find_outliers
from dprepro.text.corpora import corpus
from dprepro.text.embedders import embedder
from dprepro.text.tiny_lm import tiny_lm

CORPUS = "movies"


def choose(
    key: str,
    rng: np.random.Generator,
    *,
    fewest: int,
    most: int,
    each: int,
    subsets: int,
    size: int,
) -> dict[str, Any]:
    """Draw targets and membership design: the values of the saved result ``synbench_targets``.

    Parameters
    ----------
    key : str
        Its one item.
    rng : numpy.random.Generator
    fewest, most : int
        Snippets with so many tokens of the small causal model take part. Longer ones take longer to learn and write.
    each : int
        Targets of each kind: outliers by embedding (half by distance, half by local outlier factor), random members,
        inserted canaries, of as many tokens as the others may have.
    subsets, size : int
        Of the design (`ngram_design.membership_design`, exact halves).

    Returns
    -------
    dict
        Numbers of snippets in ``corpora.corpus("movies").without_copies()``: outliers, members, private (the pool),
        public (auxiliary, in no reference), subsets (flat, `size` for each), references (flat); canaries (texts) and
        canary_sources (numbers of the snippets they begin like and take their labels from); included and
        references_included (flat, 0/1, a row for each subset or reference); distance and local outlier factor of the
        outliers, the medians over all snippets, and how many copies were left out before.

    Raises
    ------
    ValueError
        As the functions called.
    """
    films = corpus(CORPUS).without_copies().texts
    tokenizer = tiny_lm().tokenizer
    lengths = np.array([len(row) for row in tokenizer(films)["input_ids"]])
    taken = np.flatnonzero((lengths >= fewest) & (lengths <= most))
    texts = [films[place] for place in taken]
    found = find_outliers(embedder(threads=1).encode(texts))
    split = split_texts(len(texts), found.worst, each, rng)
    canaries, sources = inserted_canaries(
        [texts[place] for place in split.auxiliary],
        each,
        rng,
        lambda canary: fewest <= len(tokenizer(canary)["input_ids"]) <= most,
    )
    origin = split.auxiliary[sources]
    # A snippet that a canary begins like is told by its bigrams: it is neither a reference nor public.
    auxiliary = np.setdiff1d(split.auxiliary, origin)
    design = membership_design(split.private, auxiliary, 3 * each, subsets, size, rng)
    return {
        "outliers": taken[split.outliers],
        "members": taken[split.members],
        "canaries": canaries,
        "canary_sources": taken[origin],
        "private": taken[split.private],
        "public": taken[np.setdiff1d(auxiliary, design.references)],
        "subsets": taken[design.private].ravel(),
        "included": design.included.astype(int).ravel(),
        "references": taken[design.references].ravel(),
        "references_included": design.references_included.astype(int).ravel(),
        "distances": np.round(found.distance[split.outliers], 4),
        "factors": np.round(found.factor[split.outliers], 4),
        "median_distance": round(float(np.median(found.distance)), 4),
        "median_factor": round(float(np.median(found.factor)), 4),
        "copies": found.copies,
    }
