"""Vocabularies, tokens and keep-lists: what all mechanisms that perturb prompts share.

SANTEXT (Yue et al., arXiv 2106.01221), CUSTEXT (Chen et al., arXiv 2207.09136), InferDPT (Tong et al., arXiv
2310.12214) and Cape (arXiv 2505.05922) replace tokens by tokens of a vocabulary with embeddings. Which tokens are not
touched (stop words, punctuation) moves every measure of a text by more than the choice of a mechanism does, so the
keep-list is one argument here. It is fixed, hence independent of the texts; but a token on it is released as it is.
"""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import finite, one_of

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]

KEEP = ("none", "punctuation", "stop words", "both")
PUNCTUATION = frozenset(string.punctuation)  # 32 marks
# The English list of NLTK's corpus of stop words as it was until 2024 (Porter's list, extended): 179 entries.
_STOP_WORDS = """
    i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves he him his
    himself she she's her hers herself it it's its itself they them their theirs themselves what which who whom this
    that that'll these those am is are was were be been being have has had having do does did doing a an the and but
    if or because as until while of at by for with about against between into through during before after above below
    to from up down in out on off over under again further then once here there when where why how all any both each
    few more most other some such no nor not only own same so than too very s t can will just don don't should
    should've now d ll m o re ve y ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't
    haven haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't
    weren weren't won won't wouldn wouldn't
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
OUTSIDE = -1  # in place of a row: a token that the vocabulary does not hold
_WORDS = re.compile(r"\w+|[^\w\s]")


class Tokenizer(Protocol):
    """How a vocabulary cuts texts, and how tokens make a text again."""

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into tokens."""

    def join(self, tokens: Sequence[str]) -> str:
        """Make a text of tokens."""

    def inside(self, token: str, following: str | None) -> bool:
        """Tell whether a token is only a part of a word, given the one after it."""

    def bare(self, token: str) -> str:
        """Return a token without the mark of its place in a word, in lower case."""


class WordTokenizer:
    """Words of letters and digits in lower case, and single other signs: "don't" is don, ', t."""

    def tokenize(self, text: str) -> list[str]:
        """Cut a text at white space and around signs."""
        return _WORDS.findall(text.lower())

    def join(self, tokens: Sequence[str]) -> str:
        """Put a space between tokens."""
        return " ".join(tokens)

    def inside(self, token: str, following: str | None) -> bool:
        """Return False: words are whole."""
        return False

    def bare(self, token: str) -> str:
        """Return the token."""
        return token


@dataclass(frozen=True)
class PieceTokenizer:
    """WordPiece, with ## before what goes on with a word.

    Parameters
    ----------
    model : transformers tokenizer
        Its ``tokenize`` is used alone.
    """

    model: Any

    def tokenize(self, text: str) -> list[str]:
        """Cut a text by the model's rules; "[UNK]" stands for what they have no piece for."""
        return list(self.model.tokenize(text))

    def join(self, tokens: Sequence[str]) -> str:
        """Put a space between words, signs included."""
        return " ".join(tokens).replace(" ##", "")

    def inside(self, token: str, following: str | None) -> bool:
        """Tell a piece of a longer word."""
        return token.startswith("##") or (following is not None and following.startswith("##"))

    def bare(self, token: str) -> str:
        """Return the piece in lower case."""
        return token.removeprefix("##").lower()


