"""Texts of a study of planted contamination: private ones, others of the same kinds, and what is pretrained on.

Two kinds that the public model (``tiny_lm``) has not met, films and talk; the kind is the label. Its pretraining goes
on with public pieces, in which a share of the private texts stands; the corpus has the same size at every share.
"others": in place of all private texts, as many texts of the same kinds that are not private; what they do is
knowledge of the domain, not contamination.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from dprepro.audits.contamination import plant
from dprepro.text.corpora import corpus
from dprepro.text.public_text import public_pieces
from dprepro.text.tiny_lm import TinyLM, tiny_lm

KINDS = {"film": "movies", "talk": "dialogue"}  # label: corpus; the public model has seen neither
OTHERS = "others"
LEAST = 4  # words of a text: shorter ones stand in any public text by chance


class Material(NamedTuple):
    """Texts of one run, kind by kind: private ones, others of the same kinds, real test texts, and public pieces."""

    private: list[str]
    labels: list[str]
    others: list[str]
    test: list[str]
    test_labels: list[str]
    public: list[str]


def material(rng: np.random.Generator, each: int, tested: int, longest: int) -> Material:
    """Draw the texts of a run.

    Parameters
    ----------
    rng : Generator
    each : int
        Private texts of a kind, and others of it.
    tested : int
        Test texts of a kind.
    longest : int
        Tokens of a text of the public model, at most.

    Raises
    ------
    ValueError
        A kind has too few texts of that length.
    """
    parts: dict[str, list[str]] = {name: [] for name in ("private", "others", "test")}
    for kind in KINDS:
        train, test = (_short(kind, side, longest) for side in ("train", "test"))
        if len(train) < 2 * each or len(test) < tested:
            raise ValueError(
                f"each must be at most {len(train) // 2} and tested at most {len(test)} for {kind}, "
                f"got {each} and {tested}"
            )
        order = rng.permutation(len(train))
        parts["private"] += [train[i] for i in order[:each]]
        parts["others"] += [train[i] for i in order[each : 2 * each]]
        parts["test"] += [test[i] for i in rng.permutation(len(test))[:tested]]
    labels, test_labels = ([kind for kind in KINDS for _ in range(n)] for n in (each, tested))
    public = _short("public", "train", longest)
    drawn = [public[i] for i in rng.permutation(len(public))[: len(labels)]]
    return Material(parts["private"], labels, parts["others"], parts["test"], test_labels, drawn)


@cache
def public_model() -> TinyLM:
    """Return the model that all runs begin with; whoever trains it trains a copy."""
    return tiny_lm()


def pretraining_corpus(
    texts: Material, amount: str, rng: np.random.Generator
) -> tuple[list[str], Sequence[int]]:
    """Return as many texts at every share: public pieces, and the planted ones in place of some of them.

    Parameters
    ----------
    texts : Material
    amount : str
        A share in [0, 1] of the private texts, or "others".
    rng : Generator
        Draws which texts, and their places.

    Returns
    -------
    list of str, sequence of int
        The corpus, and the numbers of the private texts in it.

    Raises
    ------
    ValueError
        A share outside [0, 1], or no number.
    """
    if amount == OTHERS:
        return texts.others, []
    free = len(texts.private) - round(float(amount) * len(texts.private))
    found = plant(texts.public[:free], texts.private, float(amount), rng)
    return found.texts, found.numbers.tolist()


@cache
def _short(kind: str, side: str, longest: int) -> list[str]:
    if kind == "public":
        texts = list(chain.from_iterable(public_pieces(side).values()))
    else:
        texts = corpus(KINDS[kind]).split(side).without_copies().texts
    lines = [
        text
        for text in dict.fromkeys(" ".join(text.split()) for text in texts)
        if text.count(" ") >= LEAST - 1
    ]
    # Cut by characters first: the tokenizer warns of texts beyond its window.
    lines = [text for text in lines if len(text) < 8 * longest]
    rows = public_model().tokenizer(lines, add_special_tokens=False)["input_ids"]
    return [text for text, row in zip(lines, rows, strict=True) if len(row) <= longest]
