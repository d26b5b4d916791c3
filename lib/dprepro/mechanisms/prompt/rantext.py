"""RANTEXT, the perturbation of InferDPT: Laplace noise on an embedding gives a radius, a word within it comes out.

Tong et al., "InferDPT: Privacy-Preserving Inference for Black-box Large Language Model" (arXiv 2310.12214). Noise is
added to each coordinate of a word's embedding, with the range of that coordinate over the vocabulary divided by
epsilon as its scale; its length is a radius r. A word y at distance d < r comes out with probability proportional to
exp(epsilon/2 (r - d)/r). The public code (github.com/mengtong0110/InferDPT, func.py) puts another number in place of
epsilon into the scale from 2 on, see `noise_epsilon`. Its random numbers in place of numerals are left out here.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import KEEP, IntArray, Vocabulary

NODES = 48  # radii that the distribution of a word's output is summed over
CELLS = 2**15  # of the squared radius, where its distribution is computed
TAIL = 1e-12  # probability of radii left out at each end: the precision of the convolution


@dataclass(frozen=True, eq=False)
class Rantext(PromptMechanism):
    """RANTEXT. Claimed as epsilon-local-DP a token; contested, for two reasons.

    The exponential mechanism is epsilon-DP over a fixed set of candidates. Here the set is the neighbourhood of the
    word to be hidden, so the output's mere presence in it tells words apart, by up to the ratio of the probabilities
    that the two radii reach the output. And the public code uses a noise from epsilon = 2 on that hardly depends on
    epsilon. Budget as claimed: epsilon a token, added up over a text and over turns.

    A word outside the vocabulary is dropped, as in the public code.

    Parameters
    ----------
    vocabulary : Vocabulary
    keep : {"none", "punctuation", "stop words", "both"}
    """

    vocabulary: Vocabulary
    keep: str = "none"
    notion: ClassVar[str] = "contested"
    outside: ClassVar[str] = "dropped"

    def __post_init__(self) -> None:
        one_of("keep", self.keep, KEEP)

    @cached_property
    def ranges(self) -> Array:
        """Largest less smallest value of each coordinate over the vocabulary, shape (d,)."""
        return np.asarray(np.ptp(self.vocabulary.vectors, axis=0), float)

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the output distribution of each input, shape (n, V), summed over 48 radii.

        -inf where an output is farther than all radii but a share of 1e-12.
        """
        radii, shares = radius_distribution(self.ranges / noise_epsilon(epsilon), NODES)
        distance = self.vocabulary.distances(np.asarray(rows, np.int64))
        found = np.zeros(distance.shape)
        weight = np.empty_like(distance)
        for radius, share in zip(radii, shares, strict=True):
            np.multiply(distance, np.float32(-epsilon / 2 / radius), out=weight)
            np.exp(weight, out=weight)
            weight *= distance < radius
            total = weight.sum(axis=1, keepdims=True, dtype=np.float64)
            found += weight * (share / total)
        with np.errstate(divide="ignore"):
            return np.log(found)

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon, which is what the paper claims for a token."""
        return float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither"))

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input: noise, radius, a word within it."""
        scales, wanted = self.ranges / noise_epsilon(epsilon), np.asarray(rows, np.int64)
        found = np.empty(len(wanted), np.int64)
        width = max(1, BLOCK // len(self.vocabulary))
        for start in range(0, len(wanted), width):
            inputs = wanted[start : start + width]
            radii = np.linalg.norm(rng.laplace(0, scales, (len(inputs), len(scales))), axis=1)
            level = rng.random(len(inputs))
            # In double precision: the same sample on any CPU.
            weight = self.vocabulary.distances(inputs, double=True)
            outside = weight >= radii[:, None]
            weight *= (-epsilon / 2 / radii)[:, None]
            np.exp(weight, out=weight)
            weight[outside] = 0
            for row, line in enumerate(weight):
                cumulative = line.cumsum()
                # The word itself is at distance 0, so there always is a candidate.
                found[start + row] = np.searchsorted(cumulative, level[row] * cumulative[-1], side="right")
        return found


def noise_epsilon(epsilon: float) -> float:
    """Return what the public code divides a coordinate's range by to get the scale of its noise.

    Below 2 epsilon itself; from 2 on .01658160142 ln(19.0647 epsilon - 38.1294) + 9.3111 with more digits, which is
    9.12 at 2 and 9.41 at 20.

    Raises
    ------
    ValueError
        Epsilon outside (0, inf).
    """
    value = float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither"))
    if value < 2:
        return value
    return 0.01658160142016071 * log(value * 19.064721649556482 - 38.1294334077209) + 9.311083811697406


def radius_distribution(scales: ArrayLike, nodes: int) -> tuple[Array, Array]:
    """Distribution of the length of a vector of independent Laplace variables.

    Parameters
    ----------
    scales : array_like, shape (d,)
        >= 0, one of them positive.
    nodes : int
        How many radii stand for the distribution.

    Returns
    -------
    radii : array, shape (nodes,)
        Evenly spaced between the quantiles 1e-12 and 1 - 1e-12.
    shares : array, shape (nodes,)
        Probability of a radius nearest to each; sum 1.

    Raises
    ------
    ValueError
        Scales that are negative or all 0, or fewer than two nodes.

    Notes
    -----
    The squared coordinate (b |L|)^2, |L| exponential, has the distribution function 1 - exp(-sqrt(x)/b). Its exact
    masses on a grid are convolved over the coordinates by FFT; the grid is then stretched so that the mean of
    the sum, 2 sum b^2, is exact.
    """
    wide = np.asarray(in_interval("scales", scales, 0.0, np.inf, closed="left"))
    wide = wide[wide > 0]
    if wide.size == 0:
        raise ValueError("scales must have a positive entry, got none")
    count = int(positive_count("nodes", nodes, minimum=2))
    mean = 2 * float((wide**2).sum())
    # Room for the sum at its mean and one coordinate at its 1e-14 tail.
    step = (mean**0.5 + 32 * wide.max()) ** 2 / CELLS
    edges = np.sqrt(np.arange(CELLS + 1) * step)
    transform = np.ones(CELLS // 2 + 1, complex)
    for scale in wide:
        below = -np.expm1(-edges / scale)
        transform *= np.fft.rfft(np.diff(below))
    mass = np.maximum(np.fft.irfft(transform, CELLS), 0)
    mass /= mass.sum()
    squared = (np.arange(CELLS) + 0.5 * len(wide)) * step
    squared *= mean / float(mass @ squared)
    cumulative = mass.cumsum()
    low, high = np.searchsorted(cumulative, [TAIL, 1 - TAIL])
    radii = np.linspace(squared[low] ** 0.5, squared[min(high, CELLS - 1)] ** 0.5, count)
    between = ((radii[1:] + radii[:-1]) / 2) ** 2
    inner = np.interp(between, squared, cumulative)
    return radii, np.diff(np.concatenate([[0.0], inner, [1.0]]))
