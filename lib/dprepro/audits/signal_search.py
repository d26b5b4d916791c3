"""Multi-sweep greedy search for two texts whose embeddings lie far apart (SnapAudit, arXiv 2511.13502).

An audit of embedding-space aggregation sees its canary through the distance d of two signal texts: over T partitions
the mean moves by d/T, and two unit vectors are at most 2 apart. The search starts from pairs of random sentences.
One sentence is the anchor; each word of the other in turn is replaced by that word of a random subset of the
vocabulary that takes the sentence furthest from the anchor; then they swap roles. Once both ways round is a sweep.

The paper does not state the number of seed pairs, of sweeps, or the vocabulary: all are arguments here, and what is
held fixed is the number of embeddings. A single sweep is ``sweeps=1``: larger subsets, each word visited once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dprepro.base.check import finite, positive_count
from dprepro.text.embedders import TextEmbedder

_LENGTH_SLACK = 1e-3  # of a vector that counts as one of length one: half precision passes


@dataclass(frozen=True)
class SignalPair:
    """The best pair of a search, and the way to it.

    Attributes
    ----------
    first, second : str
    distance : float
        Euclidean distance of their embeddings, in [0, 2].
    trajectory : tuple of (int, float)
        Embeddings used and the best distance, after each call of the embedder from the first pair on.
    interrupted : bool
        Whether Ctrl-C ended the search before it was through.
    """

    first: str
    second: str
    distance: float
    trajectory: tuple[tuple[int, float], ...]
    interrupted: bool = False

    @property
    def embeddings(self) -> int:
        """Embeddings used."""
        return self.trajectory[-1][0]


def signal_search(
    encoder: TextEmbedder,
    words: Sequence[str],
    budget: int,
    rng: np.random.Generator,
    *,
    sweeps: int = 4,
    seeds: int | Sequence[tuple[str, str]] = 1,
    length: int = 8,
    progress: bool | None = None,
) -> SignalPair:
    """Search for two sentences with embeddings far apart, within a budget of embeddings.

    Parameters
    ----------
    encoder : TextEmbedder
        Its vectors must be of length one. Every text given to it counts against the budget.
    words : sequence of str
        What may be written; `dprepro.text.wordlist.searchable` filters a vocabulary.
    budget : int
        Embeddings. Each of the sweeps x (words of all sentences) replacements gets the same number of candidates, as
        many as the budget allows and at most all other words.
    rng : numpy.random.Generator
    sweeps : int
        Sweeps over each pair (T of the paper).
    seeds : int or sequence of (str, str)
        Number of pairs of random sentences (M of the paper), or the pairs. All pairs take a sweep before the next.
    length : int
        Words of a random sentence, at least 2.
    progress : bool, optional
        Show a bar; by default on a terminal only.

    Returns
    -------
    SignalPair
        After Ctrl-C, what was found until then. The same seed finds the same pair on the same CPU; the last bits of
        an embedding differ between CPUs, and with them, at a near tie, the word chosen.

    Raises
    ------
    ValueError
        Fewer than two words, a seed sentence of one word, a budget that does not pay for one candidate at each
        replacement, or an embedder that returns another shape, NaN or vectors not of length one.
    """
    positive_count("sweeps", sweeps)
    pool = sorted(set(words))
    if len(pool) < 2:
        raise ValueError(f"words must hold at least 2 different words, got {len(pool)}")
    pairs = _seed_pairs(seeds, pool, int(positive_count("length", length, minimum=2)), rng)
    replacements = sweeps * sum(len(sentence) for pair in pairs for sentence in pair)
    least = 2 * len(pairs) + replacements
    budget = int(positive_count("budget", budget))
    if budget < least:
        raise ValueError(
            f"budget must be at least {least}, two texts for each of {len(pairs)} seed pairs and one for each of "
            f"{replacements} replacements, got {budget}"
        )
    candidates = min((budget - 2 * len(pairs)) // replacements, len(pool) - 1)
    with Meter(encoder, 2 * len(pairs) + replacements * candidates, progress) as meter:
        states = [(pair, meter.encode([" ".join(sentence) for sentence in pair])) for pair in pairs]
        for pair, vectors in states:
            meter.offer(pair, float(np.linalg.norm(vectors[0] - vectors[1])))
        for _ in range(sweeps):
            for pair, vectors in states:
                for moving in (1, 0):  # the first sentence is the first anchor
                    for position in range(len(pair[moving])):
                        subset = _others(pool, pair[moving][position], candidates, rng)
                        _replace(pair, vectors, moving, position, subset, meter)
    return meter.best()


class Meter:
    """An embedder whose calls are counted and checked, with the best pair so far.

    As a context it shows the progress and ends at Ctrl-C as soon as there is a pair to keep.
    """

    def __init__(self, encoder: TextEmbedder, total: int, progress: bool | None) -> None:
        self.encoder = encoder
        self.used = 0
        self.interrupted = False
        self._found: tuple[str, str] | None = None
        self._trajectory: list[tuple[int, float]] = []
        self._bar = tqdm(total=total, unit="text", disable=None if progress is None else not progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._bar.close()
        self.interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        return self.interrupted and self._found is not None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the embeddings of `texts`, one a row, or raise ValueError if they are no unit vectors."""
        self.used += len(texts)
        vectors = finite("embeddings", self.encoder.encode(texts))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"embeddings of {len(texts)} texts must have shape ({len(texts)}, d), got {vectors.shape}"
            )
        lengths = np.linalg.norm(vectors, axis=1)
        worst = lengths[np.abs(lengths - 1).argmax()]
        if abs(worst - 1) > _LENGTH_SLACK:
            raise ValueError(f"embeddings must be of Euclidean length 1, got {worst:g}")
        self._bar.update(len(texts))
        return vectors

    def offer(self, pair: Sequence[Sequence[str] | str], distance: float) -> None:
        """Keep a pair, of texts or of lists of words, if it is the furthest so far, and note where the search is."""
        if not self._trajectory or distance > self._trajectory[-1][1]:
            first, second = (text if isinstance(text, str) else " ".join(text) for text in pair)
            self._found = first, second
            self._bar.set_postfix(d=f"{distance:.3f}", refresh=False)
        else:
            distance = self._trajectory[-1][1]
        self._trajectory.append((self.used, distance))

    def best(self) -> SignalPair:
        """Return the best pair and the way to it."""
        assert self._found is not None  # every search offers its seeds first
        return SignalPair(*self._found, self._trajectory[-1][1], tuple(self._trajectory), self.interrupted)


