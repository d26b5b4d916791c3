"""Labelled texts: what every generator of synthetic text takes and writes, and the checks that they share."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_LEAST = 2  # texts of a class: a class of one would come out as that text or not at all


class SyntheticTexts(NamedTuple):
    """What a generator wrote.

    Attributes
    ----------
    texts : list of str, length n
        Class by class. Blank ones stay where they are.
    labels : list of str, length n
    blanks : int
        Texts without a visible character.
    """

    texts: list[str]
    labels: list[str]
    blanks: int


def checked(texts: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse texts or labels that are none, blank, or of different number.

    Raises
    ------
    ValueError
        With the place of the first fault.
    """
    for name, values in (("texts", texts), ("labels", labels)):
        if isinstance(values, str) or len(values) == 0 or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{name} must be a sequence of at least one text, got {values!r:.80}")
        blank = [number for number, value in enumerate(values) if not value.strip()]
        if blank:
            raise ValueError(f"{name} must not be blank, got {values[blank[0]]!r} at index {blank[0]}")
    if len(texts) != len(labels):
        raise ValueError(f"labels must have one label for each of the {len(texts)} texts, got {len(labels)}")


def classes(texts: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that occur, sorted.

    Raises
    ------
    ValueError
        As `checked`; a single class; a class with one text.
    """
    checked(texts, labels)
    kinds, sizes = np.unique(list(labels), return_counts=True)
    if len(kinds) < 2:
        raise ValueError(f"labels must hold two classes at least, got {str(kinds[0])!r} alone")
    if sizes.min() < _LEAST:
        rare = str(kinds[sizes.argmin()])
        raise ValueError(f"labels must give each class {_LEAST} texts at least, got 1 for {rare!r}")
    return tuple(kinds.tolist())
