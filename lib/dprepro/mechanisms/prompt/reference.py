"""Mechanisms that say what Cape's parts are worth (arXiv 2505.05922): each differs from it in one respect.

k-ary randomised response knows nothing of words: it keeps a token, or draws one uniformly. The plain exponential
mechanism (McSherry and Talwar 2007) is Cape with one token a bucket. Buckets of equal size are Cape with epsilon' of
0. All three are local DP at the epsilon they state.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from dprepro.base.check import at_most, in_interval, one_of, positive_count
from dprepro.mechanisms.prompt.cape import Bucketing, Cape, HybridMechanism
from dprepro.mechanisms.prompt.perturbation import Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import KEEP, IntArray, Vocabulary


@dataclass(frozen=True, eq=False)
class RandomisedResponse(PromptMechanism):
    """k-ary randomised response (Kairouz et al., arXiv 1407.1338): a token stays with odds exp(epsilon) to V - 1.

    Notion of privacy: local DP, epsilon a token, which its exact loss equals. A token outside the vocabulary becomes
    a word drawn uniformly.

    Parameters
    ----------
    vocabulary : Vocabulary
    keep : {"none", "punctuation", "stop words", "both"}
    """

    notion: ClassVar[str] = "local DP"
    outside: ClassVar[str] = "uniform"

    vocabulary: Vocabulary
    keep: str = "none"

    def __post_init__(self) -> None:
        one_of("keep", self.keep, KEEP)

    def stays(self, epsilon: float) -> float:
        """Return the probability that a token comes out as it is.

        Raises
        ------
        ValueError
            Epsilon outside (0, inf).
        """
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        return float(expit(epsilon - np.log(len(self.vocabulary) - 1)))

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the exact output distribution; see `PromptMechanism`. A row -1 is uniform."""
        inputs, size = np.asarray(rows, np.int64), len(self.vocabulary)
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        inside = np.flatnonzero(inputs >= 0)
        found = np.full((len(inputs), size), -np.log(size))
        log_total = np.logaddexp(epsilon, np.log(size - 1))
        found[inside] = -log_total
        found[inside, inputs[inside]] = epsilon - log_total
        return found

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input."""
        inputs = np.asarray(rows, np.int64)
        others = rng.integers(len(self.vocabulary) - 1, size=len(inputs))
        others += others >= inputs  # all words but the input itself
        return np.where(rng.random(len(inputs)) < self.stays(epsilon), inputs, others)

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon."""
        return float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither"))


@dataclass(frozen=True, eq=False)
class ExponentialMechanism(HybridMechanism):
    """The exponential mechanism on Cape's utility, without buckets: what "one token a bucket" comes to.

    Notion of privacy: local DP, epsilon a token. `buckets` has no effect.
    """

    notion: ClassVar[str] = "local DP"

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the exact output distribution; see `PromptMechanism`."""
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        odds = self.utilities(rows, contexts) * (epsilon / (2 * self.sensitivity))
        return odds - logsumexp(odds, axis=1, keepdims=True)

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon."""
        return float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither"))


@dataclass(frozen=True, eq=False)
class EqualSizeBuckets(Cape):
    """Cape with buckets of equal size: the V / N_b best tokens in the highest, and so on.

    Notion of privacy: local DP. Where N_b does not divide V, sizes differ by one, which adds ln((s + 1)/s) for the
    smaller size s to epsilon. Tokens of equal utility are told apart by their place in the vocabulary.
    """

    notion: ClassVar[str] = "local DP"

    def bucketing(self, rows: ArrayLike, contexts: ArrayLike | None = None) -> Bucketing:
        """Return the buckets for some inputs; arguments as `utilities`."""
        utility = self.utilities(rows, contexts)
        n, size = utility.shape
        order = np.argsort(utility, axis=1, kind="stable")
        groups = (np.arange(size) * self.buckets // size).astype(np.int32)
        bucket = np.empty((n, size), np.int32)
        np.put_along_axis(bucket, order, groups[None], axis=1)
        sizes = np.bincount(groups, minlength=self.buckets)
        totals = np.add.reduceat(
            np.take_along_axis(utility, order, axis=1), np.r_[0, sizes[:-1].cumsum()], axis=1
        )
        return Bucketing(bucket, np.broadcast_to(sizes, (n, self.buckets)), totals / sizes)

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon, and what unequal sizes add."""
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        smaller = len(self.vocabulary) // self.buckets
        return epsilon + (float(np.log1p(1 / smaller)) if len(self.vocabulary) % self.buckets else 0.0)


def top_mass_bound(k: int, epsilon: float, size: int) -> float:
    """Largest probability that an exponential mechanism can give to its k best outputs.

    Their utilities are above the others' by the sensitivity at most, so the odds are k exp(epsilon/2) to size - k.

    Parameters
    ----------
    k, size : int
        1 to `size` best of `size` outputs.
    epsilon : float
        >= 0.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    best, all_ = positive_count("k", k), positive_count("size", size)
    at_most("k", best, "size", all_)
    level = float(in_interval("epsilon", epsilon, 0.0, np.inf, closed="left"))
    if best == all_:
        return 1.0
    return float(expit(np.log(best) + level / 2 - np.log(all_ - best)))
