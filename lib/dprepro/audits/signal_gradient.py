"""Search for two texts with embeddings far apart that knows which words to try (SnapAudit, arXiv 2511.13502).

`signal_search` replaces words by those of a random subset of the vocabulary, as the paper does. Here the subset is
chosen: all words are ranked for a place by a guess that costs little, and the best of the ranking are embedded. Two
guesses:

* the gradient through the embedder (`text.embedder_gradient`): two forward and two backward passes for each place,
  which count as six embeddings;
* the effect that each word has alone (`WordCache`): all words embedded once, as texts of one word. Whether those
  embeddings are counted is for the report to say: they serve every search with this embedder.

As before, one sentence is the anchor while the words of the other are replaced in turn, then they swap roles. The
first sweep tries few words a place and each next one more, words that were tried in the same sentence never again.
After some sweeps hardly any single word is left that takes the pair further. Then some words of the best pair are
drawn anew and the climb starts again from there (iterated local search). Nothing depends on the budget but where the
search ends, so one run is read at all smaller budgets.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.signal_search import Meter, SignalPair
from dprepro.base.check import finite, in_interval, positive_count
from dprepro.text.embedders import TextEmbedder

Array = NDArray[np.float64]
FIRST, GROWTH = 8, 1.5  # words tried at each place in the first sweep, and how many times more in each next
SWEEPS, SHAKEN = 3, 2  # of a climb; words of each sentence that are drawn anew after it


class Ranker(Protocol):
    """An embedder that guesses what each word of a list would do."""

    @property
    def words(self) -> Sequence[str]:
        """What may be written."""

    @property
    def cost(self) -> int:
        """Embeddings that a guess counts for."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """As `TextEmbedder.encode`."""

    def slopes(self, sentence: Sequence[str], place: int, anchor: Array) -> Array:
        """A number for each word, small where it takes the sentence far from the anchor; shape (len(words),)."""


class WordCache:
    """Ranks words by their own embeddings, whatever the sentence.

    Parameters
    ----------
    encoder : TextEmbedder
    words : sequence of str
        All are embedded here, once; `len(words)` embeddings that no search counts.

    Raises
    ------
    ValueError
        A text in the place of a list of words, or an encoder that returns another shape or NaN.
    """

    cost = 0

    def __init__(self, encoder: TextEmbedder, words: Sequence[str]) -> None:
        if isinstance(words, str):
            raise ValueError(f"words must be a list of words, got {words!r:.80}")
        self.encoder, self.words = encoder, tuple(words)
        self.vectors = finite("embeddings of words", encoder.encode(self.words))
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words):
            raise ValueError(
                f"embeddings of {len(self.words)} words must have shape ({len(self.words)}, d), "
                f"got {self.vectors.shape}"
            )

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Embed texts, as the encoder does."""
        return self.encoder.encode(texts)

    def slopes(self, sentence: Sequence[str], place: int, anchor: ArrayLike) -> Array:
        """Cosine of each word and the anchor, shape (len(words),).

        Raises
        ------
        ValueError
            An anchor of another shape or NaN.
        """
        direction = finite("anchor", anchor)
        if direction.shape != self.vectors.shape[1:]:
            raise ValueError(f"anchor must have shape {self.vectors.shape[1:]}, got {direction.shape}")
        return self.vectors @ direction


def ranked_search(
    ranker: Ranker,
    budget: int,
    rng: np.random.Generator,
    *,
    length: int = 8,
    first: int = FIRST,
    growth: float = GROWTH,
    progress: bool | None = None,
) -> SignalPair:
    """Search for two sentences with embeddings far apart, embedding the words of highest rank at each place.

    Parameters
    ----------
    ranker : Ranker
        `text.embedder_gradient.WordGradient` or `WordCache`. Its vectors must be of length one.
    budget : int
        Embeddings, those that guesses count for included; the search ends when not one more fits.
    rng : numpy.random.Generator
        Draws the two sentences that it starts from, and the words that a new climb starts with.
    length : int
        Words of a sentence, at least 2.
    first : int
        Words tried at each place in the first sweep.
    growth : float
        How many times more in each next sweep, at least 1.
    progress : bool, optional
        Show a bar; by default on a terminal only.

    Returns
    -------
    SignalPair
        After Ctrl-C, what was found until then.

    Raises
    ------
    ValueError
        Fewer than two different words, a budget that does not pay for the first guess and a word, slopes of another
        shape or NaN, or an embedder that `signal_search` would refuse.
    """
    words = ranker.words
    if len(set(words)) < 2 or len(set(words)) < len(words):
        raise ValueError(f"words must hold at least 2 words, each once, got {len(words)}")
    places = int(positive_count("length", length, minimum=2))
    tried_at_once = float(positive_count("first", first))
    in_interval("growth", growth, 1.0, np.inf, closed="left")
    budget = int(positive_count("budget", budget, minimum=3 + ranker.cost))
    with Meter(ranker, budget, progress) as meter:
        search = _Search(ranker, meter, budget)
        pair = rng.integers(len(words), size=(2, places))
        while search.start(pair):
            for number in range(SWEEPS):
                search.sweep(int(tried_at_once * growth**number))
            pair = search.best_shaken(rng)
    return meter.best()


