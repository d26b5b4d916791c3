"""Word vectors: one static vector a word, for mechanisms that replace words by near ones.

By default the input embeddings of the packaged MiniLM (384 dimensions, the whole words of its vocabulary); GloVe with
100 dimensions (Pennington, Socher and Manning 2014) where ``python -m dprepro fetch vectors`` has put it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import one_of, positive_count
from dprepro.text.corpora import fetched
from dprepro.text.packaged import weights

FloatArray = NDArray[np.float32]
NAMES = ("minilm", "glove-100d")


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Attributes
    ----------
    words : tuple of str
        Different from each other.
    vectors : float32 array, shape (len(words), dimension)
    """

    words: tuple[str, ...]
    vectors: FloatArray

    @cached_property
    def number(self) -> dict[str, int]:
        """Return the row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def __contains__(self, word: str) -> bool:
        return word in self.number

    def __getitem__(self, word: str) -> FloatArray:
        return self.vectors[self.number[word]]

    def nearest(self, word: str, k: int) -> list[tuple[str, float]]:
        """Return the k words nearest to one by Euclidean distance, itself not counted, with their distances.

        Raises
        ------
        ValueError
            The word has no vector, or k is not in 1, ..., len(words) - 1.
        """
        if word not in self:
            raise ValueError(f"word must be one of the {len(self.words):,} that have a vector, got {word!r}")
        count = int(positive_count("k", k))
        if count >= len(self.words):
            raise ValueError(f"k must be below the number of words, {len(self.words)}, got {k}")
        distance = np.linalg.norm(self.vectors - self[word], axis=1)
        distance[self.number[word]] = np.inf
        order = np.argsort(distance, kind="stable")[:count]
        return [(self.words[row], float(distance[row])) for row in order]

    def restricted(self, words: Sequence[str]) -> "WordVectors":
        """Return the vectors of the given words, in their order, without those that have none."""
        kept = [word for word in dict.fromkeys(words) if word in self]
        return WordVectors(tuple(kept), self.vectors[[self.number[word] for word in kept]])


def word_vectors(name: str = "minilm") -> WordVectors:
    """Return word vectors by name.

    Parameters
    ----------
    name : {"minilm", "glove-100d"}

    Raises
    ------
    ValueError
        Another name.
    FileNotFoundError
        GloVe has not been fetched, or the packaged model is not installed; the message has the command.
    """
    return _minilm() if one_of("name", name, NAMES) == "minilm" else _glove()


def _minilm() -> WordVectors:
    from safetensors import safe_open

    file = weights("all-minilm-l6-v2")
    with safe_open(file, framework="numpy") as tensors:
        name = next(key for key in tensors.keys() if key.endswith("word_embeddings.weight"))  # noqa: SIM118
        table = tensors.get_tensor(name)
    vocabulary = json.loads((file.parent / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    # Whole words only: no continuation ("##ing"), no special or unused entry ("[CLS]").
    whole = [word for word in vocabulary if not word.startswith(("##", "[")) and any(map(str.isalnum, word))]
    return WordVectors(tuple(whole), table[[vocabulary[word] for word in whole]].astype(np.float32))


def _glove() -> WordVectors:
    file = fetched("glove-100d.npz")
    if not file.is_file():
        raise FileNotFoundError(
            "GloVe vectors are not shipped (118 MB): run `python -m dprepro fetch vectors`, which needs npm"
        )
    with np.load(file) as saved:
        words = saved["words"].tobytes().decode().split("\n")
        return WordVectors(tuple(words), saved["vectors"])
