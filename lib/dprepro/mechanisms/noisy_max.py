"""Report noisy max: which of several queries has the largest answer, under Laplace or exponential noise.

Dwork and Roth (2014), claim 3.9, releases the index of the largest noisy count. Noise of scale 2/epsilon serves
answers that each move by at most 1, in either direction; theirs, 1/epsilon, serves counts that all move the same
way. Exponential noise of the same scale does as well: the index then has the law of permute-and-flip (Ding et
al., arXiv 2105.07260).

Releasing the noisy maximum in place of its index is a mistake; StatDP (Ding et al., "Detecting Violations of
Differential Privacy", 2018) tests it after Laplace and after exponential noise, algorithms 7 and 8. Among k
queries the first needs (k/2) epsilon, more with every query; the second has no epsilon at all, as exponential
noise is never negative and the release therefore never lies below the largest answer.

Scenario (c) of ReTiDP (arXiv 2509.20283) goes from the index to the maximum after Laplace noise of scale
2/epsilon, scenario (g) from Laplace to exponential noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, one_of, positive_count, sample
from dprepro.mechanisms.events import Event, Interval, OneOf
from dprepro.stats.laplace import laplace_expectation, laplace_mass, laplace_noise

FloatArray = NDArray[np.float64]

_BLOCK = 16_384  # runs at a time, so that their noise stays in the cache


@dataclass(frozen=True)
class ReportNoisyMax:
    """Largest of several noisy answers: its index or, by mistake, its value.

    Parameters
    ----------
    epsilon : float
        The claim, positive: the noise has scale 2/epsilon.
    noise : {"laplace", "exponential"}
    output : {"index", "maximum"}
        Index, counted from 1 as the papers count queries, or the noisy maximum itself, which is the mistake.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    epsilon: float
    noise: str = "laplace"
    output: str = "index"

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        one_of("noise", self.noise, ("laplace", "exponential"))
        one_of("output", self.output, ("index", "maximum"))

    @property
    def scale(self) -> float:
        """Scale of the noise on each answer."""
        return 2 / self.epsilon

    @property
    def true_epsilon(self) -> float:
        """The smallest epsilon that holds for lists of queries of every length; infinity for the maximum."""
        return self.epsilon if self.output == "index" else np.inf

    def __call__(
        self, answers: ArrayLike, n: int, rng: np.random.Generator
    ) -> NDArray[np.int64] | FloatArray:
        """Run the mechanism n times on the answers of one database.

        Parameters
        ----------
        answers : array_like, shape (queries,)
            Clean answers Q(x), finite.
        n : int
            Independent runs, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n,)
            Indices in 1, ..., queries (int64) or noisy maxima (float64).

        Raises
        ------
        ValueError
            If `answers` is empty, not one-dimensional or not finite, or `n` is below 1.
        """
        clean, n = _answers(answers), int(positive_count("n", n))
        draw = laplace_noise if self.noise == "laplace" else _exponential_noise
        best, index = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
        for start in range(0, n, _BLOCK):
            block = slice(start, start + _BLOCK)
            for number, answer in enumerate(clean, start=1):
                noisy = draw(best[block].size, rng)
                noisy *= self.scale
                noisy += answer
                index[block][noisy > best[block]] = number
                np.maximum(best[block], noisy, out=best[block])
        return index if self.output == "index" else best

    def probability(self, answers: ArrayLike, event: Event) -> float:
        """Exact probability of an event.

        Parameters
        ----------
        answers : array_like, shape (queries,)
        event : OneOf or Interval
            For the maximum an `Interval` only: a finite set has probability 0. An index that no query has adds 0.

        Returns
        -------
        float
            With a relative error near 1e-13.

        Raises
        ------
        ValueError
            If `answers` is as above or the event is of another kind.
        """
        clean = _answers(answers)
        if self.output == "maximum":
            if not isinstance(event, Interval):
                raise ValueError(f"event must be an Interval for {self}, got {event}")
            return self._maximum_in(clean, event)
        if not isinstance(event, Interval | OneOf):
            raise ValueError(f"event must be OneOf or an Interval for {self}, got {event}")
        wins = self._wins_laplace if self.noise == "laplace" else self._wins_exponential
        indices = np.arange(1, clean.size + 1)
        return float(sum(wins(clean, index - 1) for index in indices[event(indices)]))

    def _wins_laplace(self, clean: FloatArray, winner: int) -> float:
        # Given the winner's own noise x, every rival stays below clean[winner] + scale x independently.
        leads = (clean[winner] - np.delete(clean, winner)) / self.scale
        return laplace_expectation(
            lambda x: laplace_mass(-np.inf, leads + x[..., None]).prod(axis=-1), -leads
        )

    def _wins_exponential(self, clean: FloatArray, winner: int) -> float:
        # The winner's noisy answer exceeds the largest clean one, top, with probability p_winner, p_j =
        # exp(-(top - clean_j)/scale), and by an exponential amount. With u = exp(-amount/scale) uniform, rival j
        # stays below with probability 1 - p_j u: a polynomial in u, for which the Gauss rule is exact.
        p = np.exp((clean - clean.max()) / self.scale)
        nodes, weights = np.polynomial.legendre.leggauss(p.size // 2 + 1)
        below = 1 - np.delete(p, winner) * (nodes[:, None] + 1) / 2
        return float(p[winner] * (weights @ below.prod(axis=1)) / 2)

    def _maximum_in(self, clean: FloatArray, interval: Interval) -> float:
        low, high = (interval.low - clean) / self.scale, (interval.high - clean) / self.scale
        if self.noise == "laplace":
            below, mass = laplace_mass(-np.inf, high), laplace_mass(low, high)
        else:
            low, high = np.maximum(low, 0), np.maximum(high, 0)
            below, mass = -np.expm1(-high), -np.exp(-low) * np.expm1(np.minimum(low - high, 0))
        if not below.all():
            return 0.0
        # prod F_j(high) - prod F_j(low) = prod F_j(high) (1 - prod(1 - mass_j / F_j(high))): no cancellation.
        with np.errstate(divide="ignore"):  # the logarithm of 0: nothing lies at or below low
            log_outside = np.log1p(-np.minimum(mass / below, 1)).sum()
        return float(below.prod() * -np.expm1(log_outside))


def _answers(answers: ArrayLike) -> FloatArray:
    return finite("answers", sample("answers", answers))


def _exponential_noise(n: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_exponential(n)
