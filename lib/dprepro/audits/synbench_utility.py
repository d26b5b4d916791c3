"""What synthetic texts are good for and how close they are to real ones: one line of SynBench's tables 1 and 2.

SynBench (arXiv 2509.14594) trains a classifier on synthetic texts and tests it on real ones (F1), and holds synthetic
against real texts by MAUVE, types of named entities and lengths. Here: logistic regression on MiniLM's embeddings
(and, beside it, on counted words), Jensen-Shannon divergences (``text.fidelity``). Real texts are always the test
texts, which no generator has seen: a generator that copies its private texts gains nothing by it.

Nothing here knows a generator: the modules ``synbench_by_...`` do, so that a change of one leaves the saved results
of the others as they are.
"""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from dprepro.audits.synbench_tasks import Task, packaged
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.stats.f1 import constant_guesser, f1, random_guesser
from dprepro.text.classifiers import tfidf_classifier
from dprepro.text.embedders import TextEmbedder, embedder
from dprepro.text.embedding_cache import EmbeddingCache
from dprepro.text.fidelity import entity_divergence, length_divergence, mauve

_WORD = re.compile(r"\w")


class Generator(Protocol):
    """What a fitted generator tells of its account."""

    @property
    def epsilon(self) -> float:
        """Epsilon spent."""

    @property
    def delta(self) -> float:
        """Delta of that epsilon."""

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the sensitivity."""


@cache
def vectors() -> EmbeddingCache:
    """Return the packaged embedder, which remembers the texts it has seen."""
    return EmbeddingCache(embedder())


def parsed(key: str) -> tuple[Task, float]:
    """Return the task and the budget of an item "<domain>, <epsilon>, <number>"; ValueError for another form."""
    parts = key.split(", ")
    if len(parts) != 3:
        raise ValueError(f"key must be '<domain>, <epsilon>, <number>', got {key!r}")
    return packaged(parts[0], int(parts[2])), float(parts[1])


def baselines(key: str, rng: np.random.Generator) -> dict[str, Any]:
    """Score the private texts themselves, and two guessers; an item "<domain>, <number>" of ``synbench_real``.

    Parameters
    ----------
    key : str
    rng : Generator
        Not used: nothing is drawn.

    Returns
    -------
    dict
        As `measured`, for the private texts in place of synthetic ones, and guess_micro, guess_macro (expected F1 of
        random answers), majority_micro, majority_macro (always the most frequent class of the private texts);
        private, cut: how many there are, how many of them were longer than the window; tested; classes.
    """
    name, _, number = key.partition(", ")
    return yardsticks(packaged(name, int(number)), vectors())


def yardsticks(task: Task, embed: TextEmbedder) -> dict[str, Any]:
    """As `baselines`, for any task."""
    kinds, sizes = np.unique(task.labels, return_counts=True)
    guess = random_guesser(task.test_labels)
    majority = constant_guesser(task.test_labels, str(kinds[sizes.argmax()]))
    return {
        **measured(task, SyntheticTexts(list(task.texts), list(task.labels), 0), embed),
        "guess_micro": guess.micro,
        "guess_macro": guess.macro,
        "majority_micro": majority.micro,
        "majority_macro": majority.macro,
        "private": len(task.texts),
        "cut": task.cut,
        "tested": len(task.test_texts),
        "classes": len(kinds),
    }


def measured(task: Task, wrote: SyntheticTexts, embed: TextEmbedder) -> dict[str, Any]:
    """Utility and fidelity of synthetic texts.

    Parameters
    ----------
    task : Task
    wrote : SyntheticTexts
        Blank ones among them count in every measure but for the training of the classifiers, which needs a letter or
        a digit.
    embed : TextEmbedder

    Returns
    -------
    dict
        micro, macro: F1 of the classifier on embeddings; micro_words, macro_words: of that on counted words; mauve,
        entity, length: against the test texts; length_whole: against the same uncut; words: in a text, on average;
        texts, blanks, wordless, distinct: how many.
    """
    usable = [bool(_WORD.search(text)) for text in wrote.texts]
    embedded, tests = embed.encode(wrote.texts), embed.encode(list(task.test_texts))
    labels = np.asarray(wrote.labels)
    by_meaning = _answers(_linear(), embedded[usable], labels[usable], tests, wrote.labels)
    texts = [text for text, use in zip(wrote.texts, usable, strict=True) if use]
    by_words = _answers(tfidf_classifier(), texts, labels[usable], list(task.test_texts), wrote.labels)
    meaning, words = f1(task.test_labels, by_meaning), f1(task.test_labels, by_words)
    return {
        "micro": meaning.micro,
        "macro": meaning.macro,
        "micro_words": words.micro,
        "macro_words": words.macro,
        "mauve": mauve(tests, embedded),
        "entity": entity_divergence(task.test_texts, wrote.texts),
        "length": length_divergence(task.test_texts, wrote.texts),
        "length_whole": length_divergence(task.whole, wrote.texts),
        "words": float(np.mean([len(text.split()) for text in wrote.texts])),
        "texts": len(wrote.texts),
        "blanks": wrote.blanks,
        "wordless": len(usable) - sum(usable),
        "distinct": len(set(wrote.texts)),
    }


def account(made: Generator) -> dict[str, Any]:
    """Return what a generator has spent; epsilon as a text, since JSON has no infinity."""
    return {
        "epsilon": f"{made.epsilon:.6g}",
        "delta": float(f"{made.delta:.6g}"),
        "noise_multiplier": float(f"{made.noise_multiplier:.6g}")
        if math.isfinite(made.noise_multiplier)
        else None,
    }


def _answers(classifier: Any, texts: Any, labels: Any, tests: Any, written: Sequence[str]) -> list[str]:
    """Answers of a classifier; where no two classes have a text to learn from, one answer for all."""
    if len(set(labels)) < 2:
        known = list(labels) or list(written)
        return [max(sorted(set(known)), key=known.count)] * len(tests)
    return [str(answer) for answer in classifier.fit(texts, labels).predict(tests)]


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10.0, max_iter=1000)
