"""Demonstrations of in-context learning: texts with answers, drawn or retrieved, and dealt to disjoint partitions.

What SnapAudit (arXiv 2511.13502) audits are pipelines of this shape: a private set of n demonstrations, T disjoint
partitions of it, one prompt for each. Two neighbouring sets differ in one demonstration that is replaced *in its
place*: dealing depends on places alone, so all other partitions see what they saw before, and one answer changes.

Retrieval (passages as demonstrations, DP-RAG) keeps that only with some care. The canary passage pushes out the
least relevant one. Were partitions cut from the ranking, all ranks behind the canary would move by one and with
them most partitions; it takes the place of the passage that it pushes out. And a passage's relevance must not
depend on the other passages: word weights by document frequency would.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from dprepro.base.check import positive_count

T = TypeVar("T")
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True)
class Demonstration:
    """A text and the answer that goes with it; white space counts as one space.

    Parameters
    ----------
    text : str
    answer : str
        A label, a reply, or empty (a retrieved passage).

    Raises
    ------
    ValueError
        The text is empty.
    """

    text: str
    answer: str = ""

    def __post_init__(self) -> None:
        # One line each: a line end inside a text would end its demonstration in the prompt.
        for name in ("text", "answer"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
        if not self.text:
            raise ValueError("text of a demonstration must hold a word at least, got none")


class Draw(Protocol):
    """Where the private set of one run comes from."""

    @property
    def pool(self) -> Sequence[Demonstration]:
        """All demonstrations but the canary."""

    @property
    def number(self) -> int:
        """How many a run has, the canary included."""

    def draw(self, canary: Demonstration | None, rng: np.random.Generator) -> list[Demonstration]:
        """The private set of a run: with the canary in the place of one of them, or with none (None)."""


@dataclass(frozen=True)
class RandomDraw:
    """A private set drawn anew in each run, without replacement.

    Parameters
    ----------
    pool : sequence of Demonstration
    number : int
        Demonstrations in a run, 1 to len(pool).

    Raises
    ------
    ValueError
        The pool has fewer, or holds a text twice.
    """

    pool: Sequence[Demonstration]
    number: int

    def __post_init__(self) -> None:
        _check_pool(self.pool, self.number)

    def draw(self, canary: Demonstration | None, rng: np.random.Generator) -> list[Demonstration]:
        """The same `rng` state gives the same set with the canary and without, but for the first place."""
        chosen = [self.pool[i] for i in rng.choice(len(self.pool), self.number, replace=False)]
        return chosen if canary is None else [canary, *chosen[1:]]


@dataclass(frozen=True)
class Retrieval:
    """The passages nearest to a query: cosine of the sets of words, |q & p| / sqrt(|q| |p|).

    Parameters
    ----------
    pool : sequence of Demonstration
    number : int
        Passages retrieved, 1 to len(pool).
    query : str

    Raises
    ------
    ValueError
        As `RandomDraw`; a query without a word.
    """

    pool: Sequence[Demonstration]
    number: int
    query: str

    def __post_init__(self) -> None:
        _check_pool(self.pool, self.number)
        if not _words(self.query):
            raise ValueError(f"query must hold a word at least, got {self.query!r}")

    def relevance(self, passage: Demonstration) -> float:
        """In [0, 1]; of this passage alone."""
        query, words = _words(self.query), _words(passage.text)
        return len(query & words) / max(len(query) * len(words), 1) ** 0.5

    @cached_property
    def _best(self) -> list[Demonstration]:
        return sorted(self.pool, key=self._rank)[: self.number]

    def _rank(self, passage: Demonstration) -> tuple[float, str]:
        return -self.relevance(passage), passage.text

    def draw(self, canary: Demonstration | None, rng: np.random.Generator) -> list[Demonstration]:
        """The canary is in only if it is retrieved: if it ranks before the last of the others."""
        best = self._best
        if canary is None or self._rank(canary) > self._rank(best[-1]):
            return best
        return [*best[:-1], canary]


def partitioned(items: Sequence[T], partitions: int, rng: np.random.Generator) -> list[list[T]]:
    """Deal items to disjoint partitions of (nearly) equal size, at random, by their places.

    Parameters
    ----------
    items : sequence, length n
    partitions : int
        1 to n.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        There are fewer items than partitions.
    """
    count = int(positive_count("partitions", partitions))
    if len(items) < count:
        raise ValueError(f"demonstrations must be at least one a partition, got {len(items)} for {count}")
    places = rng.permutation(len(items))
    return [[items[place] for place in part] for part in np.array_split(places, count)]


def nonsense(words: int, rng: np.random.Generator, answer: str = "") -> Demonstration:
    """A canary of words that no text holds: three syllables each, none twice.

    Parameters
    ----------
    words : int
    rng : numpy.random.Generator
    answer : str
        An answer that no other demonstration has makes the strongest canary.

    Raises
    ------
    ValueError
        No whole number of words of at least 1.
    """
    made: dict[str, None] = {}
    while len(made) < int(positive_count("words", words)):
        syllables = [rng.choice(list(letters)) for _ in range(3) for letters in (_CONSONANTS, _VOWELS)]
        made["".join(syllables)] = None
    return Demonstration(" ".join(made), answer)


def check_canary(canary: Demonstration, pool: Sequence[Demonstration]) -> None:
    """Refuse a canary whose text is one of the pool's: both sides of the audit would hold it.

    Raises
    ------
    ValueError
        Says where it stands.
    """
    text = canary.text.casefold()
    for place, other in enumerate(pool):
        if other.text.casefold() == text:
            raise ValueError(
                f"canary must not occur among the demonstrations, got {canary.text!r:.60} at place {place}"
            )


def _check_pool(pool: Sequence[Demonstration], number: int) -> None:
    count = int(positive_count("number", number))
    if len(pool) < count:
        raise ValueError(f"pool must hold the {count} demonstrations of a run, got {len(pool)}")
    if len({item.text for item in pool}) < len(pool):
        raise ValueError("pool must hold each text once, got one twice")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
