"""Search for two texts with embeddings far apart that knows which words to try (SnapAudit, arXiv 2511.13502).

`signal_search` replaces words by those of a random subset of the vocabulary, as the paper does. Here the subset is
chosen: all words are ranked for a place by a guess that costs little, and the best of the ranking are embedded. Two
guesses:

* the gradient through the embedder (`text.embedder_gradient`): a forward and a backward pass for each place, which
  count as three embeddings;
* the effect that each word has alone (`WordCache`): all words embedded once, as texts of one word. Whether those
  embeddings are counted is for the report to say: they serve every search with this embedder.

As before, one sentence is the anchor while the words of the other are replaced in turn, then they swap roles. The
first sweep tries few words a place and each next one more, words that were tried in the same sentence never again: so
the way to the end of a large budget passes through the ends of the smaller ones, and one run is read at all of them.
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
    """

    cost = 0

    def __init__(self, encoder: TextEmbedder, words: Sequence[str]) -> None:
        self.encoder, self.words = encoder, tuple(words)
        self.vectors = np.asarray(encoder.encode(self.words), dtype=np.float64)

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Embed texts, as the encoder does."""
        return self.encoder.encode(texts)

    def slopes(self, sentence: Sequence[str], place: int, anchor: ArrayLike) -> Array:
        """Cosine of each word and the anchor, shape (len(words),)."""
        return self.vectors @ np.asarray(anchor)


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
        Draws the two sentences that it starts from; nothing else is random.
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
        search = _Search(ranker, meter, budget, rng.integers(len(words), size=(2, places)))
        while search.sweep(int(tried_at_once)):
            tried_at_once *= growth
    return meter.best()


class _Search:
    """The pair as it stands, in places of the list of words, and which words were tried where."""

    def __init__(self, ranker: Ranker, meter: Meter, budget: int, pair: NDArray[np.int64]) -> None:
        self.ranker, self.meter, self.budget, self.pair = ranker, meter, budget, pair
        self.vectors = meter.encode([self._text(sentence) for sentence in pair])
        self.tried: dict[tuple[int, ...], set[int]] = {}
        self._offer(float(np.linalg.norm(self.vectors[0] - self.vectors[1])))

    def sweep(self, count: int) -> bool:
        """Try up to `count` words at each place of both sentences; False once nothing more can be tried."""
        before = self.meter.used
        for moving in (1, 0):  # the first sentence is the first anchor
            for place in range(self.pair.shape[1]):
                affordable = self.budget - self.meter.used - self.ranker.cost
                if affordable < 1:
                    return False
                self._replace(moving, place, min(count, affordable))
        return self.meter.used > before

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