class _Search:
    """The pair as it stands, in places of the list of words, and which words were tried where."""

    def __init__(self, ranker: Ranker, meter: Meter, budget: int) -> None:
        self.ranker, self.meter, self.budget = ranker, meter, budget
        self.tried: dict[tuple[int, ...], set[int]] = {}
        self.best: tuple[float, NDArray[np.int64]] | None = None

    def start(self, pair: NDArray[np.int64]) -> bool:
        """Embed a pair to climb from; False where a word could not be tried then."""
        if self._affordable < 3:
            return False
        self.pair = pair
        self.vectors = self.meter.encode([self._text(sentence) for sentence in pair])
        self._offer(float(np.linalg.norm(self.vectors[0] - self.vectors[1])))
        return True

    def sweep(self, count: int) -> None:
        """Try up to `count` words at each place of both sentences, as far as the budget goes."""
        for moving in (1, 0):  # the first sentence is the first anchor
            for place in range(self.pair.shape[1]):
                if self._affordable >= 1:
                    self._replace(moving, place, min(count, self._affordable))

    def best_shaken(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the best pair at the end of a climb, with some words of both sentences drawn anew."""
        reached = float(np.linalg.norm(self.vectors[0] - self.vectors[1]))
        if self.best is None or reached > self.best[0]:
            self.best = reached, self.pair
        pair = self.best[1].copy()
        for sentence in pair:
            places = rng.choice(len(sentence), size=min(SHAKEN, len(sentence)), replace=False)
            sentence[places] = rng.integers(len(self.ranker.words), size=len(places))
        return pair

    @property
    def _affordable(self) -> int:
        """Words that can be tried at the next place."""
        return self.budget - self.meter.used - self.ranker.cost

    def _replace(self, moving: int, place: int, count: int) -> None:
        """Put that of the best-ranked new words in place that takes the sentence furthest, if any does."""
        sentence, anchor = self.pair[moving], self.vectors[1 - moving]
        known = self.tried.setdefault((moving, place, *np.delete(sentence, place).tolist()), set())
        known.add(int(sentence[place]))
        if len(known) == len(self.ranker.words):
            return
        slopes = finite(
            "slopes", self.ranker.slopes([self.ranker.words[row] for row in sentence], place, anchor)
        )
        if slopes.shape != (len(self.ranker.words),):
            raise ValueError(f"slopes must have shape ({len(self.ranker.words)},), got {slopes.shape}")
        self.meter.used += self.ranker.cost
        ranked = np.argsort(slopes, kind="stable")[: count + len(known)]
        chosen = [int(row) for row in ranked if int(row) not in known][:count]
        known.update(chosen)
        versions = np.repeat(sentence[None], len(chosen), axis=0)
        versions[:, place] = chosen
        found = self.meter.encode([self._text(version) for version in versions])
        distances = np.linalg.norm(found - anchor, axis=1)
        at = int(distances.argmax())
        if distances[at] > np.linalg.norm(self.vectors[moving] - anchor):
            self.pair[moving], self.vectors[moving] = versions[at], found[at]
        self._offer(float(np.linalg.norm(self.vectors[moving] - anchor)))

    def _offer(self, distance: float) -> None:
        self.meter.offer([self._text(sentence) for sentence in self.pair], distance)

    def _text(self, sentence: NDArray[np.int64]) -> str:
        return " ".join(self.ranker.words[row] for row in sentence)
