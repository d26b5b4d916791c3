"""Language models as responders: prompts to texts, or prompts and labels to log-probabilities.

In-context learning with privacy (Wu et al., arXiv 2305.01639), its audits, and the synthesis and sanitising of
prompts all ask a language model the same two things. A responder answers them greedily (temperature 0), from a model
on this machine, a server, or answers saved before; which of them is a matter of its name alone. Each answer is stored
on disk, so that nothing is asked twice.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from dprepro.base.check import finite
from dprepro.base.store import sha256_json
from dprepro.text.answers import AnswerStore, Record
from dprepro.text.questions import Question, Source, checked_labels, checked_prompts

PACKAGED = "smollm2-135m-instruct"
# Part of every key: raised when an answer comes about in another way, so that older ones are not taken for it.
_FORMAT = 1


class Responder(Protocol):
    """What a mechanism or an audit asks of a language model."""

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return what the model writes after each prompt."""

    def label_logprobs(self, prompts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """Return log P(label | prompt), natural, over the whole vocabulary, shape (len(prompts), len(labels))."""


class StoredResponder:
    """A source of answers behind a store: asks it only what was never asked.

    Parameters
    ----------
    source : Source
        A `LocalModel` or a `Server`.
    store : AnswerStore
    progress : bool, optional
        Show a progress bar. By default it is shown on a terminal only.

    Attributes
    ----------
    calls, cached : int
        Answers got from the source and from the store so far; a prompt that stands twice in one call counts once.
    """

    def __init__(self, source: Source, store: AnswerStore, progress: bool | None = None) -> None:
        self.source = source
        self.store = store
        self.calls = self.cached = 0
        self._hidden = None if progress is None else not progress

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return what the model writes after each prompt, greedily.

        Parameters
        ----------
        prompts : sequence of str, length n

        Returns
        -------
        list of str, length n
            Without the prompt, as the model wrote it (a completion often opens with a space); ended by the model's
            own end mark or cut after the source's `max_tokens`.

        Raises
        ------
        ValueError
            A prompt is empty, no text, or too long for the model's window.
        """
        return self._answers([Question(i, prompt) for i, prompt in enumerate(checked_prompts(prompts))])

    def label_logprobs(self, prompts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """Return how probable each label is as the next text after each prompt.

        Parameters
        ----------
        prompts : sequence of str, length n
        labels : sequence of str, length m
            With the space that they begin with, if the prompt does not end in a new line: ``" positive"``.

        Returns
        -------
        ndarray, shape (n, m)
            The sum of the log-probabilities (natural) of the label's tokens, each over the whole vocabulary; so e to
            these sums to at most 1 over labels of which none begins another. `over_label_set` normalises them.

        Raises
        ------
        ValueError
            As `generate`; labels that are empty or equal; a label that runs together with the prompt's last token.
        """
        asked = checked_labels(labels)
        ordered = tuple(sorted(asked))  # one answer, however the caller orders them
        questions = [Question(i, prompt, ordered) for i, prompt in enumerate(checked_prompts(prompts))]
        table = np.array(self._answers(questions), dtype=np.float64).reshape(len(questions), len(ordered))
        return table[:, [ordered.index(label) for label in asked]]

    def _answers(self, questions: list[Question]) -> list[Any]:
        requests = [self._request(question) for question in questions]
        keys = [sha256_json(request) for request in requests]
        answers: dict[str, Any] = {}
        missing: dict[str, tuple[Question, Record]] = {}
        for key, question, request in zip(keys, questions, requests, strict=True):
            if key in answers or key in missing:
                continue
            answer = self.store.get(request)
            if answer is None:
                missing[key] = question, request
            else:
                answers[key] = answer
        self.cached += len(answers)
        if missing:
            self._ask(missing, answers)
        return [answers[key] for key in keys]

    def _ask(self, missing: dict[str, tuple[Question, Record]], answers: dict[str, Any]) -> None:
        cached, tokens, start = len(answers), 0, time.perf_counter()
        key_of = {question: key for key, (question, _) in missing.items()}
        total = cached + len(missing)
        with tqdm(total=total, initial=cached, unit="answer", disable=self._hidden) as bar:
            for batch in self.source.answer(list(key_of)):
                for item in batch:
                    if item.question.labels:  # half precision can overflow; that must not stay on disk
                        finite(f"log-probabilities after {item.question}", item.answer)
                fresh = {key_of[item.question]: item.answer for item in batch}
                self.store.put((missing[key][1], answer) for key, answer in fresh.items())
                answers.update(fresh)
                self.calls += len(batch)
                tokens += sum(item.tokens for item in batch)
                bar.set_postfix(
                    calls=len(answers) - cached,
                    cached=cached,
                    remaining=total - len(answers),
                    tokens_per_s=round(tokens / (time.perf_counter() - start)),
                    refresh=False,
                )
                bar.update(len(batch))

    def _request(self, question: Question) -> Record:
        asked = {"labels": list(question.labels)} if question.labels else self.source.decoding
        return {"format": _FORMAT, **self.source.identity, **asked, "prompt": question.prompt}


def over_label_set(logprobs: ArrayLike) -> NDArray[np.float64]:
    """Normalise log-probabilities on the label set: each row's probabilities then sum to one.

    Parameters
    ----------
    logprobs : array_like, shape (n, m)
        As `label_logprobs` returns them, over the whole vocabulary.

    Returns
    -------
    ndarray, shape (n, m)
    """
    table = np.asarray(logprobs, dtype=np.float64)
    return table - np.logaddexp.reduce(table, axis=-1, keepdims=True)


def responder(
    name: str = PACKAGED,
    *,
    store: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Responder:
    """Make a responder.

    Parameters
    ----------
    name : str
        ``"smollm2-135m-instruct"``, the packaged model (models.lock), a folder with a model that transformers
        saved, or a hub id (owner/name): a model on this machine, `options` as for `local_model.LocalModel`.
        ``"http://..."`` or ``"https://..."``: a server, `options` as for `server.Server`. A file that ends in
        .jsonl or .json, or the folder of a store: saved answers, `options` as for `replay.Replay`.
    store : path, optional
        Folder of the answers; ``answers`` in the build folder by default. Of no use to saved answers.
    progress : bool, optional
        Show a progress bar. By default it is shown on a terminal only.
    **options
        Such as ``max_tokens=64``.

    Returns
    -------
    Responder

    Raises
    ------
    ValueError, OSError, ImportError
        As `local_model.LocalModel`, `server.Server`, `replay.Replay` and `answers.AnswerStore`.
    """
    if name.startswith(("http://", "https://")):
        from dprepro.text.server import Server

        return StoredResponder(Server(name, **options), AnswerStore(store), progress)
    if name.endswith((".jsonl", ".json")) or (Path(name) / "cache.db").is_file():
        from dprepro.text.replay import Replay

        return Replay(name, **options)
    from dprepro.text.local_model import LocalModel

    return StoredResponder(LocalModel(name, **options), AnswerStore(store), progress)
