"""SANTEXT and CUSTEXT: words replaced by near ones, with a probability that falls with the distance.

SANTEXT (Yue et al., "Differential Privacy for Text Analytics via Natural Text Sanitization", arXiv 2106.01221,
eq. 2): P(y|x) proportional to exp(-epsilon d(x, y)/2) over the whole vocabulary. That is metric DP: two words at
distance d may be told apart by epsilon d, so one epsilon means another protection with other embeddings. SANTEXT+
protects the rare words and mostly keeps the others. CUSTEXT (Chen et al., "A Customized Text Sanitization Mechanism
with Differential Privacy", arXiv 2207.09136, section 4) cuts the vocabulary into groups of K near words and replaces
a word within its group only: epsilon-DP between words of one group, and no protection between words of two, since the
output shows the group. Distances are computed in blocks of words; the matrix of all is never held.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import KEEP, IntArray, Vocabulary

SEEDS = 64  # words whose distances are computed at once when groups are made


@dataclass(frozen=True, eq=False)
class Santext(PromptMechanism):
    """SANTEXT. Metric DP: epsilon times the distance of two words bounds what tells them apart.

    A word outside the vocabulary becomes a word drawn uniformly, as in the public code. Budget: epsilon times a
    distance for each token; tokens of a text, and turns, add up.

    Parameters
    ----------
    vocabulary : Vocabulary
    keep : {"none", "punctuation", "stop words", "both"}
    """

    vocabulary: Vocabulary
    keep: str = "none"
    notion: ClassVar[str] = "metric DP"
    outside: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        one_of("keep", self.keep, KEEP)

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the output distribution of each input, shape (n, V); precise to six digits."""
        return _log_softmax(self._scores(np.asarray(rows, np.int64), epsilon))

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon times the largest distance of two words, by the triangle inequality through their mean.

        The bound exceeds the distance itself by a factor below 2 and costs one pass over the words.
        """
        vectors = self.vocabulary.vectors
        farthest = np.sqrt(((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1).max())
        return 2 * float(farthest) * _epsilon(epsilon)

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input by inversion; equal inputs share one pass over the vocabulary."""
        wanted = np.asarray(rows, np.int64)
        level, found = rng.random(len(wanted)), np.empty(len(wanted), np.int64)
        inputs, which = np.unique(wanted, return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(inputs) + 1))
        width = max(1, BLOCK // len(self.vocabulary))
        for start in range(0, len(inputs), width):
            # In double precision: the same sample on any CPU.
            scores = self.vocabulary.distances(inputs[start : start + width], double=True)
            scores *= -_epsilon(epsilon) / 2
            for row, line in enumerate(np.exp(scores, out=scores), start):
                cumulative = line.cumsum()
                places = order[ends[row] : ends[row + 1]]
                found[places] = np.searchsorted(cumulative, level[places] * cumulative[-1], side="right")
        return found

    def _scores(self, rows: IntArray, epsilon: float) -> NDArray[np.float32]:
        scores = self.vocabulary.distances(rows)
        scores *= np.float32(-_epsilon(epsilon) / 2)
        return scores


@dataclass(frozen=True, eq=False)
class SantextPlus(Santext):
    """SANTEXT+: sensitive words become sensitive words; any other is kept with probability 1 - p.

    What is not kept becomes a sensitive word with SANTEXT's probabilities. Metric DP between sensitive words alone: a
    common word that comes out shows that it came in, so over all pairs the loss is infinite.

    Parameters
    ----------
    vocabulary, keep
        As `Santext`.
    sensitive : bool array, shape (V,)
        By `rare_words`; all words by default, which is SANTEXT.
    p : float
        In (0, 1]; .2 in the public code.
    """

    sensitive: NDArray[np.bool_] | None = None
    p: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        in_interval("p", self.p, 0.0, 1.0, closed="right")
        mask = np.ones(len(self.vocabulary), bool) if self.sensitive is None else np.asarray(self.sensitive)
        if mask.shape != (len(self.vocabulary),) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"sensitive must have one truth value for each of {len(self.vocabulary)} words, one of them true, "
                f"got shape {mask.shape}, {np.count_nonzero(mask)} true"
            )
        object.__setattr__(self, "sensitive", mask)

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the output distribution of each input, shape (n, V)."""
        assert self.sensitive is not None
        wanted = np.asarray(rows, np.int64)
        scores = self._scores(wanted, epsilon)
        scores[:, ~self.sensitive] = -np.inf
        found = _log_softmax(scores)
        common = np.flatnonzero(~self.sensitive[wanted])
        found[common] += np.log(self.p)
        with np.errstate(divide="ignore"):
            found[common, wanted[common]] = np.log1p(-self.p)
        return found

    def stated_loss(self, epsilon: float) -> float:
        """Return infinity, where there is a word that is not sensitive; else as SANTEXT."""
        assert self.sensitive is not None
        loss = super().stated_loss(epsilon)
        return loss if self.sensitive.all() else np.inf

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input, from `log_channel` by inversion."""
        return PromptMechanism.draw(self, rows, epsilon, rng, contexts)


def rare_words(vocabulary: Vocabulary, counts: Mapping[str, int], share: float = 0.5) -> NDArray[np.bool_]:
    """Mark the rarest words as sensitive.

    Parameters
    ----------
    vocabulary : Vocabulary
    counts : mapping of word to int
        From public texts: if it comes from the private ones, it is a release of its own. Other words count 0.
    share : float
        Of the words that are sensitive, in (0, 1]; the paper's w.

    Returns
    -------
    bool array, shape (V,)
        ceil(share V) of them true; among words of one count the later ones first.

    Raises
    ------
    ValueError
        A share outside (0, 1].
    """
    in_interval("share", share, 0.0, 1.0, closed="right")
    seen = np.array([counts.get(word, 0) for word in vocabulary.words])
    last_first = np.lexsort((-np.arange(len(seen)), seen))
    mask = np.zeros(len(seen), bool)
    mask[last_first[: int(np.ceil(share * len(seen)))]] = True
    return mask


