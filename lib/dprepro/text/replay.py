"""Answers saved before, in place of the model that gave them: no weights, no server, the same numbers."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import sample
from dprepro.text.answers import AnswerStore, Record
from dprepro.text.questions import checked_labels, checked_prompts, named


class Replay:
    """A responder that has saved answers and nothing else.

    Parameters
    ----------
    path : path
        A file of JSON lines as `AnswerStore.export` writes them, a JSON file with a list of such records or with
        texts by prompt, or a store's folder. Of a record are needed ``prompt`` and ``answer``, and ``labels`` where
        the answer is a list of log-probabilities, one a label.
    **only
        Values that a record must have to be taken, such as ``model="smollm2-135m-instruct"``.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder.
    ValueError
        A record is malformed, or the records taken hold different answers to one prompt.
    """

    def __init__(self, path: str | Path, **only: Any) -> None:
        self.path = Path(path).expanduser()
        self._texts: dict[str, str] = {}
        self._logprobs: dict[tuple[str, str], float] = {}
        for number, record in enumerate(_records(self.path)):
            try:
                if only.items() <= record.items():
                    self._keep(record)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{self.path}, record {number}, must hold prompt and answer (and labels): {error}"
                ) from error

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return the text saved for each prompt; ValueError names one that was not saved."""
        checked = checked_prompts(prompts)
        for index, prompt in enumerate(checked):
            if prompt not in self._texts:
                raise ValueError(f"{self.path} holds no text for {named(index, prompt)}")
        return [self._texts[prompt] for prompt in checked]

    def label_logprobs(self, prompts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """Return the log-probabilities saved, shape (len(prompts), len(labels)), as `StoredResponder` does.

        Raises
        ------
        ValueError
            Names a prompt, or a label of it, that was not saved.
        """
        asked, checked = checked_labels(labels), checked_prompts(prompts)
        for index, prompt in enumerate(checked):
            for label in asked:
                if (prompt, label) not in self._logprobs:
                    raise ValueError(f"{self.path} holds no label {label!r} for {named(index, prompt)}")
        table = [[self._logprobs[prompt, label] for label in asked] for prompt in checked]
        return np.array(table, dtype=np.float64).reshape(len(checked), len(asked))

    def _keep(self, record: Record) -> None:
        (prompt,), answer = checked_prompts([record["prompt"]]), record["answer"]
        if "labels" in record:
            logprobs = sample("answer", answer).tolist()
            for label, logprob in zip(checked_labels(record["labels"]), logprobs, strict=True):
                _once(self._logprobs, (prompt, label), logprob, prompt)
        elif isinstance(answer, str):
            _once(self._texts, prompt, answer, prompt)
        else:
            raise ValueError(f"an answer without labels must be a text, got {answer!r:.80}")


def _once(kept: dict[Any, Any], key: Any, answer: Any, prompt: str) -> None:
    if kept.setdefault(key, answer) != answer:
        raise ValueError(
            f"two answers to one prompt ({prompt!r:.60}): choose by model=, max_tokens= or another of its values"
        )


def _records(path: Path) -> Iterable[Record]:
    if path.is_dir():
        return AnswerStore(path).records()
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".jsonl":
            # Not splitlines: a text may hold other line ends than this one.
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        saved = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} must hold JSON: {error}") from error
    if isinstance(saved, dict):
        return [{"prompt": prompt, "answer": answer} for prompt, answer in saved.items()]
    return saved
