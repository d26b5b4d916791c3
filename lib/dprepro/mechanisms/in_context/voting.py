"""Private voting (PV): partitions of the demonstrations vote for a label, the histogram gets Gaussian noise.

The setting is that of SnapAudit (arXiv 2511.13502), section on PV. Each of T disjoint partitions votes for one
label; ``votes`` counts them, so a clean output is a row of K counts that sum to T. The release is
``votes + N(0, sigma^2 I)``. Two neighbouring inputs differ in one demonstration, hence in one vote:

* replace-one moves a vote from one label to another: L2 sensitivity sqrt(2);
* add/remove adds or removes one vote: L2 sensitivity 1.

A white box sees the noisy histogram, a black box sees the label that wins it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from dprepro.base.check import finite, in_interval, one_of
from dprepro.stats.gdp import analytic_gaussian_sigma, classical_gaussian_sigma

SENSITIVITY = {"replace-one": 2**0.5, "add-remove": 1.0}
CALIBRATION = {"analytic": analytic_gaussian_sigma, "classical": classical_gaussian_sigma}


@dataclass(frozen=True)
class PrivateVoting:
    """Vote histogram under Gaussian noise.

    Parameters
    ----------
    epsilon, delta : float
        The privacy claim; epsilon > 0, 0 < delta < 1.
    adjacency : {"replace-one", "add-remove"}
        What neighbouring inputs are; it sets the L2 sensitivity.
    calibration : {"analytic", "classical"}
        Noise from the exact condition of Balle and Wang (2018), or from sqrt(2 ln(1.25/delta))/epsilon, which
        is a theorem for epsilon < 1 only and under-noises at large epsilon.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: str = "replace-one"
    calibration: str = "analytic"

    # Read by an audit: the noise is Gaussian (so the GDP conversion may be used, with a word that it was),
    # and the clean output takes few values (so its modal mass can be bounded).
    gaussian = True
    discrete = True

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        in_interval("delta", self.delta, 0.0, 1.0, closed="neither")
        one_of("adjacency", self.adjacency, tuple(SENSITIVITY))
        one_of("calibration", self.calibration, tuple(CALIBRATION))

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the histogram, in votes."""
        return SENSITIVITY[self.adjacency]

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise on each label's count, in votes."""
        return float(CALIBRATION[self.calibration](self.epsilon, self.delta, self.sensitivity))

    def release(self, votes: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        """Noisy histograms.

        Parameters
        ----------
        votes : array, shape (n, K)
            Clean histograms, a row a release; K is at least 2.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n, K)
            What a white box sees; a black box sees its argmax along the last axis.
        """
        clean = _histograms(votes)
        return clean + self.sigma * rng.standard_normal(clean.shape)

    def score(
        self,
        released: NDArray[np.float64],
        votes_in: NDArray[np.float64],
        votes_out: NDArray[np.float64],
        view: str,
    ) -> NDArray[np.float64]:
        """How much each release speaks for the canary.

        Parameters
        ----------
        released : array, shape (n, K)
        votes_in, votes_out : array, shape (K,)
            The clean histograms to tell apart, with and without the canary.
        view : {"white", "black"}
            White box: log-likelihood ratio of the two Gaussians. Black box: 1 where the label that the canary
            gains votes for has won, else 0.

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            Another view.
        """
        if one_of("view", view, ("white", "black")) == "black":
            target = int(np.argmax(votes_in - votes_out))
            return (np.argmax(released, axis=1) == target).astype(np.float64)
        middle = (votes_in + votes_out) / 2
        return (released - middle) @ (votes_in - votes_out) / self.sigma**2

    def success(
        self,
        votes: NDArray[np.float64],
        votes_in: NDArray[np.float64],
        votes_out: NDArray[np.float64],
        view: str,
        threshold: float | NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """P(score >= threshold) for given clean histograms, in closed form under the declared noise.

        Parameters
        ----------
        votes : array, shape (n, K)
            Clean histograms that a release is drawn from.
        votes_in, votes_out, view
            As in `score`.
        threshold : float or array, shape (t,)

        Returns
        -------
        array, shape (n, t)
        """
        thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
        clean = _histograms(votes)
        if one_of("view", view, ("white", "black")) == "black":
            target = int(np.argmax(votes_in - votes_out))
            wins = self.win_probability(clean, target)[:, None]
            return np.where(thresholds <= 0, 1.0, np.where(thresholds <= 1, wins, 0.0))
        direction = (votes_in - votes_out) / self.sigma**2
        scale = self.sigma * float(np.linalg.norm(direction))
        mean = self.score(clean, votes_in, votes_out, view)[:, None]
        if scale == 0.0:  # the two histograms are equal: every score is 0
            return (mean >= thresholds).astype(np.float64)
        return ndtr((mean - thresholds) / scale)

    def win_probability(self, votes: ArrayLike, label: int) -> NDArray[np.float64]:
        """Exact probability that `label` wins the noisy vote.

        Two labels: Phi(gap / (sigma sqrt 2)). More: the expectation over the winner's own noise x of
        prod_j Phi((votes[label] - votes[j]) / sigma + x), by Gauss-Hermite quadrature with 128 nodes.

        Parameters
        ----------
        votes : array, shape (n, K)
        label : int
            Column of `votes`.

        Returns
        -------
        array, shape (n,)
        """
        clean = _histograms(votes)
        gaps = (clean[:, [label]] - np.delete(clean, label, axis=1)) / self.sigma
        if gaps.shape[1] == 1:
            return ndtr(gaps[:, 0] / 2**0.5)
        nodes, weights = np.polynomial.hermite_e.hermegauss(128)
        log_product = log_ndtr(gaps[:, :, None] + nodes).sum(axis=1)
        return np.exp(log_product) @ (weights / weights.sum())


def _histograms(votes: ArrayLike) -> NDArray[np.float64]:
    clean = np.atleast_2d(finite("votes", votes))
    if clean.ndim != 2 or clean.shape[1] < 2:
        raise ValueError(f"votes must have shape (n, K) with K >= 2 labels, got {clean.shape}")
    in_interval("votes", clean, 0.0, np.inf, closed="left")
    return clean
