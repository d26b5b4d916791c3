"""Embedding space aggregation (ESA): the mean of the partitions' answer embeddings gets Gaussian noise.

Wu et al. (arXiv 2305.01639), as audited by SnapAudit (arXiv 2511.13502). Each of T partitions answers in free text;
its embedding has unit norm. The mean of the T embeddings plus N(0, sigma^2 I) is released, and the candidate answer
whose embedding is nearest to it by cosine is printed. (Noise on the sum, divided by T afterwards, is the same.)

Two neighbouring inputs differ in one demonstration, hence in one embedding:

* replace-one exchanges a unit vector for another: the mean moves by d/T, at most 2/T, where d is the distance of
  the two answers' embeddings;
* add/remove adds or removes one from the sum, T staying the divisor: the mean moves by 1/T.

Noise for the second, read under the first, is half of what it has to be.

What is seen. A white box sees the noisy mean. Two Gaussians d/T apart are told apart as well as the mechanism is
mu-GDP for mu = d/(T sigma), so an audit with answers at distance d cannot find more than epsilon(mu). A black box
sees which candidate was nearest; candidates are made without the private data, and how they are made decides how
much of mu gets through.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dprepro.base.check import finite, in_interval, one_of, positive_count
from dprepro.mechanisms.in_context.voting import CALIBRATION
from dprepro.stats.gdp import mu_to_epsilon

Array = NDArray[np.float64]
DIAMETER = {"replace-one": 2.0, "add-remove": 1.0}  # largest move of the sum of unit vectors
UNIT_TOLERANCE = 1e-4  # of a norm: embedders compute in single precision
_CHUNK = 50_000


@dataclass(frozen=True, eq=False)
class EmbeddingSpaceAggregation:
    """Mean of unit vectors under Gaussian noise.

    Parameters
    ----------
    epsilon, delta : float
        The privacy claim; epsilon > 0, 0 < delta < 1.
    partitions : int
        Number of partitions T, at least 1.
    adjacency : {"replace-one", "add-remove"}
        What neighbouring inputs are; it sets the L2 sensitivity of the mean.
    calibration : {"analytic", "classical"}
        As for `voting.PrivateVoting`.
    assumed_sensitivity : float, optional
        L2 sensitivity of the mean that the noise is made for, where it is not the one of the adjacency: 1 in an
        implementation that forgot that two unit vectors can be 2 apart (T = 1, replace-one).
    candidates : array, shape (m, d), optional
        Embeddings of unit norm of the answers that may be printed; needed for a black box.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    epsilon: float
    delta: float = 1e-5
    partitions: int = 1
    adjacency: str = "replace-one"
    calibration: str = "analytic"
    assumed_sensitivity: float | None = None
    candidates: Array | None = None

    gaussian = True
    discrete = False

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        in_interval("delta", self.delta, 0.0, 1.0, closed="neither")
        positive_count("partitions", self.partitions)
        one_of("adjacency", self.adjacency, tuple(DIAMETER))
        one_of("calibration", self.calibration, tuple(CALIBRATION))
        if self.assumed_sensitivity is not None:
            in_interval("assumed_sensitivity", self.assumed_sensitivity, 0.0, np.inf, closed="neither")
        if self.candidates is not None:
            object.__setattr__(self, "candidates", _unit("candidates", self.candidates))

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the mean under the adjacency: 2/T or 1/T."""
        return DIAMETER[self.adjacency] / self.partitions

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of the mean."""
        assumed = self.sensitivity if self.assumed_sensitivity is None else self.assumed_sensitivity
        return float(CALIBRATION[self.calibration](self.epsilon, self.delta, assumed))

    def exact_epsilon(self, distance: float | None = None) -> float:
        """Epsilon at `delta` of two means that differ by one embedding.

        Parameters
        ----------
        distance : float, optional
            By how much the sum of the embeddings moves: the distance d of the two answers under replace-one. By
            default the largest for the adjacency, which gives the privacy that the mechanism has.

        Returns
        -------
        float
            epsilon(mu) for mu = distance / (T sigma): no audit of these two inputs finds more.
        """
        d = DIAMETER[self.adjacency] if distance is None else in_interval("distance", distance, 0.0, 2.0)
        return float(mu_to_epsilon(d / (self.partitions * self.sigma), self.delta))

    def release(self, clean: ArrayLike, rng: np.random.Generator) -> Array:
        """Noisy means.

        Parameters
        ----------
        clean : array, shape (n, d) or (n, T, d)
            Means of the partitions' embeddings, or the embeddings; a row a release.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n, d)
            What a white box sees.

        Raises
        ------
        ValueError
            If embeddings are not of unit norm, a mean is longer than 1 (or, of one partition, not of unit norm),
            or the shape is another.
        """
        means = self.means(clean)
        noise = rng.standard_normal(means.shape)
        noise *= self.sigma
        noise += means
        return noise

    def means(self, clean: ArrayLike) -> Array:
        """Means of the partitions' embeddings, shape (n, d), from either form that `release` takes; errors as its."""
        array = finite("embeddings", clean)
        if array.ndim == 3 and array.shape[1] == self.partitions:
            return _unit("embeddings", array).mean(axis=1)
        if array.ndim != 2 or array.shape[1] < 1:
            raise ValueError(
                f"embeddings must have shape (n, d) or (n, T, d) with T = {self.partitions}, got {array.shape}"
            )
        if self.partitions == 1:
            return _unit("embeddings", array)
        norms = np.sqrt(np.einsum("ij,ij->i", array, array))
        in_interval("norms of mean embeddings", norms, 0.0, 1.0 + UNIT_TOLERANCE)
        return array

    def score(self, released: Array, clean_in: Array, clean_out: Array, view: str) -> Array:
        """How much each release speaks for the canary.

        Parameters
        ----------
        released : array, shape (n, d)
        clean_in, clean_out : array, shape (d,)
            The means to tell apart, with and without the canary.
        view : {"white", "black"}, else ValueError
            White box: log-likelihood ratio of the two Gaussians. Black box: 1 where the nearest candidate lies on
            the canary's side (`on_canary_side`), else 0.

        Returns
        -------
        array, shape (n,)
        """
        if one_of("view", view, ("white", "black")) == "black":
            return self.on_canary_side(clean_in, clean_out)[self.nearest(released)].astype(np.float64)
        middle = (clean_in + clean_out) / 2
        return (released - middle) @ (clean_in - clean_out) / self.sigma**2

    def success(
        self, clean: ArrayLike, clean_in: Array, clean_out: Array, view: str, threshold: float | Array
    ) -> Array:
        """P(score >= threshold) of a white box for given clean outputs, in closed form under the declared noise.

        Parameters
        ----------
        clean : array, shape (n, d) or (n, T, d)
        clean_in, clean_out : array, shape (d,)
        view : {"white"}
            A black box has no closed form; `winner_probabilities` estimates it.
        threshold : float or array, shape (t,)

        Returns
        -------
        array, shape (n, t)
        """
        one_of("view of the closed form", view, ("white",))
        thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
        mean = self.score(self.means(clean), clean_in, clean_out, view)[:, None]
        scale = float(np.linalg.norm(clean_in - clean_out)) / self.sigma
        if scale == 0.0:  # the two means are equal: every score is 0
            return (mean >= thresholds).astype(np.float64)
        return ndtr((mean - thresholds) / scale)

    def nearest(self, released: Array) -> NDArray[np.intp]:
        """Row of the candidate with the largest cosine to each release, shape (n,): what a black box sees."""
        return np.argmax(released @ self._candidates.T, axis=1)

    def on_canary_side(self, clean_in: Array, clean_out: Array) -> NDArray[np.bool_]:
        """Which candidates count for the canary, shape (m,).

        Those at least half as far along ``clean_in - clean_out`` as the furthest one: the answer with the canary
        and its paraphrases, but no candidate that has little to do with either answer.
        """
        along = self._candidates @ (clean_in - clean_out)
        return along >= along.max() / 2

    def winner_probabilities(
        self, clean: ArrayLike, trials: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Monte Carlo estimate of which candidate is nearest to the release of one clean output.

        Cosines with m candidates need the noise in the span of these alone: m normal numbers a trial, not d.

        Parameters
        ----------
        clean : array, shape (d,)
        trials : int
        rng : numpy.random.Generator

        Returns
        -------
        probabilities, standard_errors : array, shape (m,)
        """
        centre = self._candidates @ self.means(np.atleast_2d(clean))[0]
        mix = self.sigma * np.asarray(np.linalg.qr(self._candidates.T, mode="r"))
        left, wins = int(positive_count("trials", trials)), np.zeros(len(centre))
        while left:
            step = min(left, _CHUNK)
            winner = np.argmax(centre + rng.standard_normal((step, len(mix))) @ mix, axis=1)
            wins += np.bincount(winner, minlength=len(centre))
            left -= step
        share = wins / trials
        return share, np.sqrt(share * (1 - share) / trials)

    @property
    def _candidates(self) -> Array:
        if self.candidates is None:
            raise ValueError("candidates must be given for a black box, got None")
        return self.candidates


def signal_pair(distance: float, dimension: int = 384) -> Array:
    """Two unit vectors at a given distance, shape (2, dimension): embeddings of an answer with and without canary.

    Parameters
    ----------
    distance : float
        In (0, 2]; ValueError outside.
    dimension : int
        At least 2.
    """
    half = float(in_interval("distance", distance, 0.0, 2.0, closed="right")) / 2
    pair = np.zeros((2, int(positive_count("dimension", dimension, minimum=2))))
    pair[:, 0] = np.sqrt(1 - half**2)
    pair[:, 1] = half, -half
    return pair


def candidate_embeddings(
    signals: ArrayLike, kind: str, rng: np.random.Generator, *, number: int = 100, spread: float = 1.0
) -> Array:
    """Synthetic candidates for a black box: the two signals and number - 2 others.

    Parameters
    ----------
    signals : array, shape (2, d)
        Of unit norm.
    kind : {"paraphrases", "unrelated"}
        The others are normalised ``signal + spread * g``, half of them of either signal, or g itself, with g
        uniform on the unit sphere.
    rng : numpy.random.Generator
    number : int
        At least 2.
    spread : float
        In [0, inf); a paraphrase has cosine 1/sqrt(1 + spread^2) with its signal, about .71 for spread 1.

    Returns
    -------
    array, shape (number, d)
    """
    pair = _unit("signals", signals)
    if pair.shape[0] != 2 or pair.ndim != 2:
        raise ValueError(f"signals must have shape (2, d), got {pair.shape}")
    others = int(positive_count("number", number, minimum=2)) - 2
    drawn = rng.standard_normal((others, pair.shape[1]))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    width = in_interval("spread", spread, 0.0, np.inf, closed="left")
    if one_of("kind", kind, ("paraphrases", "unrelated")) == "paraphrases":
        drawn = pair[np.arange(others) % 2] + width * drawn
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.concatenate([pair, drawn])


def _unit(name: str, vectors: ArrayLike) -> Array:
    array = finite(name, vectors)
    if array.ndim < 2 or array.shape[-1] < 1:
        raise ValueError(f"{name} must have shape (..., d), a vector a row, got {array.shape}")
    norms = np.sqrt(np.einsum("...i,...i->...", array, array))
    wrong = np.abs(norms - 1) > UNIT_TOLERANCE
    if wrong.any():
        raise ValueError(f"{name} must have unit norm, got norm {norms[wrong].flat[0]:.6g}")
    return array
