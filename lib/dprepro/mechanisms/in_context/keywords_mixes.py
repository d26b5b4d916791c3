"""Exact counting of sets of K words under several counts at once, for the joint exponential mechanism.

Gillenwater et al. (2022) count sets by utility for one vector of counts. The likelihood ratio of a set needs its
utility under two, and the rates of an attack under three. Words that none of these tells apart form a class; a *mix*
says how many words of each class a set takes, and all sets of a mix share their utilities.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]
_MOST_MIXES = 2_000_000


def word_mixes(counts: Array, keywords: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Ways to take K words from the classes of words that no row of `counts` tells apart.

    Returns how many words of each class, shape (N, C), the classes' counts, shape (rows, C), and the log of the
    number of sets that each way stands for, shape (N,).

    Raises
    ------
    ValueError
        More than two million mixes.
    """
    classes, size = np.unique(counts, axis=1, return_counts=True)
    mixes = np.zeros((1, 0), dtype=np.int64)
    for index, room in enumerate(size):
        left = keywords - mixes.sum(axis=1)
        most = np.minimum(left, room)
        # What the remaining classes cannot hold has to be taken here.
        least = np.maximum(left - size[index + 1 :].sum(), 0)
        repeats = np.maximum(most - least + 1, 0)
        if repeats.sum() > _MOST_MIXES:
            raise ValueError(
                f"counts must have few distinct columns for exact rates, got more than {_MOST_MIXES:,} mixes"
            )
        start = np.repeat(np.cumsum(repeats) - repeats, repeats)
        added = np.arange(repeats.sum()) - start + np.repeat(least, repeats)
        mixes = np.column_stack([np.repeat(mixes, repeats, axis=0), added])
    log_number = (gammaln(size + 1) - gammaln(mixes + 1) - gammaln(size - mixes + 1)).sum(axis=1)
    return mixes, classes, log_number


def mix_utility(mixes: NDArray[np.int64], values: Array) -> Array:
    """Utility of the sets of each mix, shape (N,), where the classes have these counts."""
    order = np.argsort(-values, kind="stable")
    taken = mixes[:, order]
    keywords = int(taken[0].sum())
    # The K largest counts: the most that any mix takes of a class is all of it, or K words.
    top = np.repeat(values[order], taken.max(axis=0))[:keywords]
    # The words of a class are at ranks from its first on, where the gap is the largest.
    first = np.cumsum(taken, axis=1) - taken
    gaps = np.where(taken > 0, top[np.minimum(first, keywords - 1)] - values[order], 0.0)
    return np.asarray(-gaps.max(axis=1))
