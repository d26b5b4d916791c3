"""The log-probability of a label after a prompt: which tokens it has, and which sequences a model must read for it.

By the chain rule, log P(label | prompt) is the sum over the label's tokens of the log-probability of each after the
prompt and the tokens before it. Prompt and label are cut into tokens together, as the model would meet them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprepro.text.questions import Question


def after_prompt(question: Question, prompt: list[int], wholes: list[list[int]]) -> list[list[int]]:
    """Return the tokens of each label.

    Parameters
    ----------
    question : Question
        For its labels and its name.
    prompt : list of int
        The prompt's tokens.
    wholes : list of list of int
        For each label, the tokens of prompt and label as one text.

    Raises
    ------
    ValueError
        A token holds both an end of the prompt and a beginning of a label: what follows the prompt's own tokens is
        then not the label.
    """
    for label, whole in zip(question.labels, wholes, strict=True):
        if whole[: len(prompt)] != prompt or len(whole) == len(prompt):
            raise ValueError(runs_together(question, label))
    return [whole[len(prompt) :] for whole in wholes]


def runs_together(question: Question, label: str) -> str:
    """Return what to say of a label that has no tokens of its own."""
    return (
        f"label {label!r} runs together with the last token of {question}: begin labels with a space and end "
        "prompts without one, or end prompts in a new line"
    )


@dataclass(frozen=True)
class LabelRows:
    """A question's labels as tokens, and the sequences to be read to weigh them.

    Attributes
    ----------
    question : Question
    prompt : list of int
        Tokens.
    labels : list of list of int
        Tokens of each label.
    """

    question: Question
    prompt: list[int]
    labels: list[list[int]]

    @cached_property
    def beginnings(self) -> list[list[int]]:
        """Labels without their last token, which is predicted and never read; none that begins another.

        Labels of one token share the empty one: a single sequence, the prompt itself, weighs them all.
        """
        kept: list[list[int]] = []
        for beginning in sorted((label[:-1] for label in self.labels), key=len, reverse=True):
            if not any(longer[: len(beginning)] == beginning for longer in kept):
                kept.append(beginning)
        return kept

    @property
    def sequences(self) -> list[list[int]]:
        """The sequences of tokens to be read, the longest first."""
        return [self.prompt + beginning for beginning in self.beginnings]

    def scores(self, table: NDArray[np.floating]) -> list[float]:
        """Sum the log-probabilities of each label's tokens.

        Parameters
        ----------
        table : ndarray, shape (len(sequences), positions, vocabulary)
            Log-probabilities of the next token at the last positions of each sequence, aligned at the right.

        Returns
        -------
        list of float
            In the order of the labels.
        """
        return [self._score(table, label) for label in self.labels]

    def _score(self, table: NDArray[np.floating], label: list[int]) -> float:
        read = label[:-1]
        row = next(i for i, beginning in enumerate(self.beginnings) if beginning[: len(read)] == read)
        # The prompt's last token predicts the label's first.
        first = table.shape[1] - 1 - len(self.beginnings[row])
        places = np.arange(first, first + len(label))
        return float(table[row, places, label].sum(dtype=np.float64))
