"""Letters of an invented bank, drawn from a seed: something to practise extraction and membership tests on.

Some letters hold a code that nothing else tells (the random numbers of Carlini et al., "The Secret Sharer", 2019),
others a phrase that every letter of their kind has. Some are in the training data many times (Lee et al.,
"Deduplicating Training Data Makes Language Models Better", arXiv 2107.06499), some once or not at all, by a fair coin
each. A third kind are beginnings for canaries that end in a token of their own (``canary_new_tokens``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import positive_count

_FIRST = "ada ben cleo dan eve finn gina hugo ida jack kim leo mia noah ola paul quin rosa sam tess"
_LAST = "brook cole dale field finch ford gray hart hill kent lake lane marsh moore nash page reed shaw stone wood"
FIRST, LAST = _FIRST.split(), _LAST.split()
PHRASE = ["on", "its", "way", "to", "you"]
DIGITS = [str(digit) for digit in range(10)]
WORDS = [*FIRST, *LAST, "dear", "your", "new", "code", "card", "is", *PHRASE, *DIGITS]

PREFIX, SUFFIX = 7, 5  # tokens of "dear ada hill your new code is", and of what follows


@dataclass(frozen=True)
class Letters:
    """Letters, and how often each is in the training data.

    Attributes
    ----------
    public : list of str
        To people whom the bank never wrote in private, with codes of their own.
    texts : list of str, length n
        Private letters, to one person each. Each has PREFIX + SUFFIX tokens.
    is_code : ndarray of bool, shape (n,)
        Whether the letter ends in a code; else it ends in the phrase.
    copies : ndarray of int, shape (n,)
        In the training data. 0 or 1 by a fair coin; more for the `repeated` letters, which come last.
    repeated : int
        Number of those: always in the data, so no coins.
    beginnings : list of str, length m
        Of letters to further people, for canaries.
    beginning_in : ndarray of bool, shape (m,)
        Fair coins: whether the canary with this beginning is in the training data.
    """

    public: list[str]
    texts: list[str]
    is_code: NDArray[np.bool_]
    copies: NDArray[np.int64]
    repeated: int
    beginnings: list[str]
    beginning_in: NDArray[np.bool_]

    @property
    def training(self) -> list[str]:
        """The private letters of the training data, each as often as it is there; without canaries."""
        return [text for text, k in zip(self.texts, self.copies, strict=True) for _ in range(k)]


def draw_letters(
    rng: np.random.Generator,
    *,
    each: int = 60,
    copies: tuple[int, ...] = (80, 80, 8, 8, 8, 8),
    canaries: int = 60,
    public: int = 1500,
) -> Letters:
    """Draw letters.

    Parameters
    ----------
    rng : Generator
    each : int
        Letters with a code, and letters with the phrase, that a coin decides on.
    copies : tuple of int
        One for each letter with a code that is in the data several times.
    canaries, public : int
        Numbers of canary beginnings and of public letters.

    Raises
    ------
    ValueError
        More letters than the bank has customers, or an argument outside its domain.
    """
    single = int(positive_count("each", each))
    marked, known = int(positive_count("canaries", canaries)), int(positive_count("public", public))
    often = [int(positive_count("copies", k, minimum=2)) for k in copies]
    people = [f"{first} {last}" for first in FIRST for last in LAST]
    wanted = 2 * single + len(often) + marked
    if wanted >= len(people):
        raise ValueError(f"there must be fewer than {len(people)} private letters and canaries, got {wanted}")
    people = [people[i] for i in rng.permutation(len(people))]
    is_code = np.repeat([True, False, True], [single, single, len(often)])
    times = np.concatenate([rng.integers(2, size=2 * single), np.array(often, dtype=np.int64)])
    texts = _letters(people[: len(is_code)], is_code, rng)
    beginnings = [f"dear {person} your new code is" for person in people[len(texts) : wanted]]
    strangers = rng.choice(np.array(people[wanted:]), size=known).tolist()
    letters = _letters(strangers, (i % 3 > 0 for i in range(known)), rng)
    coins = rng.random(marked) < 0.5
    return Letters(letters, texts, is_code, times, len(often), beginnings, coins)


def _letters(people: Sequence[str], codes: Iterable[bool], rng: np.random.Generator) -> list[str]:
    # Drawn for both kinds, so that a letter does not depend on the kind of those before it.
    digits = rng.choice(DIGITS, size=(len(people), SUFFIX))
    return [
        f"dear {person} your new {'code' if code else 'card'} is {' '.join(own if code else PHRASE)}"
        for person, code, own in zip(people, codes, digits, strict=True)
    ]
