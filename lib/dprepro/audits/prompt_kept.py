"""What the tokens that a keep-list lets through say about a text: an attacker who sees nothing else.

Stop words and punctuation are kept because they are held to say nothing of a person (arXiv 2505.05922). The attacker
sees them, and a blank in each other place; no epsilon changes that. It learns from public texts with labels which
kind of text such a pattern belongs to.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.mechanisms.prompt.vocabulary import Vocabulary
from dprepro.stats.bounds import clopper_pearson
from dprepro.text.classifiers import tfidf_classifier

BLANK = "blank"


class Guesses(NamedTuple):
    """How often a label was guessed.

    Attributes
    ----------
    right : bool array
        One entry a test text.
    accuracy, low, high : float
        With its 95 % interval (Clopper-Pearson).
    chance : float
        Accuracy of always guessing the label that is most frequent in the texts learnt from.
    """

    right: NDArray[np.bool_]
    accuracy: float
    low: float
    high: float
    chance: float


def skeleton(vocabulary: Vocabulary, text: str, keep: str) -> str:
    """Return what is left of a text: kept words, marks by their code ("mark44" is a comma), blanks.

    There is a blank for each other token: how many there were can be seen in what is sent.
    """
    cut = vocabulary.cut(text, keep)
    shown = []
    for token, kept in zip(cut.tokens, cut.kept, strict=True):
        bare = vocabulary.tokenizer.bare(token)
        written = bare if bare.isalnum() else "".join(f"mark{ord(sign)}" for sign in bare)
        shown.append(written if kept else BLANK)
    return " ".join(shown)


def guess_labels(
    train: Sequence[str], train_labels: ArrayLike, test: Sequence[str], test_labels: ArrayLike
) -> Guesses:
    """Learn labels from texts (words and pairs of words, linear) and guess those of others.

    Parameters
    ----------
    train, test : sequences of str
        Texts, or their skeletons.
    train_labels, test_labels : array_like
        One for each text; two kinds at least among those to learn from.

    Raises
    ------
    ValueError
        No text to test on, or labels of another number.
    """
    known, true = np.asarray(train_labels), np.asarray(test_labels)
    if len(known) != len(train) or len(true) != len(test) or len(true) == 0:
        raise ValueError(
            "labels must be one for each text and test at least one text, "
            f"got {len(known)} for {len(train)} and {len(true)} for {len(test)}"
        )
    right = np.asarray(tfidf_classifier().fit(list(train), known).predict(list(test)) == true)
    kinds, counts = np.unique(known, return_counts=True)
    low, high = clopper_pearson(int(right.sum()), len(right), 0.05)
    chance = float((true == kinds[counts.argmax()]).mean())
    return Guesses(right, float(right.mean()), float(low), float(high), chance)
