"""Cape (arXiv 2505.05922): a utility of logit and distance, and an exponential mechanism over buckets of tokens.

For a token t at a place in a text, every token r of the vocabulary has the utility

    u(t, r) = L(r)^lambda_L * D(t, r)^lambda_D,    L = clip(logit, -B, B) + B,    D = exp(-d(t, r) / max d(t, .))

with the logits of a contextual model and Euclidean distance d of embeddings (min-max normalised: the smallest is 0,
to t itself). u lies in [0, (2B)^lambda_L], whose length is its sensitivity. The shift by B is not in the published
summary: a power of 1/2 needs it. The tokens are put into N_b buckets of equal width between the smallest and the
largest utility; a bucket that is not empty is drawn with probability proportional to exp(epsilon * mean utility /
(2 sensitivity)), and a token uniformly from it. `exact_loss` says what that guarantees, which is not what is stated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import KEEP, OUTSIDE, FloatArray, IntArray, Tokens, Vocabulary


class ContextModel(Protocol):
    """What Cape asks of a language model."""

    def logits(self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> FloatArray:
        """Logits of the vocabulary for places in texts, shape (n, V): how well each token fits there."""


class Bucketing(NamedTuple):
    """How the vocabulary falls into buckets for some inputs.

    Attributes
    ----------
    bucket : int32 array, shape (n, V)
        Number of each token's bucket, 0 for the lowest utilities.
    sizes : int array, shape (n, buckets)
    scores : array, shape (n, buckets)
        Mean utility; 0 where a bucket is empty.
    """

    bucket: NDArray[np.int32]
    sizes: IntArray
    scores: Array


def by_token(values: Array, found: Bucketing) -> Array:
    """Spread a value for each bucket, shape (n, buckets), over the tokens in it: (n, V)."""
    spread = np.empty(found.bucket.shape)
    for line, row, bucket in zip(spread, values, found.bucket, strict=True):
        np.take(row, bucket, out=line, mode="clip")  # "clip" writes without a copy; no bucket is out of range
    return spread


@dataclass(frozen=True, eq=False)
class HybridMechanism(PromptMechanism):
    """A mechanism on the hybrid utility: Cape, and those of `reference` that differ in how they sample.

    Parameters
    ----------
    vocabulary : Vocabulary
    keep : {"none", "punctuation", "stop words", "both"}
    context : ContextModel, optional
        Needed by `perturb` unless `logit_weight` is 0.
    bound : float
        B, > 0. The summary has no value; a third-party version has 10.
    centred : bool
        Take the mean over the vocabulary off the logits before they are clipped. A model defines logits up to a
        constant only, but clipping is not indifferent to it.
    logit_weight, distance_weight : float
        lambda_L and lambda_D, >= 0; 0 leaves a factor out.
    buckets : int
        N_b, 1 to V. At 1 every token comes with the same probability.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    notion: ClassVar[str] = "contested"
    outside: ClassVar[str] = "input"

    vocabulary: Vocabulary
    keep: str = "none"
    context: ContextModel | None = None
    bound: float = 5.0
    centred: bool = True
    logit_weight: float = 0.5
    distance_weight: float = 1.0
    buckets: int = 50

    def __post_init__(self) -> None:
        one_of("keep", self.keep, KEEP)
        in_interval("bound", self.bound, 0.0, np.inf, closed="neither")
        in_interval("logit_weight", self.logit_weight, 0.0, np.inf, closed="left")
        in_interval("distance_weight", self.distance_weight, 0.0, np.inf, closed="left")
        if positive_count("buckets", self.buckets) > len(self.vocabulary):
            raise ValueError(
                f"buckets must be at most the {len(self.vocabulary)} words there are, got {self.buckets}"
            )

    @property
    def sensitivity(self) -> float:
        """Largest change of a utility: (2B)^lambda_L, the length of its range."""
        return float((2 * self.bound) ** self.logit_weight)

    def contexts(self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> NDArray | None:
        """Return the logits for places in texts; None where they have no weight.

        Raises
        ------
        ValueError
            No model, though the logits have weight.
        """
        if self.logit_weight == 0:
            return None
        if self.context is None:
            raise ValueError(f"context must be a model for logit_weight {self.logit_weight:g}, got None")
        return self.context.logits(cuts, texts, positions)

    def utilities(self, rows: ArrayLike, contexts: ArrayLike | None = None) -> Array:
        """Return u for some inputs and all tokens of the vocabulary.

        Parameters
        ----------
        rows : int array, shape (n,)
            -1 is a token outside the vocabulary: as far from every token as the farthest is from any other (D = 1/e).
        contexts : array, shape (n, V) or (1, V)
            Logits; infinite ones are clipped. None only if `logit_weight` is 0.

        Returns
        -------
        array, shape (n, V)

        Raises
        ------
        ValueError
            A row outside the vocabulary's range; logits of another shape, missing, or NaN.
        """
        inputs = np.atleast_1d(np.asarray(rows, np.int64))
        if inputs.size and not -1 <= inputs.min() <= inputs.max() < len(self.vocabulary):
            raise ValueError(
                f"rows must be -1 to {len(self.vocabulary) - 1}, got {inputs.min()} to {inputs.max()}"
            )
        if self.distance_weight == 0:
            found = np.ones((len(inputs), len(self.vocabulary)))
        else:
            # In double precision: a last bit of single precision moves some token over a bucket's edge.
            found = self.vocabulary.distances(np.maximum(inputs, 0), double=True)
            largest = found.max(axis=1, keepdims=True)
            found *= -self.distance_weight / np.where(largest > 0, largest, 1)
            found[inputs == OUTSIDE] = -self.distance_weight
            np.exp(found, out=found)
        if self.logit_weight > 0:
            found *= self._shifted(contexts, len(inputs)) ** self.logit_weight
        return found

    def _shifted(self, contexts: ArrayLike | None, n: int) -> Array:
        logits = np.asarray(contexts, np.float64)
        if logits.ndim != 2 or len(logits) not in (1, n) or logits.shape[1] != len(self.vocabulary):
            raise ValueError(
                f"contexts must have shape ({n}, {len(self.vocabulary)}) or one row, got {logits.shape}"
            )
        with np.errstate(invalid="ignore"):
            mean = logits.mean(axis=1, keepdims=True)
        if not np.isfinite(mean).all():
            if np.isnan(logits).any():
                raise ValueError("contexts must be free of NaN")
            inside = np.isfinite(logits)
            total = np.where(inside, logits, 0).sum(axis=1, keepdims=True)
            mean = total / np.maximum(inside.sum(axis=1, keepdims=True), 1)
        if self.centred:
            logits = logits - mean
        return np.clip(logits, -self.bound, self.bound) + self.bound


@dataclass(frozen=True, eq=False)
class Cape(HybridMechanism):
    """The bucketised exponential mechanism on the hybrid utility.

    Notion of privacy: contested. Stated is local DP with epsilon + epsilon' for a token, epsilon' the logarithm of
    the largest ratio of two buckets' sizes; the proof forgets that the number of buckets that are not empty differs
    from input to input (`exact_loss`). A text of n tokens costs n times as much, k turns k times that; and as each
    token's context is the text itself, a change of one word moves the distribution of *every* token of the text.
    """

    def bucketing(self, rows: ArrayLike, contexts: ArrayLike | None = None) -> Bucketing:
        """Return the buckets for some inputs; arguments as `utilities`. They do not depend on epsilon."""
        utility = self.utilities(rows, contexts)
        n = len(utility)
        low = utility.min(axis=1, keepdims=True)
        width = utility.max(axis=1, keepdims=True) - low
        place = (utility - low) / np.where(width > 0, width, 1)
        place *= self.buckets
        bucket = np.minimum(place.astype(np.int32), np.int32(self.buckets - 1))
        flat = (bucket + np.arange(n, dtype=np.int32)[:, None] * np.int32(self.buckets)).ravel()
        sizes = np.bincount(flat, minlength=n * self.buckets)
        totals = np.bincount(flat, weights=utility.ravel(), minlength=n * self.buckets)
        scores = totals / np.maximum(sizes, 1)
        return Bucketing(bucket, sizes.reshape(n, self.buckets), scores.reshape(n, self.buckets))

    def log_masses(self, found: Bucketing, epsilon: float) -> Array:
        """Logarithm of the probability of each bucket, shape (n, buckets); -inf for an empty one.

        Raises
        ------
        ValueError
            Epsilon outside (0, inf).
        """
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        odds = np.where(found.sizes > 0, found.scores * (epsilon / (2 * self.sensitivity)), -np.inf)
        return odds - logsumexp(odds, axis=1, keepdims=True)

    def log_token(self, found: Bucketing, epsilon: float) -> Array:
        """Logarithm of the probability of a token by the bucket that it is in, shape (n, buckets)."""
        return self.log_masses(found, epsilon) - np.log(np.maximum(found.sizes, 1))

    def log_channel(self, rows: ArrayLike, epsilon: float, contexts: ArrayLike | None = None) -> Array:
        """Logarithm of the exact output distribution; see `PromptMechanism`, arguments as `utilities`."""
        found = self.bucketing(rows, contexts)
        return by_token(self.log_token(found, epsilon), found)

    def draw(
        self, rows: ArrayLike, epsilon: float, rng: np.random.Generator, contexts: ArrayLike | None = None
    ) -> IntArray:
        """Sample an output for each input: first the bucket, then the token."""
        inputs = np.asarray(rows, np.int64)
        found, width = np.empty(len(inputs), np.int64), BLOCK // len(self.vocabulary) + 1
        for start in range(0, len(inputs), width):
            part = slice(start, start + width)
            context = None if contexts is None else np.asarray(contexts)[part]
            found[part] = self.draw_from(self.bucketing(inputs[part], context), epsilon, rng)
        return found

    def draw_from(self, found: Bucketing, epsilon: float, rng: np.random.Generator) -> IntArray:
        """Sample an output for each input of a bucketing."""
        cumulative = np.exp(self.log_masses(found, epsilon)).cumsum(axis=1)
        n = len(cumulative)
        levels = rng.random((2, n))
        # An empty bucket adds nothing to the sum, so the first level above the draw is that of a bucket with tokens.
        bucket = (cumulative <= (levels[0] * cumulative[:, -1])[:, None]).sum(axis=1)
        order = (levels[1] * found.sizes[np.arange(n), bucket]).astype(np.int64)
        members = (np.flatnonzero(line == which) for line, which in zip(found.bucket, bucket, strict=True))
        return np.array([row[i] for row, i in zip(members, order, strict=True)], np.int64)

    def stated_loss(self, epsilon: float) -> float:
        """Return epsilon + epsilon' with the largest epsilon' that no text exceeds: buckets of V - 1 and of 1 token.

        The stated epsilon' of a text's own buckets depends on the text, so it cannot be published with it.

        Raises
        ------
        ValueError
            Epsilon outside (0, inf).
        """
        in_interval("epsilon", epsilon, 0.0, np.inf, closed="neither")
        return epsilon + (self._largest_ratio if self.buckets > 1 else 0.0)

    @cached_property
    def _largest_ratio(self) -> float:
        return float(np.log(len(self.vocabulary) - 1))
