"""Product of experts (PoE): experts add up clipped log-probabilities, the exponential mechanism draws a label.

Private PoEtry (arXiv 2602.05012), as audited by SnapAudit (arXiv 2511.13502). Each of T experts sees its own
demonstrations and gives a log-probability to each of L labels, clipped to [-gamma, 0]. The sums are the utilities
u; label i is released with probability proportional to exp(epsilon u_i / (2 gamma)). That is the largest of
u_i + Gumbel noise of scale 2 gamma / epsilon, which is how `release` draws it.

Two neighbouring inputs differ in one demonstration, hence in one expert. Either way a utility moves by at most
gamma, but not equally much follows:

* replace-one changes an expert's answer: the difference of two utilities moves by up to 2 gamma, the release is
  epsilon-DP and no better as T grows;
* add/remove adds or drops an expert, which can only lower or only raise the utilities: a difference moves by up
  to gamma, and the same noise gives epsilon/2.

What is seen. A black box sees the winning label. A white box sees the *difference* of the noisy utilities of two
labels: the utilities' difference under logistic noise, whose likelihood ratio never exceeds that of epsilon-DP.
It must not see the noisy utilities themselves: Gumbel noise has a tail so thin on its left that the likelihood
ratio of two shifted copies is unbounded there (`ProductOfExperts.vector_log_ratio`), whatever epsilon is claimed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, softmax

from dprepro.base.check import finite, in_interval, one_of, positive_count

Array = NDArray[np.float64]
NORMALISATIONS = ("label-set", "vocabulary")
# Largest change of the difference of two utilities between neighbours, in units of gamma.
RANGE = {"replace-one": 2.0, "add-remove": 1.0}


@dataclass(frozen=True)
class ProductOfExperts:
    """Exponential mechanism over labels, by Gumbel-max.

    Parameters
    ----------
    epsilon : float
        The privacy claim, in (0, inf).
    partitions : int
        Number of experts T, at least 1.
    clip : float
        gamma, in (0, inf), in nats.
    normalisation : {"label-set", "vocabulary"}
        Over what an expert's probabilities sum to 1. "label-set": they are divided by their sum over the L labels
        before clipping, so an expert always favours some label. "vocabulary": they are taken as they are; an
        expert that gives every label less than exp(-gamma) says nothing, since all are clipped alike. The
        sensitivity is the same, the separation that an attacker finds is not. Read by `utilities` alone.
    adjacency : {"replace-one", "add-remove"}
        What neighbouring inputs are; it does not change the noise, but what the noise is worth.
    delta : float
        In [0, 1); 0 by default, the claim is pure. A positive one weakens it to (epsilon, delta), as in tables
        that state one delta for all mechanisms.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    epsilon: float
    partitions: int
    clip: float = 2.0
    normalisation: str = "label-set"
    adjacency: str = "replace-one"
    delta: float = 0.0

    gaussian = False
    discrete = False

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        positive_count("partitions", self.partitions)
        in_interval("clip", self.clip, 0.0, np.inf, closed="neither")
        one_of("normalisation", self.normalisation, NORMALISATIONS)
        one_of("adjacency", self.adjacency, tuple(RANGE))
        in_interval("delta", self.delta, 0.0, 1.0, closed="left")

    @property
    def sensitivity(self) -> float:
        """Largest change of one utility between neighbours, in nats: gamma under either adjacency."""
        return self.clip

    @property
    def inverse_scale(self) -> float:
        """One over the scale of the Gumbel noise: epsilon / (2 gamma)."""
        return self.epsilon / (2 * self.clip)

    @property
    def exact_epsilon(self) -> float:
        """Largest log-likelihood ratio over all neighbours and any number of experts, for either view."""
        return self.inverse_scale * self.clip * RANGE[self.adjacency]

    def utilities(self, log_probabilities: ArrayLike) -> Array:
        """Clipped log-probabilities, summed over the experts.

        Parameters
        ----------
        log_probabilities : array, shape (n, T, L)
            Natural logarithms, at most 0; minus infinity is allowed (but not for all labels of an expert under
            the label-set normalisation).

        Returns
        -------
        array, shape (n, L)
            In [-T gamma, 0]: the rows of a snapshot.

        Raises
        ------
        ValueError
            Another shape, a log-probability above 0, or an expert that gives no label a chance under the label-set
            normalisation.
        """
        logs = np.asarray(log_probabilities, dtype=np.float64)
        if logs.ndim != 3 or logs.shape[1] != self.partitions or logs.shape[2] < 2:
            raise ValueError(
                "log_probabilities must have shape (n, T, L) with "
                f"T = {self.partitions} partitions and L >= 2 labels, got {logs.shape}"
            )
        in_interval("log_probabilities", logs, -np.inf, 0.0)
        if self.normalisation == "label-set":
            if np.any(np.isneginf(logs).all(axis=2)):
                raise ValueError(
                    "log_probabilities must be finite for a label of each partition, got only -inf"
                )
            logs = log_softmax(logs, axis=2)
        return np.clip(logs, -self.clip, 0.0).sum(axis=1)

    def release(self, clean: ArrayLike, rng: np.random.Generator) -> Array:
        """Utilities under Gumbel noise.

        Parameters
        ----------
        clean : array, shape (n, L) or (n, T, L)
            Utilities, or log-probabilities as for `utilities`; a row a release.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n, L)
            What the code computes, not what anyone may see. A black box sees the argmax of a row, a white box
            the difference of two of its entries.

        Raises
        ------
        ValueError
            If utilities lie outside [-T gamma, 0], log-probabilities above 0, or the shape is another.
        """
        utilities = self._utilities(clean)
        return utilities + rng.gumbel(scale=1 / self.inverse_scale, size=utilities.shape)

    def score(self, released: Array, clean_in: Array, clean_out: Array, view: str) -> Array:
        """How much each release speaks for the canary.

        Parameters
        ----------
        released : array, shape (n, L)
        clean_in, clean_out : array, shape (L,)
            The utilities to tell apart, with and without the canary.
        view : {"white", "black"}
            White box: the noisy utility of the label that gains most by the canary less that of the label that
            loses most, in units of the noise, less the same difference of `clean_out`. It is standard logistic
            without the canary, and shifted by ``separation * epsilon`` with it; the likelihood ratio rises
            with it, so no other score does better. Black box: 1 where the label that gains most has won, else 0.

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            Another view.
        """
        gains, loses = _pair(clean_in, clean_out)
        if one_of("view", view, ("white", "black")) == "black":
            return (np.argmax(released, axis=1) == gains).astype(np.float64)
        without = clean_out[gains] - clean_out[loses]
        return self.inverse_scale * (released[:, gains] - released[:, loses] - without)

    def success(
        self, clean: ArrayLike, clean_in: Array, clean_out: Array, view: str, threshold: float | Array
    ) -> Array:
        """P(score >= threshold) for given clean outputs, in closed form under the declared noise.

        Parameters
        ----------
        clean : array, shape (n, L) or (n, T, L)
            As for `release`.
        clean_in, clean_out, view
            As for `score`.
        threshold : float or array, shape (t,)

        Returns
        -------
        array, shape (n, t)

        Raises
        ------
        ValueError
            Another view; as `release`.
        """
        thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
        utilities = self._utilities(clean)
        gains, _ = _pair(clean_in, clean_out)
        if one_of("view", view, ("white", "black")) == "black":
            wins = softmax(self.inverse_scale * utilities, axis=1)[:, [gains]]
            return np.where(thresholds <= 0, 1.0, np.where(thresholds <= 1, wins, 0.0))
        mean = self.score(utilities, clean_in, clean_out, view)[:, None]
        if self.separation(clean_in, clean_out) == 0.0:  # one label on both sides: every score is 0
            return (mean >= thresholds).astype(np.float64)
        return expit(mean - thresholds)

    def separation(self, clean_in: Array, clean_out: Array) -> float:
        """Shift of a white box's score by the canary, as a share r of epsilon; in [0, 1] for neighbours."""
        gains, loses = _pair(clean_in, clean_out)
        moved = clean_in - clean_out
        return float(moved[gains] - moved[loses]) / (2 * self.clip)

    def separated(self, separation: float) -> Array:
        """Utilities of two labels whose separation is given.

        Each expert favours the second label by ``separation * gamma``, but for the one that holds the canary,
        which favours the first by as much.

        Parameters
        ----------
        separation : float
            r, in [0, 1].

        Returns
        -------
        array, shape (2, 2)
            Utilities with the canary, then without.

        Raises
        ------
        ValueError
            A separation outside [0, 1].
        """
        favour = self.clip * float(in_interval("separation", separation, 0.0, 1.0))
        without = np.array([-self.partitions * favour, 0.0])
        return without + np.array([[favour, -favour], [0.0, 0.0]])

    def vector_log_ratio(self, released: Array, clean_in: Array, clean_out: Array) -> Array:
        """Log-likelihood ratio of whole rows of `release`: what an attacker would learn from them, unbounded.

        With c = 1/scale it is the sum over labels of c (in - out) + exp(-c x) (exp(c out) - exp(c in)), which
        has no bound where a label loses utility by the canary and its noisy utility x is low.

        Returns
        -------
        array, shape (n,)
        """
        c = self.inverse_scale
        with np.errstate(over="ignore"):
            tails = np.exp(-c * (released - clean_out)) - np.exp(-c * (released - clean_in))
        return tails.sum(axis=1) + c * float(np.sum(clean_in - clean_out))

    def _utilities(self, clean: ArrayLike) -> Array:
        array = np.asarray(clean)
        if array.ndim == 3:
            return self.utilities(array)
        utilities = finite("utilities", array)
        if utilities.ndim != 2 or utilities.shape[1] < 2:
            raise ValueError(f"utilities must have shape (n, L) with L >= 2 labels, got {utilities.shape}")
        # A sum of T numbers of at least -gamma may miss -T gamma by rounding.
        in_interval("utilities", utilities, -self.partitions * self.clip * (1 + 1e-12), 0.0)
        return utilities


def logistic_rates(
    separation: ArrayLike, epsilon: ArrayLike, threshold: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact rates of a white box that sees logistic noise, shifted by separation * epsilon with the canary.

    The reduced form of every exponential mechanism whose white box sees the difference of two noisy utilities:
    the one number r says how much of epsilon the attack can use.

    Parameters
    ----------
    separation : array_like
        r, in [0, 1]; broadcast with the others.
    epsilon : array_like
        In [0, inf).
    threshold : array_like
        The decision is "in" iff score >= threshold; the score without the canary is standard logistic.

    Returns
    -------
    tpr, fpr : ndarray or scalar

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """
    r = in_interval("separation", separation, 0.0, 1.0)
    shift = r * in_interval("epsilon", epsilon, 0.0, np.inf, closed="left")
    cut = in_interval("threshold", threshold, -np.inf, np.inf)
    shift, cut = np.broadcast_arrays(shift, cut)
    return expit(shift - cut), expit(-cut)


def _pair(clean_in: Array, clean_out: Array) -> tuple[int, int]:
    """The label that gains most by the canary, and the one that loses most."""
    moved = clean_in - clean_out
    return int(np.argmax(moved)), int(np.argmin(moved))
