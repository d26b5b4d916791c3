"""Responders past their store: the same question asked anew, and which model it is that answers.

A store keeps the first answer, so it hides a temperature above 0: repeats have to be asked of the source itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.base.store import sha256_file
from dprepro.text.questions import Question, Source, checked_labels, checked_prompts
from dprepro.text.replay import Replay
from dprepro.text.responders import Responder, StoredResponder


class Unstored:
    """A responder that asks its source every time.

    Parameters
    ----------
    source : Source
        A `LocalModel` or a `Server`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return what the model writes after each prompt; as `StoredResponder`."""
        return self._answers([Question(i, prompt) for i, prompt in enumerate(checked_prompts(prompts))])

    def label_logprobs(self, prompts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """Return log-probabilities of the labels, shape (len(prompts), len(labels)); as `StoredResponder`."""
        asked = tuple(checked_labels(labels))
        questions = [Question(i, prompt, asked) for i, prompt in enumerate(checked_prompts(prompts))]
        return np.array(self._answers(questions), dtype=np.float64).reshape(len(questions), len(asked))

    def _answers(self, questions: list[Question]) -> list[Any]:
        found: dict[int, Any] = {}
        for batch in self.source.answer(questions):
            found |= {item.question.index: item.answer for item in batch}
        return [found[question.index] for question in questions]


def past_the_store(responder: Responder) -> Responder:
    """The responder without its store; one that has none is returned as it is."""
    return Unstored(responder.source) if isinstance(responder, StoredResponder) else responder


def model_of(responder: Responder) -> dict[str, Any]:
    """Which model answers, and how: "model" (its name) and, where they are known, revision, dtype, decoding.

    Parameters
    ----------
    responder : Responder
        One with a source, saved answers (named by their file and its hash), or any with a mapping `identity`.

    Raises
    ------
    ValueError
        It does not say which model it is.
    """
    source = getattr(responder, "source", None)
    if source is not None:
        known = {**source.identity, **source.decoding}
    elif isinstance(responder, Replay):
        known = {"model": responder.path.name}
        if responder.path.is_file():
            known["sha256"] = sha256_file(responder.path)
    else:
        known = dict(getattr(responder, "identity", {}))
    if not isinstance(known.get("model"), str) or not known["model"]:
        raise ValueError(f"responder must name its model in its identity, got {known!r}")
    return known
