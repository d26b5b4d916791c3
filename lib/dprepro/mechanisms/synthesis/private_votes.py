"""Private votes: each private vector votes for the candidate nearest to it, and the counts get Gaussian noise.

The mechanism inside AUG-PE (Xie et al., "Differentially Private Synthetic Data via Foundation Model APIs 2: Text",
arXiv 2403.01749, algorithm 1), with its account.

The counts of all classes are one vector. A private vector that is added or removed moves one entry by 1; one that is
replaced, with its label, moves two. With noise of standard deviation sigma a round of votes is s/sigma-GDP, s = 1 or
sqrt(2), and R rounds are sqrt(R) s/sigma-GDP, also where the candidates of a round hang on the rounds before (Dong,
Roth, Su, "Gaussian Differential Privacy", 2022, corollary 3.3).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, positive_count
from dprepro.stats.gdp import epsilon_to_mu, mu_to_epsilon

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# L2 distance of the counts of neighbouring private texts.
SENSITIVITIES = {"add or remove": 1.0, "replace": float(np.sqrt(2))}
_DIGITS = 6  # of squared distances: candidates that differ in spelling alone have embeddings equal to 1e-7
_BLOCK = 4096  # private vectors compared at once


def noise_for(
    epsilon: ArrayLike, delta: ArrayLike, rounds: ArrayLike, sensitivity: ArrayLike = 1.0
) -> FloatArray:
    """Smallest standard deviation of the noise on each count that gives (epsilon, delta)-DP over all rounds.

    Parameters
    ----------
    epsilon : array_like
        In (0, inf]; infinity gives 0.
    delta : array_like
        In (0, 1).
    rounds : array_like of int
    sensitivity : array_like
        1 for a text added or removed, sqrt(2) for one replaced.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    epsilon = in_interval("epsilon", epsilon, 0, np.inf, closed="right")
    delta = in_interval("delta", delta, 0, 1, closed="neither")
    moved = in_interval("sensitivity", sensitivity, 0, np.inf, closed="neither")
    return moved * np.sqrt(positive_count("rounds", rounds)) / epsilon_to_mu(epsilon, delta)


def epsilon_of(
    noise: ArrayLike, delta: ArrayLike, rounds: ArrayLike, sensitivity: ArrayLike = 1.0
) -> FloatArray:
    """Smallest epsilon that votes with this noise satisfy, the inverse of `noise_for`; infinity without noise."""
    noise = in_interval("noise", noise, 0, np.inf, closed="left")
    delta = in_interval("delta", delta, 0, 1, closed="neither")
    moved = in_interval("sensitivity", sensitivity, 0, np.inf, closed="neither")
    with np.errstate(divide="ignore"):
        return mu_to_epsilon(moved * np.sqrt(positive_count("rounds", rounds)) / noise, delta)


def vote_counts(private: ArrayLike, candidates: ArrayLike) -> IntArray:
    """Count for each candidate the private vectors that are nearest to it.

    Parameters
    ----------
    private, candidates : array_like, shapes (n, d) and (m, d)
        m at least 1. Squared distances count to six digits; of equally near candidates the first gets the vote.

    Returns
    -------
    ndarray of int, shape (m,)
        n in total: each private vector has one vote.

    Raises
    ------
    ValueError
        Other shapes, or entries that are not finite.
    """
    votes, options = finite("private", private), finite("candidates", candidates)
    if votes.ndim != 2 or options.ndim != 2 or len(options) == 0 or votes.shape[1] != options.shape[1]:
        raise ValueError(
            "private and candidates must have shapes (n, d) and (m, d), m at least 1, "
            f"got {votes.shape} and {options.shape}"
        )
    counts = np.zeros(len(options), dtype=np.int64)
    lengths = (options**2).sum(axis=1)
    for start in range(0, len(votes), _BLOCK):
        # The square of the private vector's own length is the same for all candidates.
        distances = lengths - 2 * votes[start : start + _BLOCK] @ options.T
        counts += np.bincount(distances.round(_DIGITS).argmin(axis=1), minlength=len(options))
    return counts


def select(
    counts: ArrayLike, kept: int, noise: float, threshold: float, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """Choose candidates by their noisy counts.

    Parameters
    ----------
    counts : array_like, shape (m,)
    kept : int
        1 to m.
    noise : float
        Standard deviation, in [0, inf).
    threshold : float
        Any number; minus infinity lets every candidate pass.
    rng : Generator

    Returns
    -------
    chosen : ndarray of int, shape (kept,)
        Candidates above the threshold, those with most votes first; if there are fewer than `kept`, others at random
        behind them. Equal counts are in random order.
    passed : int
        How many candidates are above the threshold.

    Raises
    ------
    ValueError
        Counts that are no row of finite numbers, or another argument outside its domain.
    """
    exact = finite("counts", counts)
    if exact.ndim != 1 or len(exact) == 0:
        raise ValueError(f"counts must have shape (m,), m at least 1, got {exact.shape}")
    wanted = int(positive_count("kept", kept))
    if wanted > len(exact):
        raise ValueError(f"kept must be at most the number of counts, got {wanted} of {len(exact)}")
    spread = float(in_interval("noise", noise, 0, np.inf, closed="left"))
    least = float(in_interval("threshold", threshold, -np.inf, np.inf))
    noisy = exact + spread * rng.standard_normal(len(exact))
    above = noisy > least
    order = rng.permutation(len(exact))
    ranks = np.where(above, -noisy, np.inf)[order]
    return order[np.argsort(ranks, kind="stable")][:wanted], int(above.sum())