@dataclass(frozen=True)
class BytePairTokenizer:
    """Byte-level BPE, with Ġ for the space before a word.

    Parameters
    ----------
    model : transformers tokenizer
    """

    model: Any

    def tokenize(self, text: str) -> list[str]:
        """Cut a text by the model's rules; there is no text that they cannot cut."""
        return list(self.model.tokenize(text))

    def join(self, tokens: Sequence[str]) -> str:
        """Put the bytes of the tokens together."""
        return str(self.model.convert_tokens_to_string(list(tokens)))

    def inside(self, token: str, following: str | None) -> bool:
        """Tell a piece of a longer word: letters with letters directly after."""
        return following is not None and following[:1].isalpha() and not following.startswith("Ġ")

    def bare(self, token: str) -> str:
        """Return the token without its space, in lower case."""
        return token.removeprefix("Ġ").lower()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words (or pieces of words) with an embedding each.

    Parameters
    ----------
    words : tuple of str, length V
        Different from each other; at least two.
    vectors : float32 array, shape (V, d)
        Finite.
    tokenizer : Tokenizer

    Raises
    ------
    ValueError
        A word twice (the message has it), fewer than two words, vectors of another shape or not finite.
    """

    words: tuple[str, ...]
    vectors: FloatArray
    tokenizer: Tokenizer = field(default_factory=WordTokenizer)

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise ValueError(f"words must be two at least, got {len(self.words)}")
        if len(self.number) != len(self.words):
            again = next(word for row, word in enumerate(self.words) if self.number[word] != row)
            raise ValueError(f"words must be different from each other, got {again!r} twice")
        table = finite("vectors", self.vectors).astype(np.float32)
        if table.ndim != 2 or len(table) != len(self.words) or table.shape[1] == 0:
            raise ValueError(f"vectors must have shape ({len(self.words)}, d), got {table.shape}")
        object.__setattr__(self, "vectors", table)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def number(self) -> dict[str, int]:
        """Row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def squares(self) -> FloatArray:
        """Squared length of each vector, shape (V,)."""
        return np.einsum("ij,ij->i", self.vectors, self.vectors)

    @cached_property
    def _doubles(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        table = self.vectors.astype(np.float64)
        return table, np.einsum("ij,ij->i", table, table)

    def distances(self, rows: IntArray, double: bool = False) -> NDArray[Any]:
        """Euclidean distance of some words to all words.

        Parameters
        ----------
        rows : int array, shape (n,)
        double : bool
            In double precision, so that the same numbers come out on any CPU to many digits; half as fast.

        Returns
        -------
        float32 or float64 array, shape (n, V)
            Exactly 0 to the word itself.
        """
        table, squares = self._doubles if double else (self.vectors, self.squares)
        found = table[rows] @ table.T
        found *= -2
        found += squares
        found += squares[rows, None]
        np.maximum(found, 0, out=found)
        np.sqrt(found, out=found)
        found[np.arange(len(rows)), rows] = 0
        return found

    def cut(self, text: str, keep: str = "none") -> "Tokens":
        """Cut a text into tokens and say which are kept.

        Parameters
        ----------
        text : str
            May be empty: it has no tokens.
        keep : {"none", "punctuation", "stop words", "both"}
            A stop word counts where it is a whole word, a mark where all of the token is punctuation.

        Raises
        ------
        ValueError
            `text` is not a text, or `keep` is none of the four.
        """
        one_of("keep", keep, KEEP)
        if not isinstance(text, str):
            raise ValueError(f"text must be a text, got {text!r:.80}")
        tokens = self.tokenizer.tokenize(text)
        following: list[str | None] = [*tokens[1:], None]
        kept = [self._kept(token, after, keep) for token, after in zip(tokens, following, strict=False)]
        rows = np.array([self.number.get(token, OUTSIDE) for token in tokens], np.int64)
        return Tokens(tuple(tokens), rows, np.array(kept, bool))

    def join(self, tokens: Sequence[str]) -> str:
        """Make a text of tokens; empty ones are those that a mechanism dropped."""
        return self.tokenizer.join([token for token in tokens if token])

    def _kept(self, token: str, following: str | None, keep: str) -> bool:
        bare = self.tokenizer.bare(token)
        if keep in ("punctuation", "both") and bare and set(bare) <= PUNCTUATION:
            return True
        whole = not self.tokenizer.inside(token, following)
        return keep in ("stop words", "both") and whole and bare in STOP_WORDS


@dataclass(frozen=True, eq=False)
class Tokens:
    """One text, cut.

    Attributes
    ----------
    tokens : tuple of str, length n
    rows : int array, shape (n,)
        Row of each in the vocabulary; OUTSIDE (-1) where it has none.
    kept : bool array, shape (n,)
        Whether the keep-list holds it.
    """

    tokens: tuple[str, ...]
    rows: IntArray
    kept: NDArray[np.bool_]

    @property
    def sensitive(self) -> IntArray:
        """Positions of the tokens that are not kept."""
        return np.flatnonzero(~self.kept)
