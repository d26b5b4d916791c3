"""What is asked of a language model: a prompt to go on with, or a prompt and labels to weigh.

The three kinds of responders (a local model, a server, saved answers) share these few types and the checks of what a
caller hands in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_SHOWN = 40


@dataclass(frozen=True)
class Question:
    """One prompt as a source gets it.

    Attributes
    ----------
    index : int
        Where the prompt stands in the caller's list (its first place, if it stands there more than once).
    prompt : str
    labels : tuple of str
        Empty: go on with the prompt. Otherwise: the log-probability of each of them after the prompt.
    """

    index: int
    prompt: str
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return named(self.index, self.prompt)


@dataclass(frozen=True)
class Answered:
    """A question with its answer.

    Attributes
    ----------
    question : Question
    answer : str or list of float
        The text, or one log-probability (natural) a label in the order of the question's labels.
    tokens : int
        Tokens read and written for it; for the progress shown, nothing else.
    """

    question: Question
    answer: str | list[float]
    tokens: int


class Source(Protocol):
    """Where answers come from: what a responder with a store asks for those that it has not got."""

    @property
    def identity(self) -> dict[str, Any]:
        """JSON values that a label's log-probability depends on beside the prompt: model, revision, ..."""

    @property
    def decoding(self) -> dict[str, Any]:
        """JSON values that a generated text depends on beside these: temperature, max_tokens."""

    def answer(self, questions: Sequence[Question]) -> Iterator[list[Answered]]:
        """Yield answers batch by batch, in any order, each question once; all of one kind."""


def named(index: int, prompt: str) -> str:
    """Return how messages name a prompt: its index and its first words."""
    shown = prompt if len(prompt) <= _SHOWN else prompt[:_SHOWN].rsplit(" ", 1)[0] + " ..."
    return f"prompt {index} ({shown!r})"


def checked_prompts(prompts: Sequence[str]) -> list[str]:
    """Return the prompts as a list.

    Raises
    ------
    ValueError
        `prompts` is a single text, or holds an empty text or something else than a text.
    """
    return _texts("prompts", prompts)


def checked_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels as a list.

    Raises
    ------
    ValueError
        There is none, two are equal, or `labels` is no sequence of texts that are not empty.
    """
    checked = _texts("labels", labels)
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(f"labels must be one or more different texts, got {checked!r:.80}")
    return checked


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    # A single text is a sequence of its letters, and would be asked letter by letter.
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} must be a sequence of texts, got the single text {texts!r:.80}")
    listed = list(texts)
    for index, text in enumerate(listed):
        if not isinstance(text, str) or not text:
            raise ValueError(f"{name} must be texts that are not empty, got {text!r:.80} at index {index}")
    return listed
