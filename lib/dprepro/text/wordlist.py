"""Words that a search may write: a vocabulary without slurs, obscenities and other words of dispute.

What is blocked lies in data/wordlists/blocked_words.txt as the first eight hexadecimal digits of SHA-256, so
that the repository holds no list of slurs. The price: of 20,000 innocent words about .02 are blocked by accident.
"""

import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256

from dprepro.base import paths

_WORD = re.compile(r"[a-z]{3,}")
# Forms of a blocked word are blocked with it: the lists name some of them only.
_ENDINGS = ("", "s", "es", "ed", "d", "ing", "er", "ers", "y")


def searchable(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that a search may use, each once, sorted: of three or more letters a to z, not blocked.

    Raises
    ------
    ValueError
        If no word is left.
    """
    candidates = list(words)
    left = tuple(sorted({word for word in candidates if _WORD.fullmatch(word) and not blocked(word)}))
    if not left:
        raise ValueError(
            "words must hold some of three or more letters a to z that are not blocked, "
            f"got none among {len(candidates)}"
        )
    return left


def blocked(word: str) -> bool:
    """Say whether a word, or the word that it is a form of, is on the list."""
    stems = (word[: len(word) - len(ending)] for ending in _ENDINGS if word.endswith(ending))
    return any(sha256(stem.encode()).hexdigest()[:8] in _hashes() for stem in stems if len(stem) >= 3)


@cache
def _hashes() -> frozenset[str]:
    file = paths.DATA / "wordlists" / "blocked_words.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))