@dataclass(frozen=True, eq=False)
class Custext(PromptMechanism):
    """CUSTEXT; CUSTEXT+ is the same with ``keep="stop words"``. DP within a group of words, nothing between groups.

    In its group a word x becomes y with probability proportional to exp(epsilon u/2), where u = (dmin - d(x, y)) /
    (dmax - dmin) over the group, in [-1, 0]. A word outside the vocabulary is kept. Budget: epsilon a token among
    words of one group, infinite between groups, for one token already.

    Parameters
    ----------
    vocabulary, keep
        As `Santext`.
    k : int
        Words in a group; 20 in the paper.
    """

    vocabulary: Vocabulary
    keep: str = "none"
    k: int = 20
    notion: ClassVar[str] = "contested"
    outside: ClassVar[str] = "kept"

    def __post_init__(self) -> None:
        one_of("keep", self.keep, KEEP)
        object.__setattr__(self, "k", int(positive_count("k", self.k)))
        if self.k > len(self.vocabulary):
            raise ValueError(f"k must be at most the number of words, {len(self.vocabulary)}, got {self.k}")

    @cached_property
    def group(self) -> IntArray:
        """Number of the group of each word, shape (V,): ceil(V/k) groups, the last may be smaller."""
        return disjoint_groups(self.vocabulary, self.k)

    @cached_property
    def members(self) -> list[IntArray]:
        """Rows of the words of each group."""
        order = np.argsort(self.group, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.group[order])) + 1)

    def within(self, group: int, epsilon: float) -> Array:
        """Return the channel of one group, shape (m, m): P(y|x) for its `members`, x down and y across."""
        vectors = self.vocabulary.vectors[self.members[group]].astype(float)
        distance = np.linalg.norm(vectors[:, None] - vectors, axis=2)
        spread = distance.max(axis=1, keepdims=True) - distance.min(axis=1, keepdims=True)
        # Equal vectors, or a group of one: nothing tells its words apart.
        score = (distance.min(axis=1, keepdims=True) - distance) / np.where(spread > 0, spread, 1)
        weight = np.exp(_epsilon(epsilon) / 2 * score)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the output distribution of each input, shape (n, V): -inf outside its group."""
        wanted = np.asarray(rows, np.int64)
        found = np.full((len(wanted), len(self.vocabulary)), -np.inf)
        for number in np.unique(self.group[wanted]):
            places, members = np.flatnonzero(self.group[wanted] == number), self.members[number]
            with np.errstate(divide="ignore"):
                inside = np.log(self.within(number, epsilon))
            found[places[:, None], members] = inside[np.searchsorted(members, wanted[places])]
        return found

    def stated_loss(self, epsilon: float) -> float:
        """Return infinity if there are two groups; else epsilon."""
        claimed = _epsilon(epsilon)
        return claimed if self.k >= len(self.vocabulary) else np.inf

    def loss_within(self, epsilon: float) -> float:
        """Return the largest loss between two words of one group, exactly; epsilon bounds it."""
        tables = (np.log(self.within(number, epsilon)) for number in range(len(self.members)))
        return float(max((table.max(axis=0) - table.min(axis=0)).max() for table in tables))

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input within its group."""
        wanted = np.asarray(rows, np.int64)
        level, found = rng.random(len(wanted)), np.empty(len(wanted), np.int64)
        for number in np.unique(self.group[wanted]):
            places, members = np.flatnonzero(self.group[wanted] == number), self.members[number]
            cumulative = self.within(number, epsilon).cumsum(axis=1)
            lines = cumulative[np.searchsorted(members, wanted[places])]
            picked = (lines < (level[places] * lines[:, -1])[:, None]).sum(axis=1)
            found[places] = members[picked]
        return found


def disjoint_groups(vocabulary: Vocabulary, k: int) -> IntArray:
    """Cut a vocabulary into groups of k words: the first word without a group takes the k - 1 nearest such words.

    The public code of CUSTEXT starts from the most frequent word of a corpus; here it is the order of the vocabulary.
    Returns the number of the group of each word, shape (V,).
    """
    number = np.full(len(vocabulary), -1)
    vectors = vocabulary.vectors.astype(np.float64)  # a last bit less and a word would change its group
    squares = np.einsum("ij,ij->i", vectors, vectors)
    groups = 0
    while len(left := np.flatnonzero(number < 0)):
        seeds = left[:SEEDS]
        squared = squares[left] - 2 * vectors[seeds] @ vectors[left].T  # up to a constant for each seed
        free = np.ones(len(left), bool)
        for place, row in enumerate(squared):
            if not free[place]:
                continue
            row[~free], row[place] = np.inf, -np.inf
            size = min(k, int(free.sum()))
            taken = np.argpartition(row, size - 1)[:size]
            free[taken], number[left[taken]] = False, groups
            groups += 1
    return number


def _epsilon(epsilon: float) -> float:
    return float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither"))


def _log_softmax(scores: NDArray[np.float32]) -> Array:
    scores -= scores.max(axis=1, keepdims=True)
    total = np.exp(scores).sum(axis=1, keepdims=True, dtype=np.float64)
    return scores.astype(np.float64) - np.log(total)
