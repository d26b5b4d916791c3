"""One interface for mechanisms that perturb prompts token by token, whatever their notion of privacy.

A mechanism says how it replaces one token: `log_channel`, the exact distribution of its output for each input. All
else follows here: exact sampling over texts at once, the keep-list, tokens outside the vocabulary, counts, and what a
whole text and several turns of a conversation cost.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.prompt.vocabulary import OUTSIDE, IntArray, Tokens, Vocabulary

Array = NDArray[np.float64]
BLOCK = 2**23  # entries of an array (tokens x vocabulary) held at once: 64 MB of float64


class Budget(NamedTuple):
    """What a release costs by basic composition, in the mechanism's own notion of privacy.

    Attributes
    ----------
    token, text, turns : float
        For one token, for all tokens of a text that are not kept, for the text of as many turns.
    """

    token: float
    text: float
    turns: float


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Texts after a mechanism, with what happened to each token.

    Attributes
    ----------
    texts : tuple of str
        What is sent.
    originals : tuple of str
        The texts cut and put together again, which is what `texts` is if nothing is replaced.
    cuts : tuple of Tokens
    tokens : tuple of tuple of str
        Beside the tokens of `cuts`, one for one; "" where one was dropped.
    """

    texts: tuple[str, ...]
    originals: tuple[str, ...]
    cuts: tuple[Tokens, ...]
    tokens: tuple[tuple[str, ...], ...]

    @property
    def kept(self) -> int:
        """Number of tokens on the keep-list."""
        return sum(int(cut.kept.sum()) for cut in self.cuts)

    @property
    def outside(self) -> int:
        """Number of tokens that are neither on the keep-list nor in the vocabulary."""
        return sum(int(((cut.rows == OUTSIDE) & ~cut.kept).sum()) for cut in self.cuts)

    @property
    def unchanged(self) -> int:
        """Number of tokens that are not kept and came out as they were."""
        pairs = zip(self.cuts, self.tokens, strict=True)
        return sum(cut.tokens[i] == after[i] for cut, after in pairs for i in cut.sensitive)

    @property
    def replaced(self) -> int:
        """Number of tokens that came out as another one, or not at all."""
        return sum(len(cut.sensitive) for cut in self.cuts) - self.unchanged


class PromptMechanism(ABC):
    """A mechanism over a vocabulary; frozen dataclasses derive from it.

    Attributes
    ----------
    notion : str
        "local DP": the claim is about any two words. "metric DP": it grows with their distance. "contested": the
        claim is local DP, and it is known not to hold, or not to hold for all pairs.
    outside : str
        What becomes of a token that the vocabulary does not hold: "kept", "dropped", "uniform" (a word drawn
        uniformly) or "input" (`log_channel` takes it, as row -1).
    """

    notion: ClassVar[str]
    outside: ClassVar[str]
    vocabulary: Vocabulary
    keep: str

    @abstractmethod
    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the exact output distribution of each input.

        Parameters
        ----------
        rows : int array, shape (n,)
            Words that come in.
        epsilon : float
            Nominal, for one token; > 0.
        contexts : array, shape (n, V), optional
            What a contextual mechanism knows of each place; others take none.

        Returns
        -------
        array, shape (n, V)
            -inf where an output cannot come.
        """

    @abstractmethod
    def stated_loss(self, epsilon: float) -> float:
        """Loss that the mechanism's source states for one token over the worst pair of words; may be inf."""

    def contexts(self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> NDArray | None:
        """Return what a contextual mechanism asks of its model for places in texts, shape (n, V)."""
        return None

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input, from `log_channel` by inversion.

        Parameters
        ----------
        rows, epsilon, contexts
            As `log_channel`.
        rng : numpy.random.Generator

        Returns
        -------
        int array, shape (n,)
            Rows of the words that come out.
        """
        wanted = np.asarray(rows, np.int64)
        level, found = rng.random(len(wanted)), np.empty(len(wanted), np.int64)
        # Without context, equal inputs share a distribution; with it, each place has its own.
        inputs, which = np.arange(len(wanted)), np.arange(len(wanted))
        if contexts is None:
            _, inputs, which = np.unique(wanted, return_index=True, return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(inputs) + 1))
        width = max(1, BLOCK // len(self.vocabulary))
        for start in range(0, len(inputs), width):
            part = inputs[start : start + width]
            context = None if contexts is None else np.asarray(contexts)[part]
            cumulative = np.exp(self.log_channel(wanted[part], epsilon, context)).cumsum(axis=1)
            for row, line in enumerate(cumulative, start):
                places = order[ends[row] : ends[row + 1]]
                found[places] = np.searchsorted(line, level[places] * line[-1], side="right")
        return found

    def perturb(self, texts: Sequence[str], epsilon: float, rng: np.random.Generator) -> Perturbed:
        """Replace each token that is not kept, independently of the others.

        Parameters
        ----------
        texts : sequence of str
            One may be empty.
        epsilon : float
            For one token; > 0.
        rng : numpy.random.Generator

        Returns
        -------
        Perturbed

        Raises
        ------
        ValueError
            A single text in place of a sequence; `epsilon` outside its domain.
        """
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        if isinstance(texts, str):
            raise ValueError(f"texts must be a sequence of texts, got {texts!r:.80}")
        cuts = [self.vocabulary.cut(text, self.keep) for text in texts]
        where = np.repeat(np.arange(len(cuts)), [len(cut.sensitive) for cut in cuts])
        positions = np.concatenate([np.zeros(0, np.int64), *(cut.sensitive for cut in cuts)])
        rows = np.concatenate([np.zeros(0, np.int64), *(cut.rows[cut.sensitive] for cut in cuts)])
        after = [list(cut.tokens) for cut in cuts]
        asked = np.arange(len(rows)) if self.outside == "input" else np.flatnonzero(rows != OUTSIDE)
        for start in range(0, len(asked), BLOCK // len(self.vocabulary) + 1):
            part = asked[start : start + BLOCK // len(self.vocabulary) + 1]
            context = self.contexts(cuts, where[part], positions[part])
            self._write(after, where[part], positions[part], self.draw(rows[part], epsilon, rng, context))
        if self.outside == "uniform":
            strange = np.flatnonzero(rows == OUTSIDE)
            drawn = rng.integers(len(self.vocabulary), size=len(strange))
            self._write(after, where[strange], positions[strange], drawn)
        elif self.outside == "dropped":
            for i in np.flatnonzero(rows == OUTSIDE):
                after[where[i]][positions[i]] = ""
        tokens = tuple(tuple(line) for line in after)
        return Perturbed(
            tuple(map(self.vocabulary.join, tokens)),
            tuple(self.vocabulary.join(cut.tokens) for cut in cuts),
            tuple(cuts),
            tokens,
        )

    def _write(self, after: list[list[str]], where: IntArray, positions: IntArray, drawn: IntArray) -> None:
        for text, position, row in zip(where, positions, drawn, strict=True):
            after[text][position] = self.vocabulary.words[row]

    def budget(self, epsilon: float, tokens: int, turns: int = 1) -> Budget:
        """Return what the source's statement makes of a text, by basic composition.

        Parameters
        ----------
        epsilon : float
        tokens : int
            Tokens of the text that are not kept.
        turns : int
            Texts of that length in a conversation about the same person, at least 1.

        Raises
        ------
        ValueError
            Epsilon outside (0, inf), or numbers that are not whole or too small.
        """
        count, rounds = int(positive_count("tokens", tokens, minimum=0)), int(positive_count("turns", turns))
        loss = self.stated_loss(epsilon)
        text = loss * count if count else 0.0
        return Budget(loss, text, text * rounds)
