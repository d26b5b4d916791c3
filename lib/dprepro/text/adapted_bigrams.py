"""Experts for an ensemble: bigram counts of disjoint shards of text, each adapted from one public model.

The hierarchical Dirichlet language model (MacKay and Peto 1995) with a public model at its root. For an expert with
counts c, the token h before, and the public distribution p0 of the next token:

    unigram(w) = (c(w) + a p0(w)) / (c() + a),      p(w) = (c(h, w) + b unigram(w)) / (c(h) + b).

That is what fine-tuning is to a large model: p0 where the shard says nothing, its own words where it does. The public
model may be any that gives p0, so this needs no torch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]
Row = Sequence[int]


class AdaptedBigrams:
    """An ensemble of experts, one for each shard.

    Parameters
    ----------
    shards : sequence of sequence of rows
        For each expert its texts, as token numbers with the mark that stands before a text in front; the first
        token of a row is given, the others are counted.
    vocabulary : int
        Number of tokens, the length of every p0.
    unigram_weight, bigram_weight : float
        a and b above, positive: counts that p0 and the unigram model are worth. The defaults come from a coarse grid
        on the dialogue corpus (eight shards of 3,600 tokens): near the best for one expert and for their mean.
    fewest : int
        Tokens that a shard must have.

    Raises
    ------
    ValueError
        No shards, one with too few tokens (named by its number), a token outside the vocabulary.
    """

    def __init__(
        self,
        shards: Sequence[Sequence[Row]],
        vocabulary: int,
        unigram_weight: float = 10_000.0,
        bigram_weight: float = 10.0,
        fewest: int = 100,
    ) -> None:
        self.vocabulary = int(positive_count("vocabulary", vocabulary))
        self._a = float(in_interval("unigram_weight", unigram_weight, 0, np.inf, closed="neither"))
        self._b = float(in_interval("bigram_weight", bigram_weight, 0, np.inf, closed="neither"))
        least = int(positive_count("fewest", fewest))
        if len(shards) == 0:
            raise ValueError("shards must hold at least one shard, got none")
        pairs = [_pairs(rows) for rows in shards]
        self._unigrams = np.zeros((len(shards), self.vocabulary))
        keys = []
        for number, (before, after) in enumerate(pairs):
            if len(after) < least:
                raise ValueError(
                    f"shards must have at least {least} tokens each, got {len(after)} in shard {number}"
                )
            for token in (before, after):
                if token.min() < 0 or token.max() >= self.vocabulary:
                    bad = token[(token < 0) | (token >= self.vocabulary)][0]
                    raise ValueError(
                        f"shards must hold tokens from 0 to {self.vocabulary - 1}, got {bad} in shard {number}"
                    )
            self._unigrams[number] = np.bincount(after, minlength=self.vocabulary)
            keys.append((before * len(shards) + number) * self.vocabulary + after)
        # One sorted array of (token before, expert, token) with its counts: those behind one token lie together.
        self._keys, self._counts = np.unique(np.concatenate(keys), return_counts=True)

    def __len__(self) -> int:
        return len(self._unigrams)

    def distributions(self, before: int, public: ArrayLike) -> FloatArray:
        """Distribution of the next token by each expert.

        Parameters
        ----------
        before : int
            The token before it.
        public : array_like, shape (vocabulary,)
            What the public model says of the next token, after all that stands before.

        Returns
        -------
        array, shape (experts, vocabulary)

        Raises
        ------
        ValueError
            A public model over another vocabulary; a token outside it.
        """
        p0 = np.asarray(public, dtype=np.float64)
        if p0.shape != (self.vocabulary,):
            raise ValueError(f"public must have the experts' {self.vocabulary} tokens, got shape {p0.shape}")
        h = int(positive_count("before", before, minimum=0))
        if h >= self.vocabulary:
            raise ValueError(f"before must be a token from 0 to {self.vocabulary - 1}, got {h}")
        total = self._unigrams.sum(axis=1, keepdims=True)
        laws = (self._unigrams + self._a * p0) * (self._b / (total + self._a))
        width = len(self) * self.vocabulary
        low, high = np.searchsorted(self._keys, [h * width, (h + 1) * width])
        laws.flat[self._keys[low:high] - h * width] += self._counts[low:high]
        seen = np.bincount(
            (self._keys[low:high] - h * width) // self.vocabulary,
            weights=self._counts[low:high],
            minlength=len(self),
        )
        return np.asarray(laws / (seen + self._b)[:, None])


def _pairs(rows: Sequence[Row]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    long = [np.asarray(row, dtype=np.int64) for row in rows if len(row) > 1]
    if not long:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty
    return np.concatenate([row[:-1] for row in long]), np.concatenate([row[1:] for row in long])
