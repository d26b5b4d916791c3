"""Membership design for synthetic text: which private subset holds which target, and what the references hold.

After Meeus et al., "The Canary's Echo" (arXiv 2502.14921) and SynBench (arXiv 2509.14594): targets are set apart, the
other texts are split one to two into a private and an auxiliary pool, many private subsets are drawn, each target
is in half of them, and M = 4 reference sets of auxiliary texts hold each target exactly twice. A generator is run on
each subset; ``ngram_scores`` scores what it wrote.

Everything here is a number of a text: texts, labels and models stay with the caller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import one_of, positive_count

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

INCLUSIONS = ("exact", "independent")
REFERENCES = 4  # M of the papers
_ENDINGS = 200  # of a canary, until one fits
_AUXILIARY_SHARE = 2 / 3  # "1:2": one private text for two auxiliary ones


def half_and_half(subsets: int, targets: int, rng: np.random.Generator, kind: str = "exact") -> BoolArray:
    """Draw which subset includes which target.

    Parameters
    ----------
    subsets, targets : int
        `subsets` even, at least 2, for "exact".
    rng : numpy.random.Generator
    kind : {"exact", "independent"}
        "exact": each target in exactly half of the subsets, drawn anew for each target. "independent": each target
        in each subset by its own fair coin.

    Returns
    -------
    ndarray of bool, shape (subsets, targets)

    Raises
    ------
    ValueError
        An argument outside its domain.

    Notes
    -----
    Under "exact" scores that ignore the subsets have a pooled AUC of exactly 1/2, since what a target adds to
    the "in" scores it adds to the "out" scores too; independent coins let the easy targets fall on one side
    by chance. In both, the coins *of one subset* are independent and fair, so that "in" and "out" differ in one
    record (add/remove neighbours) and each single subset admits an audit with one run
    (``canary_one_run``). Over several subsets the coins of a target are independent under "independent" only.
    """
    rows, columns = int(positive_count("subsets", subsets)), int(positive_count("targets", targets))
    if one_of("kind", kind, INCLUSIONS) == "independent":
        return rng.random((rows, columns)) < 0.5
    if rows % 2:
        raise ValueError(f"subsets must be even for an exact half and half, got {rows}")
    halves = np.repeat([True, False], rows // 2)
    return rng.permuted(np.tile(halves[:, None], columns), axis=0)


@dataclass(frozen=True)
class Split:
    """Numbers of texts by what they serve for: disjoint, each in rising order but `outliers`.

    Attributes
    ----------
    outliers, members : ndarray of int, shape (each,)
        Targets: outliers in the order given, and texts drawn from those that are none.
    private, auxiliary : ndarray of int
        All others, a third and two thirds. An outlier that is no target is in neither.
    """

    outliers: IntArray
    members: IntArray
    private: IntArray
    auxiliary: IntArray


def split_texts(texts: int, outliers: ArrayLike, each: int, rng: np.random.Generator) -> Split:
    """Set equal numbers of outliers and random members apart as targets, split the others.

    Parameters
    ----------
    texts : int
        How many distinct texts there are.
    outliers : array_like of int
        Numbers of the outliers, worst first (`outliers.find_outliers`); the first `each` become targets.
    each : int
        Targets of each kind.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        Fewer outliers than `each`, one twice, one that is no text, or too few other texts.
    """
    number, wanted = int(positive_count("texts", texts)), int(positive_count("each", each))
    odd = positive_count("outliers", outliers, minimum=0)
    if odd.ndim != 1 or len(np.unique(odd)) != odd.size or (odd >= number).any():
        raise ValueError(f"outliers must be different numbers below {number}, got {odd}")
    if odd.size < wanted:
        raise ValueError(f"outliers must be at least each={wanted}, got {odd.size}")
    others = rng.permutation(np.setdiff1d(np.arange(number), odd))
    if len(others) < wanted + 3:
        raise ValueError(
            f"texts must leave {wanted} members and a text or more a pool, got {len(others)} that are no outlier"
        )
    rest = others[wanted:]
    auxiliary = round(_AUXILIARY_SHARE * len(rest))
    return Split(odd[:wanted], np.sort(others[:wanted]), np.sort(rest[auxiliary:]), np.sort(rest[:auxiliary]))


@dataclass(frozen=True)
class MembershipDesign:
    """Subsets and references by the numbers of their texts.

    Attributes
    ----------
    included : ndarray of bool, shape (subsets, targets)
        Which subset includes which target.
    private : ndarray of int, shape (subsets, size)
        The other texts of each subset, numbers from the private pool, none twice in a subset.
    references_included : ndarray of bool, shape (M, targets)
        Each target in exactly half of the references.
    references : ndarray of int, shape (M, size)
        The other texts of each reference, from the auxiliary pool, no text in two references.
    """

    included: BoolArray
    private: IntArray
    references_included: BoolArray
    references: IntArray

    def subset(self, number: int, texts: Sequence[str], targets: Sequence[str]) -> list[str]:
        """Return the private texts of a subset, then the targets in it; `texts` is the whole corpus."""
        return _together(self.private[number], self.included[number], texts, targets)

    def reference(self, number: int, texts: Sequence[str], targets: Sequence[str]) -> list[str]:
        """Return the auxiliary texts of a reference, then the targets in it."""
        return _together(self.references[number], self.references_included[number], texts, targets)


def membership_design(
    private: ArrayLike,
    auxiliary: ArrayLike,
    targets: int,
    subsets: int,
    size: int,
    rng: np.random.Generator,
    kind: str = "exact",
) -> MembershipDesign:
    """Draw subsets and balanced references.

    Parameters
    ----------
    private, auxiliary : array_like of int
        Numbers of the texts of the two pools (`split_texts`).
    targets, subsets : int
    size : int
        Texts of a subset and of a reference besides targets. Each holds about half of the targets too.
    rng : numpy.random.Generator
    kind : {"exact", "independent"}
        Inclusion of targets in subsets (`half_and_half`); references are always balanced.

    Raises
    ------
    ValueError
        A private pool below `size`, an auxiliary pool below 4 `size`, or an argument outside its domain.
    """
    pool, aside = (
        positive_count(name, numbers, 0) for name, numbers in (("private", private), ("auxiliary", auxiliary))
    )
    each = int(positive_count("size", size))
    for name, numbers, need in (("private", pool, each), ("auxiliary", aside, REFERENCES * each)):
        if len(np.unique(numbers)) < need or len(np.unique(numbers)) != numbers.size:
            raise ValueError(f"{name} must hold at least {need} different texts, got {numbers.size}")
    included = half_and_half(subsets, targets, rng, kind)
    drawn = np.stack([np.sort(rng.choice(pool, each, replace=False)) for _ in range(len(included))])
    balanced = half_and_half(REFERENCES, targets, rng)
    aside = rng.choice(aside, (REFERENCES, each), replace=False)
    return MembershipDesign(included, drawn, balanced, aside)


def inserted_canaries(
    texts: Sequence[str],
    number: int,
    rng: np.random.Generator,
    fits: Callable[[str], bool] = lambda canary: True,
) -> tuple[list[str], list[int]]:
    """Make canaries: the beginning of a real text, then words in no order that anybody writes.

    Parameters
    ----------
    texts : sequence of str
        Real texts that are not private (the auxiliary pool).
    number : int
    rng : numpy.random.Generator
    fits : callable
        Whether a canary may be used; one that may not gets another ending, up to 200 times.

    Returns
    -------
    canaries : list of str, length `number`
        Each as long as a text, its source: the first half of its words, then words drawn evenly from all different
        words of the texts.
    sources : list of int
        The number in `texts` of each source, different ones; a canary takes its label from there.

    Raises
    ------
    ValueError
        Fewer texts of two words or more, with an ending that fits, than `number`.

    Notes
    -----
    Meeus et al. (arXiv 2502.14921): what shows through synthetic text is a canary whose beginning is like
    the data, so that the generator gets there, and whose end is improbable, so that it is recognised. A canary of
    random words from its beginning on is remembered by the model and hardly ever written.
    """
    wanted = int(positive_count("number", number))
    rows = [text.split() for text in texts]
    vocabulary = sorted({word for row in rows for word in row})
    canaries: list[str] = []
    sources: list[int] = []
    for place in rng.permutation([place for place, row in enumerate(rows) if len(row) > 1]).tolist():
        if len(canaries) == wanted:
            break
        kept, length = len(rows[place]) // 2, len(rows[place])
        for _ in range(_ENDINGS):
            drawn = rng.integers(len(vocabulary), size=length - kept).tolist()
            canary = " ".join([*rows[place][:kept], *(vocabulary[word] for word in drawn)])
            if fits(canary):
                canaries.append(canary)
                sources.append(place)
                break
    if len(canaries) < wanted:
        raise ValueError(f"texts must hold {wanted} of two words or more that fit, got {len(canaries)}")
    return canaries, sources


def _together(base: IntArray, included: BoolArray, texts: Sequence[str], targets: Sequence[str]) -> list[str]:
    if len(targets) != included.size:
        raise ValueError(f"targets must be {included.size} texts, got {len(targets)}")
    return [*(texts[i] for i in base.tolist()), *(targets[i] for i in np.flatnonzero(included).tolist())]
