"""Texts that stand apart: the targets of a membership attack that inserts no canaries.

SynBench (arXiv 2509.14594) takes the one per cent of texts farthest from the centroid of their embeddings, and the
local outliers of Breunig et al., "LOF: Identifying Density-Based Local Outliers" (2000): texts whose neighbours
have much closer neighbours than they have themselves.

Copies go first. The local outlier factor compares densities, and the density among copies is infinite: one text
repeated more often than the number of neighbours gets a factor near zero, and those around it factors of millions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, positive_count

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SAME = 1e-4  # vectors of length one that are nearer are copies; batches move an embedding by 1e-7


@dataclass(frozen=True)
class Outliers:
    """Outliers among n texts, by the numbers of the texts; of copies only the first has a number here.

    Attributes
    ----------
    distance : ndarray, shape (n,)
        Euclidean distance from the centroid of the different texts.
    factor : ndarray, shape (n,)
        Local outlier factor among the different texts: about 1 inside a cluster, larger outside.
    far, local : ndarray of int
        The share asked for with the largest distance, and with the largest factor; largest first.
    worst : ndarray of int
        Both, taken in turn, each text once.
    copies : int
        Texts left out since an earlier one has the same embedding.
    """

    distance: FloatArray
    factor: FloatArray
    far: IntArray
    local: IntArray
    worst: IntArray
    copies: int

    def __str__(self) -> str:
        both = len(self.far) + len(self.local) - len(self.worst)
        return (
            f"{len(self.worst)} outliers among {len(self.distance) - self.copies} different texts: {len(self.far)} "
            f"farthest from the centroid, {len(self.local)} by local outlier factor, {both} both. {self.copies} "
            "copies were left out before."
        )


def find_outliers(vectors: ArrayLike, share: float = 0.01, neighbours: int = 20) -> Outliers:
    """Find the texts farthest from the centroid and those with the largest local outlier factor.

    Parameters
    ----------
    vectors : array_like, shape (n, dimension)
        Embeddings (`text.embedders`).
    share : float
        Share of the different texts that each rule takes, in (0, 1]; at least one text.
    neighbours : int
        Of the local outlier factor; fewer than the different texts.

    Raises
    ------
    ValueError
        Vectors that are not finite or not a matrix, no more than `neighbours` different ones, or an argument outside
        its domain.

    Notes
    -----
    Copies, vectors nearer than 1e-4, change nothing: neither the centroid nor a density nor the number of
    outliers. scikit-learn computes the factor.
    """
    from sklearn.neighbors import LocalOutlierFactor

    matrix = finite("vectors", vectors)
    if matrix.ndim != 2:
        raise ValueError(f"vectors must be a matrix (texts, dimension), got shape {matrix.shape}")
    part = float(in_interval("share", share, 0, 1, closed="right"))
    near = int(positive_count("neighbours", neighbours))
    first = _first_of_copies(matrix)
    kept = np.unique(first)
    if len(kept) <= near:
        raise ValueError(
            f"vectors must hold more than neighbours={near} different ones, got {len(kept)} among {len(matrix)}"
        )
    different = matrix[kept]
    distance = np.linalg.norm(different - different.mean(axis=0), axis=1)
    factor = -LocalOutlierFactor(n_neighbors=near).fit(different).negative_outlier_factor_
    number = max(1, int(part * len(kept)))
    # A stable sort: of equal scores the first text comes first, on any machine.
    far, local = (kept[np.argsort(-score, kind="stable")[:number]] for score in (distance, factor))
    both = np.column_stack([far, local]).ravel()
    worst = both[np.sort(np.unique(both, return_index=True)[1])]
    place = np.searchsorted(kept, first)
    return Outliers(distance[place], factor[place], far, local, worst, len(matrix) - len(kept))


def _first_of_copies(matrix: FloatArray) -> IntArray:
    """For each row the number of the first row that is a copy of it, or of a copy of it, itself included."""
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import radius_neighbors_graph

    if len(matrix) == 0:
        return np.empty(0, dtype=np.int64)
    pairs = radius_neighbors_graph(matrix, _SAME)
    group = connected_components(pairs, directed=False)[1]
    return np.unique(group, return_index=True)[1].astype(np.int64)[group]
