"""What a mechanism's output distribution proves: the largest log-ratio over all pairs of inputs, by enumeration.

A mechanism that replaces a word by one of V has a channel of V x V probabilities. Its privacy loss is the largest,
over outputs, of (column maximum - column minimum) of log P: every pair of the vocabulary is in it.

Cape (arXiv 2505.05922) states epsilon + epsilon' for its buckets, epsilon' = ln of the largest ratio of two buckets'
sizes. With mean utilities m in a range no longer than the sensitivity D, an output r in buckets b and b' of two
inputs has

    P(r|x) / P(r|x') = exp(epsilon (m_b - m'_b') / 2D) * (Z' / Z) * (|b'| / |b|),    Z = sum exp(epsilon m_j / 2D).

The first factor is at most exp(epsilon/2) and the third at most exp(epsilon'), with sizes from the buckets of *both*
inputs. Z and Z' are sums over the buckets that are not empty. With k and k' of them and utilities in a common range
of length D, Z'/Z <= (k'/k) exp(epsilon/2): the stated proof has exp(epsilon/2), as if k' = k. Hence

    loss <= epsilon + epsilon' + ln(k_max / k_min)                                                  (corrected)

holds for all inputs, and the stated bound where all of them fill equally many buckets.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import positive_count
from dprepro.mechanisms.prompt.cape import Cape, by_token
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


class Loss(NamedTuple):
    """A loss and where it is reached.

    Attributes
    ----------
    value : float
        In nats; inf where an output is possible for one input only.
    output, likely, unlikely : int
        Rows of the output and of the two inputs that give it its largest and its smallest probability.
    """

    value: float
    output: int
    likely: int
    unlikely: int


class BucketedLoss(NamedTuple):
    """Exact loss of Cape at one epsilon beside the bounds, all in nats for one token.

    Attributes
    ----------
    epsilon : float
        Nominal.
    exact : Loss
    own : float
        The stated bound with the sizes of one input's buckets at a time, the largest over all inputs.
    stated : float
        The stated bound with sizes of all inputs' buckets, the more generous reading.
    corrected : float
    fewest, most : int
        Buckets that are not empty, over all inputs.
    """

    epsilon: float
    exact: Loss
    own: float
    stated: float
    corrected: float
    fewest: int
    most: int


class _Columns:
    """Largest and smallest entry of each column of a matrix that comes in blocks of rows, and their rows."""

    def __init__(self, width: int) -> None:
        self.high, self.low = np.full(width, -np.inf), np.full(width, np.inf)
        self.likely, self.unlikely = np.zeros(width, np.int64), np.zeros(width, np.int64)

    def add(self, block: Array, start: int) -> None:
        high, low = block.max(axis=0), block.min(axis=0)
        for better, best, now, where in (
            (high > self.high, self.high, high, self.likely),
            (low < self.low, self.low, low, self.unlikely),
        ):
            columns = np.flatnonzero(better)
            # The rows are looked for only where the extreme has moved, which is rare after the first blocks.
            where[columns] = start + np.argmax(block[:, columns] == now[columns], axis=0)
            best[columns] = now[columns]

    def loss(self) -> Loss:
        possible = np.isfinite(self.high)  # an output that no input gives tells nothing
        gap = np.full(len(self.high), -np.inf)
        gap[possible] = self.high[possible] - self.low[possible]
        output = int(gap.argmax())
        return Loss(float(gap[output]), output, int(self.likely[output]), int(self.unlikely[output]))


def worst_case_loss(
    mechanism: PromptMechanism, epsilon: float, context: ArrayLike | None = None, inputs: int | None = None
) -> Loss:
    """Exact loss of a mechanism over all pairs of words that may stand at one place.

    Parameters
    ----------
    mechanism : PromptMechanism
    epsilon : float
        Nominal.
    context : array, shape (V,), optional
        Logits at the place, for a contextual mechanism. They do not depend on the word itself in the masked views.
    inputs : int, optional
        Only the first so many words come in; all by default.

    Returns
    -------
    Loss
        The V x V matrix is never held: blocks of rows are.

    Raises
    ------
    ValueError
        Fewer than two inputs, or epsilon outside (0, inf).
    """
    size = len(mechanism.vocabulary)
    count = size if inputs is None else min(size, int(positive_count("inputs", inputs, minimum=2)))
    columns, width = _Columns(size), max(1, BLOCK // size)
    line = None if context is None else np.asarray(context)[None]
    for start in range(0, count, width):
        rows = np.arange(start, min(start + width, count))
        columns.add(mechanism.log_channel(rows, epsilon, line), start)
    return columns.loss()


def bucketed_losses(
    mechanism: Cape, epsilons: Sequence[float], context: ArrayLike | None = None
) -> list[BucketedLoss]:
    """Exact losses of Cape at one place for several epsilon, with one pass over the buckets, beside its bounds.

    Parameters
    ----------
    mechanism : Cape
    epsilons : sequence of float
    context : array, shape (V,), optional
        As `worst_case_loss`.
    """
    size = len(mechanism.vocabulary)
    columns = [_Columns(size) for _ in epsilons]
    line = None if context is None else np.asarray(context)[None]
    filled, smallest, largest, own = [], size, 1, 1.0
    width = max(1, BLOCK // size)
    for start in range(0, size, width):
        found = mechanism.bucketing(np.arange(start, min(start + width, size)), line)
        filled.append((found.sizes > 0).sum(axis=1))
        least = np.where(found.sizes > 0, found.sizes, size).min(axis=1)
        most = found.sizes.max(axis=1)
        smallest, largest = min(smallest, int(least.min())), max(largest, int(most.max()))
        own = max(own, float((most / least).max()))
        for epsilon, column in zip(epsilons, columns, strict=True):
            column.add(by_token(mechanism.log_token(found, epsilon), found), start)
    k = np.concatenate(filled)
    fewest, most_filled = int(k.min()), int(k.max())
    ratio, count = float(np.log(largest / smallest)), float(np.log(most_filled / fewest))
    return [
        BucketedLoss(
            float(epsilon),
            column.loss(),
            epsilon + float(np.log(own)),
            epsilon + ratio,
            epsilon + ratio + count,
            fewest,
            most_filled,
        )
        for epsilon, column in zip(epsilons, columns, strict=True)
    ]


def partitions(words: int, buckets: int) -> Iterator[tuple[int, ...]]:
    """Yield the sizes that 1 to `buckets` buckets with something in them can have, from large to small."""

    def parts(left: int, most: int, largest: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
        elif most > 0:
            for first in range(min(left, largest), 0, -1):
                for rest in parts(left - first, most - 1, first):
                    yield (first, *rest)

    return parts(words, buckets, words)


def breaking_sizes(words: int, buckets: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of bucket sizes for which the number of buckets outgrows what the sizes explain.

    For two inputs with k and k' buckets, and an output in buckets of s and s' words, the corrected bound lets
    P(r|x)/P(r|x') be exp(epsilon) (k' s')/(k s), the stated one exp(epsilon) S/s0 with the largest and the smallest
    size of all. A pair is listed if the first exceeds the second for some output; where none is, the corrected bound
    implies the stated one, for every epsilon.
    """
    found = []
    for a, b in product(list(partitions(words, buckets)), repeat=2):
        worst = len(b) * max(b) / (len(a) * min(a))
        if worst > max(*a, *b) / min(*a, *b) * (1 + 1e-12):
            found.append((a, b))
    return found


def counterexample_on_a_line(
    words: int, buckets: int, epsilon: float, longest: int = 30
) -> tuple[NDArray[np.int64], BucketedLoss] | None:
    """Search for words on a line, at whole numbers, for which Cape by distance alone loses more than is stated.

    Parameters
    ----------
    words, buckets : int
    epsilon : float
    longest : int
        The line's length is raised up to this.

    Returns
    -------
    positions, losses
        Of the first found on the shortest line; None if there is none.
    """
    names = tuple(f"word {i}" for i in range(words))
    for length in range(words - 1, longest + 1):
        for inner in combinations(range(1, length), words - 2):
            positions = np.array([0, *inner, length])
            vocabulary = Vocabulary(names, positions[:, None])
            mechanism = Cape(vocabulary, logit_weight=0.0, buckets=buckets)
            (found,) = bucketed_losses(mechanism, [epsilon])
            if found.exact.value > found.stated:
                return positions, found
    return None
