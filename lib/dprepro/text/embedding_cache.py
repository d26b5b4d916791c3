"""Embeddings kept by text: what is asked for again is not computed again.

Rounds of a search meet most texts twice, and runs at several budgets all read the same private texts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dprepro.text.embedders import TextEmbedder


class EmbeddingCache:
    """An embedder that remembers, for as long as it lives.

    Parameters
    ----------
    embedder : TextEmbedder

    Notes
    -----
    Embeddings in a batch differ in their last bits with the texts beside them (about 1e-7), so they do here with
    what was asked before; equal texts have equal vectors.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.floating]] = {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Return an array (len(texts), dimension), as the embedder gives it for the texts it has not seen."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new or not texts:
            found = self._embedder.encode(new)
            if not texts:
                return found
            self._known.update(zip(new, found, strict=True))
        return np.array([self._known[text] for text in texts])
