"""The nearest-neighbour attack on CUSTEXT where the vocabulary is too large for the distances of all pairs.

CUSTEXT (arXiv 2207.09136) gives a word only K possible outputs, its group. Whether the original is among the words
nearest to an output takes the distances from these outputs alone, so the attack that Cape's text quotes
(arXiv 2505.05922) is exact for the 341,000 words of GloVe too.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dprepro.base.check import positive_count
from dprepro.mechanisms.prompt.metric_dp import Custext
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array
from dprepro.mechanisms.prompt.vocabulary import OUTSIDE


def nearest_in_groups(mechanism: Custext, rows: ArrayLike, epsilon: float, ks: Sequence[int]) -> Array:
    """Probability that the original is among the K words nearest to the output, exactly.

    Parameters
    ----------
    mechanism : Custext
    rows : int array, shape (n,)
        Original tokens; one outside the vocabulary (-1) is kept, hence found.
    epsilon : float
    ks : sequence of int
        At least 1; the output itself is the first of the words nearest to it.

    Returns
    -------
    array, shape (n, len(ks))

    Raises
    ------
    ValueError
        A K below 1, or epsilon outside (0, inf).
    """
    wanted, counts = np.asarray(rows, np.int64), positive_count("ks", list(ks))
    found = np.ones((len(wanted), len(counts)))
    groups = mechanism.group[wanted]
    width = max(1, BLOCK // len(mechanism.vocabulary))
    for number in np.unique(groups[wanted != OUTSIDE]):
        places = np.flatnonzero((groups == number) & (wanted != OUTSIDE))
        inputs, which = np.unique(wanted[places], return_inverse=True)
        members = mechanism.members[number]
        channel = mechanism.within(number, epsilon)[np.searchsorted(members, inputs)]
        nearer = np.empty((len(members), len(inputs)), np.int64)
        for start in range(0, len(members), width):
            distance = mechanism.vocabulary.distances(members[start : start + width])
            own = distance[:, inputs, None]
            nearer[start : start + width] = (distance[:, None] < own).sum(axis=2)
        for column, k in enumerate(counts):
            found[places, column] = (channel * (k > nearer.T)).sum(axis=1)[which]
    return found
