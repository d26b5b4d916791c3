"""Which private texts were in the public text a model was trained on: exact matching, removal in stages, planting.

SynBench (arXiv 2509.14594), section on contamination: a private text that stands word for word in the public text
counts as contaminated; of those, 25, 50 and 75 % are taken out of the private data and the utility of what a private
generator writes is measured again. What a web crawl holds is not known, so here contamination can also be planted: a
stated share of the private texts is put into public text, and whatever follows has a known cause.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.contamination_index import PublicIndex, text_list
from dprepro.base.check import in_interval, one_of, positive_count

IntArray = NDArray[np.int64]

ORDERS = ("worst first", "random")
STAGES = (0.25, 0.5, 0.75)


def match(texts: Sequence[str], index: PublicIndex) -> pd.DataFrame:
    """Look every text up in an index.

    Parameters
    ----------
    texts : sequence of str, length n
        Private texts.
    index : PublicIndex

    Returns
    -------
    DataFrame, n rows
        tokens: length of the text; count: how often the whole of it occurs (0 for one without a token); longest: the
        tokens of its longest part that occurs, the first of equal ones; begin: where that part begins in the text;
        places: how often it occurs; text, token: where first in the index, -1 for a part of 0 tokens.

    Raises
    ------
    ValueError
        A single text in place of a sequence, something else than texts in it, or an index that is none.
    """
    asked = text_list("texts", texts)
    if not isinstance(index, PublicIndex):
        raise ValueError(f"index must be one that build_index or open_index gave, got {index!r:.80}")
    columns = ["tokens", "count", "longest", "begin", "places", "text", "token"]
    rows = []
    for text in asked:
        ids = index.ids(text)
        count = index.count(ids)
        begin, end = (0, len(ids)) if count else _longest(ids, index)
        part = ids[begin:end]
        place = index.first_place(part) or (-1, -1)
        rows.append((len(ids), count, end - begin, begin, count or index.count(part), *place))
    return pd.DataFrame(rows, columns=columns, dtype=np.int64)


def _longest(ids: list[int], index: PublicIndex) -> tuple[int, int]:
    """Two hands: where ids[begin:end] occurs, so does ids[begin + 1:end], so the end never goes back."""
    best, end = (0, 0), 0
    for begin in range(len(ids)):
        end = max(begin, end)
        while end < len(ids) and index.contains(ids[begin : end + 1]):
            end += 1
        if end - begin > best[1] - best[0]:
            best = (begin, end)
    return best


def contaminated(matches: pd.DataFrame) -> IntArray:
    """Return the numbers of the texts that stand in the index as a whole."""
    return np.flatnonzero(matches["count"].to_numpy() > 0)


def removal_order(matches: pd.DataFrame, order: str, rng: np.random.Generator | None = None) -> IntArray:
    """Return the contaminated texts in the order in which they are taken out.

    Parameters
    ----------
    matches : DataFrame
        From `match`.
    order : {"worst first", "random"}
        Worst first: the most frequent in the index first, of equally frequent ones the longest, then in the order of
        the texts.
    rng : Generator, optional
        Draws the random order.

    Raises
    ------
    ValueError
        Another order, or a random one without `rng`.
    """
    marked = contaminated(matches)
    if one_of("order", order, ORDERS) == "random":
        if rng is None:
            raise ValueError("rng must be a numpy Generator for a random order, got None")
        return rng.permutation(marked)
    found = matches.iloc[marked]
    return marked[np.lexsort((marked, -found["tokens"].to_numpy(), -found["count"].to_numpy()))]


def removed_at(order: ArrayLike, share: float) -> IntArray:
    """Return the texts that are out when a share of an order is: the first of it, so that stages contain each other.

    Parameters
    ----------
    order : array_like of int
        From `removal_order`.
    share : float
        In [0, 1]; STAGES are those of SynBench. Rounded to whole texts, halves to even.

    Raises
    ------
    ValueError
        A share outside [0, 1].
    """
    numbers = np.asarray(order, dtype=np.int64)
    return numbers[: round(float(in_interval("share", share, 0, 1)) * len(numbers))]


class Planted(NamedTuple):
    """Public texts with private ones among them, and the numbers of the private ones, sorted."""

    texts: list[str]
    numbers: IntArray


def plant(
    public: Sequence[str], private: Sequence[str], share: float, rng: np.random.Generator, copies: int = 1
) -> Planted:
    """Put a share of the private texts among public ones.

    Parameters
    ----------
    public : sequence of str
    private : sequence of str, length n
    share : float
        In [0, 1]; round(share * n) texts are drawn without replacement.
    rng : Generator
        Draws the texts and their places.
    copies : int
        How often each of them is put in.

    Returns
    -------
    Planted
        All public texts and the copies, in random order.

    Raises
    ------
    ValueError
        A single text in place of the public or the private ones, or something else than texts among them; a share
        outside [0, 1], or copies below 1.
    """
    around, own = text_list("public", public), text_list("private", private)
    times = int(positive_count("copies", copies))
    number = round(float(in_interval("share", share, 0, 1)) * len(own))
    numbers = np.sort(rng.permutation(len(own))[:number])
    mixed = [*around, *([own[i] for i in numbers] * times)]
    return Planted([mixed[i] for i in rng.permutation(len(mixed))], numbers)
