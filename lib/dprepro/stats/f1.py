"""F1 of a classifier, micro and macro, and what two guessers score that have not read the texts.

F1 of a class is 2 TP / (2 TP + FP + FN); macro is its mean over the classes, micro takes the counts of all classes
together, which with one label a text is the share of right answers. The guessers are the yardsticks of SynBench
(arXiv 2509.14594, table 1): one draws each answer evenly from the classes, one always gives the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dprepro.base.check import one_of


class F1(NamedTuple):
    """Micro and macro F1, both in [0, 1]."""

    micro: float
    macro: float


def f1(true: Sequence[str], predicted: Sequence[str]) -> F1:
    """F1 of predictions.

    Parameters
    ----------
    true, predicted : sequences of str, length n
        n at least 1. Classes are all labels that occur in either.

    Raises
    ------
    ValueError
        No labels, sequences of different length, or something else than texts in them.
    """
    _labels("true", true)
    _labels("predicted", predicted)
    if len(true) != len(predicted):
        raise ValueError(
            f"predicted must have one label for each of the {len(true)} in true, got {len(predicted)}"
        )
    right, said = np.asarray(true, dtype=object), np.asarray(predicted, dtype=object)
    scores = [
        2 * np.sum((right == kind) & (said == kind)) / (np.sum(right == kind) + np.sum(said == kind))
        for kind in sorted({*true, *predicted})
    ]
    return F1(float(np.mean(right == said)), float(np.mean(scores)))


def constant_guesser(true: Sequence[str], answer: str) -> F1:
    """F1 of one answer for every text; ValueError as `f1`, and for an answer that is none of the labels."""
    _labels("true", true)
    return f1(true, [one_of("answer", answer, sorted(set(true)))] * len(true))


def random_guesser(true: Sequence[str]) -> F1:
    """Expected F1 of answers drawn independently and evenly from the classes that occur.

    Exact: of the n_c texts of a class a binomial number is hit, of the others a binomial number falsely so.

    Raises
    ------
    ValueError
        No labels, or something else than texts among them.
    """
    _labels("true", true)
    from scipy import stats  # half a second, which who wants another module of this room need not wait for

    _, sizes = np.unique(list(true), return_counts=True)
    chance = 1 / len(sizes)
    scores = []
    for size in sizes.tolist():
        hits, false = np.arange(size + 1), np.arange(len(true) - size + 1)
        weights = np.outer(
            stats.binom.pmf(hits, size, chance), stats.binom.pmf(false, len(true) - size, chance)
        )
        scores.append(float((weights * 2 * hits[:, None] / (size + hits[:, None] + false)).sum()))
    return F1(chance, float(np.mean(scores)))


def _labels(name: str, values: Sequence[str]) -> None:
    if isinstance(values, str) or len(values) == 0 or not all(isinstance(value, str) for value in values):
        raise ValueError(
            f"{name} must be a sequence of at least one label, all of them texts, got {values!r:.80}"
        )
