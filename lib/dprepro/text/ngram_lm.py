"""N-gram language models of order 1 to 4: fit, score, sample, on arrays of word numbers.

Words are what white space separates. For order n each text is read as n - 1 times <s>, its words, then </s>; the
probability of a text is that of its words and of </s>, each given the n - 1 before (Jurafsky and Martin, "Speech and
Language Processing", chapter 3). A model of order 1 has neither <s> nor </s>: it says nothing about lengths.
Smoothing: Laplace and add-k over nltk's vocabulary (the words, <UNK> and, from order 2 on, <s> and </s>), or
interpolated Kneser-Ney (Chen and Goodman 1999, section 2.7), whose lower orders count after how many different words
one occurs.

An n-gram is stored as (number of its context among the shorter ones, last word): the counts of one order are one
sorted array of integers, and scoring many texts is one binary search an order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, one_of, positive_count

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

START, END, UNKNOWN = "<s>", "</s>", "<UNK>"
_SPECIAL = (START, END, UNKNOWN)  # words number 0, 1, 2
SMOOTHINGS = ("laplace", "add_k", "kneser_ney")
_LARGEST_ORDER = 4
_DISCOUNTS = (0.1, 0.9)  # Kneser-Ney's estimate is kept inside: at 0 an unseen word would have no probability


def _sums(values: NDArray[np.generic]) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(values)])


class _Numbers(dict[str, int]):
    """Words to their numbers; a word never seen counts as <UNK>."""

    def __missing__(self, word: str) -> int:
        return 2


class _Level:
    """N-grams of one length that occur, sorted by context, then word."""

    def __init__(self, keys: IntArray, counts: FloatArray, contexts: int, words: int) -> None:
        self.keys, self.counts, self.words = keys, counts, words  # a key is context * words + word
        once, twice = (counts == 1).sum(), (counts == 2).sum()
        self.discount = float(np.clip(once / max(1, once + 2 * twice), *_DISCOUNTS))
        self._first = np.searchsorted(keys, np.arange(contexts + 1) * words)  # where each context begins
        self._mass = _sums(counts)

    @cached_property
    def _kinds(self) -> FloatArray:
        return _sums(self.counts > 0)

    @cached_property
    def _discounted(self) -> FloatArray:
        return _sums(np.maximum(self.counts - self.discount, 0))

    def find(self, context: IntArray, word: IntArray) -> IntArray:
        """Return the number of each n-gram, -1 for one that does not occur or whose context is -1."""
        key = context * self.words + word
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where((context >= 0) & (self.keys[place] == key), place, -1)

    def count(self, number: IntArray) -> FloatArray:
        """Return counts, 0 for number -1."""
        return np.where(number >= 0, self.counts[number], 0.0)

    def total(self, context: IntArray) -> FloatArray:
        """Return the sum of counts after each context; 0 for context -1."""
        return self._between(self._mass, context)

    def kinds(self, context: IntArray) -> FloatArray:
        """Return how many words occur after each context; 0 for context -1."""
        return self._between(self._kinds, context)

    def _between(self, sums: FloatArray, context: IntArray) -> FloatArray:
        return np.where(context >= 0, sums[self._first[context + 1]] - sums[self._first[context]], 0.0)

    def draw(self, context: IntArray, rng: np.random.Generator, *, discounted: bool) -> IntArray:
        """Return a word after each context (which must have some), with probability in proportion to its count."""
        low, high = self._first[context], self._first[context + 1]
        mass = self._discounted if discounted else self._mass
        goal = mass[low] + rng.random(len(context)) * (mass[high] - mass[low])
        place = np.searchsorted(mass, goal, side="right") - 1
        return self.keys[np.clip(place, low, high - 1)] % self.words


@dataclass(frozen=True)
class _Tokens:
    """Texts laid end to end: word numbers, place in the text (from 0), number of the text."""

    word: IntArray
    place: IntArray
    text: IntArray


class NGramModel:
    """An n-gram language model.

    Parameters
    ----------
    order : int
        1 to 4.
    smoothing : {"laplace", "add_k", "kneser_ney"}
    k : float
        Added to each count under "add_k", positive; Laplace is k = 1, Kneser-Ney has no k.

    Attributes
    ----------
    vocabulary : tuple of str
        The words of the training texts, sorted; empty before `fit`.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    def __init__(self, order: int, smoothing: str = "laplace", k: float = 1.0) -> None:
        self.order = int(positive_count("order", order))
        if self.order > _LARGEST_ORDER:
            raise ValueError(f"order must be a whole number from 1 to {_LARGEST_ORDER}, got {order}")
        self.smoothing = one_of("smoothing", smoothing, SMOOTHINGS)
        self.k = float(in_interval("k", k, 0, np.inf, closed="neither"))
        if self.k != 1 and self.smoothing != "add_k":
            raise ValueError(f"k must be 1 unless smoothing is 'add_k', got {k} for {smoothing!r}")
        self.vocabulary: tuple[str, ...] = ()

    def fit(self, texts: Iterable[str]) -> "NGramModel":
        """Count the n-grams of the texts and return the model.

        Raises
        ------
        ValueError
            No text holds a word, or one is no string (named by its position).
        """
        rows = _split(texts)
        self.vocabulary = tuple(sorted(set(chain.from_iterable(rows)).difference(_SPECIAL)))
        if not self.vocabulary:
            raise ValueError("texts must hold at least one word, got none")
        self._names = [*_SPECIAL, *self.vocabulary]
        self._number = _Numbers(zip(self._names, range(len(self._names)), strict=True))
        self._lengths = np.array([len(row) for row in rows])
        self._levels: list[_Level] = []
        tokens, size, contexts, shorter = self._tokens(rows), len(self._names), 1, 1
        # For each token, the n-gram of the last length that ends there.
        ending = np.zeros(len(tokens.word), dtype=np.int64)
        for length in range(1, self.order + 1):
            here = tokens.place >= length - 1  # it begins inside its text
            context = ending if length == 1 else np.concatenate([[-1], ending[:-1]])
            keys, number, counts = _distinct(context[here] * size + tokens.word[here], shorter * size)
            predicted = keys % size != 0  # <s> is given, never predicted
            if self.smoothing == "kneser_ney" and length > 1:
                below = np.zeros(len(keys), dtype=np.int64)  # the same n-gram without its first word
                below[number] = ending[here]
                different = np.bincount(below[predicted], minlength=shorter).astype(np.float64)
                self._levels[-1] = _Level(self._levels[-1].keys, different, contexts, size)
            self._levels.append(_Level(keys, np.where(predicted, counts, 0.0), shorter, size))
            contexts, shorter = shorter, len(keys)
            ending = np.full(len(tokens.word), -1, dtype=np.int64)
            ending[here] = number
        return self

    def logprob(self, text: str) -> float:
        """Natural logarithm of the probability of a whole text: its words and, from order 2 on, its end."""
        return float(self.logprobs([text])[0])

    def logprobs(self, texts: Sequence[str]) -> FloatArray:
        """`logprob` of many texts at once, shape (len(texts),); ValueError before `fit` and for what is no text."""
        self._check_fitted()
        rows = _split(texts)
        tokens = self._tokens(rows)
        scored = tokens.place >= self.order - 1
        contexts, numbers = self._ngrams(tokens.word)
        logs = np.log(self._probability([c[scored] for c in contexts], [n[scored] for n in numbers]))
        return np.bincount(tokens.text[scored], weights=logs, minlength=len(rows)).astype(np.float64)

    def conditional_logprob(self, word: str, context: tuple[str, ...]) -> float:
        """Natural logarithm of P(word | context).

        Parameters
        ----------
        word : str
            "</s>" for the end of a text; a word never seen counts as "<UNK>".
        context : tuple of str
            The order - 1 words before it, "<s>" before the beginning.

        Raises
        ------
        ValueError
            A context of another length, or a model that was not fitted.
        """
        self._check_fitted()
        if len(context) != self.order - 1:
            raise ValueError(f"context must hold {self.order - 1} words, got {len(context)}: {context!r}")
        words = np.array([self._number[name] for name in (*context, word)], dtype=np.int64)
        contexts, numbers = self._ngrams(words)
        return float(np.log(self._probability([c[-1:] for c in contexts], [n[-1:] for n in numbers]))[0])

    def sample(self, n_texts: int, rng: np.random.Generator, max_words: int = 200) -> list[str]:
        """Draw texts; ValueError for a number below 1, or before `fit`.

        Parameters
        ----------
        n_texts : int
        rng : numpy.random.Generator
        max_words : int
            A text is cut there. At order 1, which has no end of text, lengths are drawn from the training texts'.

        Returns
        -------
        list of str
            Words joined by one space; never "<s>" or "<UNK>", whose probability goes to the others.
        """
        self._check_fitted()
        n, most = int(positive_count("n_texts", n_texts)), int(positive_count("max_words", max_words))
        lengths = rng.choice(self._lengths, n) if self.order == 1 else np.full(n, most)
        suffix = [np.zeros(n, dtype=np.int64)] + [np.full(n, -1, dtype=np.int64)] * (self.order - 1)
        for _ in range(self.order - 1):
            suffix = self._shift(suffix, np.zeros(n, dtype=np.int64))
        drawn, open_ = np.full((n, most), -1, dtype=np.int64), lengths > 0
        for step in range(min(most, lengths.max())):
            texts = np.flatnonzero(open_)
            if len(texts) == 0:
                break
            words = self._next([part[texts] for part in suffix], rng)
            drawn[texts, step] = words
            shifted = self._shift([part[texts] for part in suffix], words)
            for part, new in zip(suffix, shifted, strict=True):
                part[texts] = new
            open_[texts[words == 1]] = False
            open_ &= lengths > step + 1
        return [" ".join(self._names[number] for number in row[row > 2]) for row in drawn]

    def _next(self, suffix: list[IntArray], rng: np.random.Generator) -> IntArray:
        """Draw the next word of each text from the n-grams of length 0, ..., order - 1 that end it."""
        smooth = self.smoothing != "kneser_ney"
        choices = len(self._names) - (3 if self.order == 1 else 2)  # words, and the end
        word = rng.integers(len(self._names) - choices, len(self._names), len(suffix[0]))
        word[word == 2] = 1
        undecided = np.ones(len(word), dtype=bool)
        for level, context in reversed(list(zip(self._levels, suffix, strict=True))):
            total = level.total(context)
            rest = self.k * choices if smooth else level.discount * level.kinds(context)
            whole = total + rest if smooth else np.maximum(total, 1)
            own = (whole - rest) / whole * (total > 0)
            take = undecided & (rng.random(len(word)) < own)
            word[take] = level.draw(context[take], rng, discounted=not smooth)
            undecided &= ~take
            if smooth:
                break
        return word

    def _shift(self, suffix: list[IntArray], word: IntArray) -> list[IntArray]:
        longer = [level.find(part, word) for level, part in zip(self._levels, suffix, strict=True)]
        return [np.zeros_like(word), *longer[:-1]]

    def _ngrams(self, words: IntArray) -> tuple[list[IntArray], list[IntArray]]:
        """Numbers of each word's contexts and of the n-grams that end at it, by length; -1: never occurred."""
        contexts, numbers = [np.zeros(len(words), dtype=np.int64)], []
        for level in self._levels:
            numbers.append(level.find(contexts[-1], words))
            contexts.append(np.concatenate([[-1], numbers[-1][:-1]]))
        return contexts[:-1], numbers

    def _probability(self, contexts: list[IntArray], numbers: list[IntArray]) -> FloatArray:
        if self.smoothing != "kneser_ney":
            size = len(self._names) - (2 if self.order == 1 else 0)
            total = self._levels[-1].total(contexts[-1])
            return (self._levels[-1].count(numbers[-1]) + self.k) / (total + self.k * size)
        # Below order 1: uniform on all that can follow, which is all but <s> (and but </s> at order 1).
        probability = np.full(len(numbers[0]), 1 / (len(self._names) - (2 if self.order == 1 else 1)))
        for level, context, number in zip(self._levels, contexts, numbers, strict=True):
            total, lower = level.total(context), level.discount * level.kinds(context)
            own = np.maximum(level.count(number) - level.discount, 0) + lower * probability
            probability = np.divide(own, total, out=probability, where=total > 0)
        return probability

    def _tokens(self, rows: list[list[str]]) -> _Tokens:
        pads = self.order - 1
        lengths = np.array([len(row) for row in rows], dtype=np.int64) + (pads + 1 if pads else 0)
        text = np.repeat(np.arange(len(rows)), lengths)
        place = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        word = np.ones(len(text), dtype=np.int64)  # </s> where no word follows
        word[place < pads] = 0
        inside = (place >= pads) & (place < np.repeat(lengths, lengths) - (1 if pads else 0))
        words = map(self._number.__getitem__, chain.from_iterable(rows))
        word[inside] = np.fromiter(words, dtype=np.int64, count=sum(map(len, rows)))
        return _Tokens(word, place, text)

    def _check_fitted(self) -> None:
        if not self.vocabulary:
            raise ValueError("the model must be fitted before it scores or samples: call fit(texts)")


def _split(texts: Iterable[str]) -> list[list[str]]:
    if isinstance(texts, str):
        raise ValueError(f"texts must be a sequence of strings, got one string: {texts[:40]!r}")
    texts = list(texts)
    try:
        return list(map(str.split, texts))
    except TypeError:
        position = next(place for place, text in enumerate(texts) if not isinstance(text, str))
        found = type(texts[position]).__name__
        raise ValueError(f"texts must be strings, got {found} at position {position}") from None


def _distinct(keys: IntArray, limit: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the sorted distinct keys (all below limit), the place of each key among them, and their counts."""
    if limit > 4 * len(keys):
        return np.unique(keys, return_inverse=True, return_counts=True)
    counts = np.bincount(keys, minlength=limit)  # few possible keys: counted without sorting
    return np.flatnonzero(counts), (np.cumsum(counts > 0) - 1)[keys], counts[counts > 0]
