"""The tasks of the utility and fidelity study: private texts with a class each, and real texts to test on.

SynBench (arXiv 2509.14594) takes nine corpora that cannot be shipped. Here are three open ones, and `task` makes one
of any corpus. A long text is cut, for every generator alike, to the words that fit 31 tokens of the packaged model,
the window of the smallest generator: one document stays one record, so that epsilon covers a document, and its
uncut form is kept to hold lengths against.

The public model behind the generators has read the training side of products and novels. Of products only the other
side is used. Of novels there is too little else: its private texts are known to that model, though not their labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window
from dprepro.mechanisms.synthesis.labelled_texts import classes as classes_of
from dprepro.text.corpora import Corpus, corpus

_DRAWS = 20250914  # first part of the seed of a task; the second is its number
LABELS = ("bad", "good")
PACKAGED: dict[str, dict[str, Any]] = {
    "products": {"private": 400, "tested": 400, "side": "test", "sign": True},
    "dialogue": {
        "private": 400,
        "tested": 400,
        "kept": ("ai", "coding", "emotion", "psychology", "trivia"),  # topics with 40 texts and more
    },
    "novels": {"private": 200, "tested": 400},
}


@dataclass(frozen=True)
class Task:
    """Texts to synthesize from, and to test on.

    Attributes
    ----------
    name : str
    texts, labels : tuple of str, length n
        The private texts, cut, and the class of each.
    test_texts, test_labels : tuple of str, length m
        Real texts that no generator sees, cut in the same way.
    whole : tuple of str, length m
        The same test texts uncut.
    cut : int
        Private texts that were longer than the window.
    """

    name: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    test_texts: tuple[str, ...]
    test_labels: tuple[str, ...]
    whole: tuple[str, ...]
    cut: int

    def counts(self, written: int) -> dict[str, int]:
        """Return how many of about `written` texts each class gets: its share of the private ones, at least one."""
        kinds, sizes = np.unique(self.labels, return_counts=True)
        shares = int(positive_count("written", written)) * sizes / len(self.labels)
        return {str(kind): max(1, round(float(share))) for kind, share in zip(kinds, shares, strict=True)}


@cache
def packaged(name: str, number: int) -> Task:
    """Return a task on a packaged corpus: the same for every generator and budget, another for each number.

    Raises
    ------
    ValueError
        A name that is not in `PACKAGED`.
    """
    return task(corpus(one_of("name", name, tuple(PACKAGED))), number, **PACKAGED[name])


def task(
    source: Corpus,
    number: int,
    *,
    private: int,
    tested: int,
    label: str | None = None,
    kept: Sequence[str] = (),
    side: str = "both",
    sign: bool = False,
) -> Task:
    """Draw a task from a corpus, copies of a text left out.

    Parameters
    ----------
    source : Corpus
        With a label column: packaged, or of one's own by `corpora.read_corpus`.
    number : int
        Of the draw, at least 0.
    private, tested : int
        Private and test texts at most; fewer where there are no more.
    label : str, optional
        The label column, by default the first.
    kept : sequence of str
        The classes; all there are unless given.
    side : {"both", "test"}
        "both": private texts from the training side, test texts from the test side. "test": both from the test side,
        private ones first; a corpus whose training side is public needs that.
    sign : bool
        The class is the sign of a number, "good" above 0, "bad" below it; 0 is left out.

    Raises
    ------
    ValueError
        A corpus without labels or without that column; classes that do not occur; fewer than two classes; a class
        with fewer than two private texts or without a test text; arguments outside their domains.
    """
    generator = np.random.default_rng([_DRAWS, int(positive_count("number", number, minimum=0))])
    most = int(positive_count("private", private)), int(positive_count("tested", tested))
    if not source.labels:
        raise ValueError(f"source must have a label column, got {source.name} without one")
    column = source.labels[0] if label is None else one_of("label", label, source.labels)
    table = _classes(source.without_copies().table, column, sign)
    if kept:
        missing = sorted({*kept} - {*table["class"]})
        if missing:
            raise ValueError(f"kept must be classes of {source.name}, got {', '.join(missing)}")
        table = table[table["class"].isin(kept)]
    table = table.iloc[generator.permutation(len(table))]
    training = table[table["split"] == "train"]
    other = table[table["split"] == "test"]
    if one_of("side", side, ("both", "test")) == "test":
        training, other = other[: most[0]], other[most[0] :]
    drawn, test = training[: most[0]], other[: most[1]]
    _enough(source.name, drawn["class"], test["class"])
    texts, tests = cut_to_window(list(drawn["text"])), cut_to_window(list(test["text"]))
    return Task(
        source.name,
        tuple(texts),
        tuple(drawn["class"]),
        tuple(tests),
        tuple(test["class"]),
        tuple(test["text"]),
        sum(a != b for a, b in zip(texts, drawn["text"], strict=True)),
    )


def _classes(table: pd.DataFrame, column: str, sign: bool) -> pd.DataFrame:
    if not sign:
        return table.assign(**{"class": table[column].astype(str)})
    if not pd.api.types.is_numeric_dtype(table[column]):
        raise ValueError(f"sign needs numbers in the label column {column!r}, got {table[column].iloc[0]!r}")
    table = table[table[column] != 0]
    return table.assign(**{"class": np.where(table[column] > 0, LABELS[1], LABELS[0])})


def _enough(name: str, drawn: "pd.Series[Any]", test: "pd.Series[Any]") -> None:
    kinds = sorted({*drawn, *test})
    for kind in kinds:
        have = int((drawn == kind).sum()), int((test == kind).sum())
        if have[0] < 2 or have[1] < 1:
            raise ValueError(
                f"each class of {name} must have two private texts and a test text at least, got {have[0]} and "
                f"{have[1]} for {kind!r}: name the classes to keep (kept=...)"
            )
    classes_of(list(drawn), list(drawn))  # two classes at least