def _seed_pairs(
    seeds: int | Sequence[tuple[str, str]], pool: list[str], length: int, rng: np.random.Generator
) -> list[list[list[str]]]:
    if isinstance(seeds, int | np.integer):
        count = int(positive_count("seeds", seeds))
        drawn = rng.integers(len(pool), size=(count, 2, length))
        return [[[pool[row] for row in sentence] for sentence in pair] for pair in drawn]
    pairs = [[text.split() for text in pair] for pair in seeds]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"seeds must be a number or pairs of sentences, got {seeds!r:.80}")
    for sentence in (sentence for pair in pairs for sentence in pair):
        if len(sentence) < 2:
            raise ValueError(f"seeds must be sentences of at least 2 words, got {' '.join(sentence)!r}")
    return pairs


def _others(pool: list[str], word: str, count: int, rng: np.random.Generator) -> list[str]:
    """Draw `count` different words other than `word`, whose embedding is already known."""
    drawn = rng.choice(len(pool), size=count + 1, replace=False)
    return [pool[row] for row in drawn if pool[row] != word][:count]


def _replace(
    pair: list[list[str]],
    vectors: NDArray[np.float64],
    moving: int,
    position: int,
    subset: list[str],
    meter: Meter,
) -> None:
    """Put the word of the subset in place that takes the moving sentence furthest from the other, if any does."""
    sentence, anchor = pair[moving], vectors[1 - moving]
    head, tail = sentence[:position], sentence[position + 1 :]
    found = meter.encode([" ".join([*head, word, *tail]) for word in subset])
    distances = np.linalg.norm(found - anchor, axis=1)
    at = int(distances.argmax())
    if distances[at] > np.linalg.norm(vectors[moving] - anchor):
        sentence[position] = subset[at]
        vectors[moving] = found[at]
    meter.offer(pair, float(np.linalg.norm(vectors[moving] - anchor)))
