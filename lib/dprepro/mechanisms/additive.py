"""Noisy counts: the sum of the records plus Laplace or Gaussian noise.

Dwork and Roth, "The Algorithmic Foundations of Differential Privacy" (2014), section 3.3 and appendix A.
Scenarios (a) and (b) of ReTiDP (arXiv 2509.20283) change the scale of the Laplace noise and replace it by
Gaussian noise of the same variance.

Neighbouring databases differ in one record; records lie in [0, 1], so the count has sensitivity 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dprepro.base.check import in_interval, positive_count, sample
from dprepro.mechanisms.events import Event, Interval
from dprepro.stats.laplace import laplace_mass, laplace_noise

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class LaplaceCount:
    """Count with Laplace noise: private with epsilon = 1/scale, and with no smaller one.

    Parameters
    ----------
    scale : float
        Of the noise, in records; positive. The noise has variance 2 scale^2.

    Raises
    ------
    ValueError
        If `scale` is not a positive finite number.
    """

    scale: float

    def __post_init__(self) -> None:
        in_interval("scale", self.scale, 0.0, np.inf, closed="neither")

    @property
    def true_epsilon(self) -> float:
        """The smallest epsilon that holds for every pair of neighbours."""
        return 1 / self.scale

    def __call__(self, x: ArrayLike, n: int, rng: np.random.Generator) -> FloatArray:
        """Run the mechanism n times on one database.

        Parameters
        ----------
        x : array_like, shape (records,)
            Values in [0, 1].
        n : int
            Independent runs, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            If `x` is empty or a record lies outside [0, 1], or `n` is below 1.
        """
        noise = laplace_noise(int(positive_count("n", n)), rng)
        noise *= self.scale
        return np.add(noise, _count(x), out=noise)

    def probability(self, x: ArrayLike, event: Event) -> float:
        """Exact probability that the noisy count lies in an `Interval`; ValueError for another event.

        A finite set of values has probability 0 under continuous noise, so it is refused.
        """
        interval, count = _interval(event, self), _count(x)
        return float(laplace_mass((interval.low - count) / self.scale, (interval.high - count) / self.scale))


@dataclass(frozen=True)
class GaussianCount:
    """Count with Gaussian noise: private with no epsilon unless a delta > 0 is granted.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in records; positive.

    Raises
    ------
    ValueError
        If `sigma` is not a positive finite number.
    """

    sigma: float

    def __post_init__(self) -> None:
        in_interval("sigma", self.sigma, 0.0, np.inf, closed="neither")

    @property
    def true_epsilon(self) -> float:
        """Infinity: the ratio of two Gaussian tails is unbounded."""
        return np.inf

    def __call__(self, x: ArrayLike, n: int, rng: np.random.Generator) -> FloatArray:
        """Run the mechanism n times on one database; arguments, result and errors as of `LaplaceCount`."""
        noise = rng.standard_normal(int(positive_count("n", n)))
        noise *= self.sigma
        return np.add(noise, _count(x), out=noise)

    def probability(self, x: ArrayLike, event: Event) -> float:
        """Exact probability that the noisy count lies in an `Interval`; ValueError for another event."""
        interval, count = _interval(event, self), _count(x)
        low, high = (interval.low - count) / self.sigma, (interval.high - count) / self.sigma
        if low > 0:  # the mirror image has the same mass, and the lower tail keeps its digits
            low, high = -high, -low
        return float(ndtr(high) - ndtr(low))


def _count(x: ArrayLike) -> float:
    return float(in_interval("x", sample("x", x), 0.0, 1.0).sum())


def _interval(event: Event, mechanism: LaplaceCount | GaussianCount) -> Interval:
    if not isinstance(event, Interval):
        raise ValueError(f"event must be an Interval for {mechanism}, got {event}")
    return event
