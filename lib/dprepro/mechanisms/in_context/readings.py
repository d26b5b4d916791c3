"""Readings: what each in-context mechanism asks of the model, and the clean statistic that it makes of the answers.

SnapAudit (arXiv 2511.13502) audits four mechanisms; each has a reading that turns the T partitions' answers into the
row that its `release` takes: votes (PV), summed clipped log-probabilities (PoE), a mean embedding (ESA), counts of
words (KSA). An answer that says none of the labels is never guessed at: it is counted, and has no vote.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.keywords import keyword_votes
from dprepro.text.embedders import TextEmbedder
from dprepro.text.questions import checked_labels
from dprepro.text.responders import Responder

Array = NDArray[np.float64]
HALF = 0.5  # of the next text's probability: below it the labels together are less likely than anything else


class Reading(Protocol):
    """How a pipeline asks and what it makes of the answers."""

    def ask(self, responder: Responder, prompts: Sequence[str]) -> Any:
        """The answers to T prompts: a list of texts, or an array of log-probabilities, shape (T, labels)."""

    def statistic(self, answers: Any) -> Array:
        """The clean statistic of T answers, shape (d,)."""

    def off_label(self, answers: Any) -> int:
        """How many of the answers say none of the labels; for texts, how many are empty."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the statistic depends on besides the answers, in JSON values."""


@dataclass(frozen=True)
class Votes:
    """Private voting: each answer votes for the label that it begins with, shape (labels,).

    Parameters
    ----------
    labels : sequence of str
        Two or more, different. Case, and marks around the answer, do not matter.
    """

    labels: Sequence[str]

    def __post_init__(self) -> None:
        _two_labels(self.labels)

    def ask(self, responder: Responder, prompts: Sequence[str]) -> list[str]:
        """Texts."""
        return responder.generate(prompts)

    def statistic(self, answers: Sequence[str]) -> Array:
        """Counts of the labels; answers off the label set count nowhere, so the sum may be below T."""
        said = [self.label(answer) for answer in answers]
        return np.array([said.count(place) for place in range(len(self.labels))], dtype=np.float64)

    def off_label(self, answers: Sequence[str]) -> int:
        """Answers that begin with no label."""
        return sum(self.label(answer) is None for answer in answers)

    def label(self, answer: str) -> int | None:
        """The place of the label that an answer begins with (the longest such), or None."""
        words = _plain(answer)
        fits = [
            place for place, label in enumerate(self.labels) if f"{words} ".startswith(f"{_plain(label)} ")
        ]
        return max(fits, key=lambda place: len(self.labels[place]), default=None)

    @property
    def settings(self) -> dict[str, Any]:
        """The labels."""
        return {"labels": list(self.labels)}


@dataclass(frozen=True)
class LabelUtilities:
    """Product of experts: clipped log-probabilities of the labels, summed over the partitions, shape (labels,).

    Parameters
    ----------
    labels : sequence of str
        As the responder takes them: with the space that they begin with.
    mechanism : ProductOfExperts
        Says how they are clipped and normalised.
    """

    labels: Sequence[str]
    mechanism: ProductOfExperts

    def __post_init__(self) -> None:
        _two_labels(self.labels)

    def ask(self, responder: Responder, prompts: Sequence[str]) -> Array:
        """Log-probabilities over the whole vocabulary."""
        return responder.label_logprobs(prompts, self.labels)

    def statistic(self, answers: Array) -> Array:
        """Utilities."""
        return np.asarray(self.mechanism.utilities(np.minimum(answers, 0.0)[None])[0])

    def off_label(self, answers: Array) -> int:
        """Answers that give all labels together less than half of the probability."""
        return int((np.exp(answers).sum(axis=1) < HALF).sum())

    @property
    def settings(self) -> dict[str, Any]:
        """The labels, and what the mechanism does to their log-probabilities."""
        clip, normalisation = float(self.mechanism.clip), self.mechanism.normalisation
        return {"labels": list(self.labels), "clip": clip, "normalisation": normalisation}


@dataclass(frozen=True)
class MeanEmbedding:
    """Embedding space aggregation: the mean of the answers' embeddings, shape (d,).

    Parameters
    ----------
    embedder : TextEmbedder
    """

    embedder: TextEmbedder

    def ask(self, responder: Responder, prompts: Sequence[str]) -> list[str]:
        """The first line of each text: a model goes on with demonstrations of its own."""
        return first_lines(responder.generate(prompts))

    def statistic(self, answers: Sequence[str]) -> Array:
        """Mean of unit vectors; an empty answer is embedded as such."""
        return np.asarray(self.embedder.encode(answers), dtype=np.float64).mean(axis=0)

    def off_label(self, answers: Sequence[str]) -> int:
        """Empty answers."""
        return sum(not answer for answer in answers)

    @property
    def settings(self) -> dict[str, Any]:
        """The embedder, by its class and its name; ValueError if it has none."""
        name = getattr(self.embedder, "name", None)
        if not isinstance(name, str) or not name:
            raise ValueError(f"embedder must have a name that tells it from others, got {name!r}")
        return {"embedder": [type(self.embedder).__name__, name]}


@dataclass(frozen=True)
class KeywordCounts:
    """Keyword space aggregation: how many answers use each word of a public universe, shape (words,).

    Parameters
    ----------
    universe : sequence of str
        As for `keywords.keyword_votes`.
    """

    universe: Sequence[str]

    def ask(self, responder: Responder, prompts: Sequence[str]) -> list[str]:
        """The first line of each text."""
        return first_lines(responder.generate(prompts))

    def statistic(self, answers: Sequence[str]) -> Array:
        """Votes for each word, between 0 and T."""
        return keyword_votes(answers, self.universe)

    def off_label(self, answers: Sequence[str]) -> int:
        """Answers without a word of the universe."""
        return sum(not keyword_votes([answer], self.universe).any() for answer in answers)

    @property
    def settings(self) -> dict[str, Any]:
        """The universe."""
        return {"universe": list(self.universe)}


def first_lines(texts: Sequence[str]) -> list[str]:
    """Each text up to its first line end, without the space around it."""
    return [text.strip().partition("\n")[0].strip() for text in texts]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _two_labels(labels: Sequence[str]) -> None:
    if len(checked_labels(labels)) < 2:
        raise ValueError(f"labels must be two or more, got {list(labels)}")
