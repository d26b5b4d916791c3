"""Where a pair of rates last changed, learned as the counts come in.

Adams and MacKay, "Bayesian online changepoint detection" (arXiv 0710.3742), for two binomial rates that change
together at unknown steps. Each segment (a step at which the present rates may have begun) has a Beta posterior for
each rate, and a weight; every step opens one segment more. Many independent streams are held side by side.

The weights and rates serve to choose bets. How well they fit decides how fast a monitor is, never whether it is
valid.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, expit

from dprepro.base.check import finite, positive_count
from dprepro.stats.two_rates import EDGE

FloatArray = NDArray[np.float64]

KEPT = 24  # segments a stream; those of least weight are forgotten
STRENGTH = 5.0  # successes or failures, whichever are rarer, that the past is worth to a new segment
# Before the first step: one segment that knows nothing, and rates on the boundary of the claim, .0001 to .3.
FIRST_RATES = np.geomspace(1e-4, 0.3, 8)
FIRST_WEIGHT = 0.1  # of the latter together


@dataclass
class Segments:
    """Posterior over the present segment of each stream.

    Attributes
    ----------
    log_weight : array, shape (streams, segments)
        Log probabilities; they sum to 1 in each stream.
    start : integer array, shape (streams, segments)
        Step with which the segment began, from 1.
    beta : array, shape (4, streams, segments)
        Parameters of the Beta posteriors: successes and failures on x, then on x'.
    fresh : int
        Segments from this one on have seen no counts yet.
    """

    log_weight: FloatArray
    start: NDArray[np.int64]
    beta: FloatArray
    fresh: int

    @classmethod
    def first(cls, streams: int, ratio: float, delta: float) -> "Segments":
        """Return what is known before the first step of a claim a <= ratio b + delta.

        Parameters
        ----------
        streams : int
        ratio, delta : float
            e^epsilon, 1 or more, and delta in [0, 1); unchecked.
        """
        b = FIRST_RATES * (1 - delta) / ratio
        beta = np.concatenate([np.full((4, 1), 0.5), _around(ratio * b + delta, b, np.inf)], axis=1)
        weights = np.append(1 - FIRST_WEIGHT, np.full(len(b), FIRST_WEIGHT / len(b)))
        return cls(
            np.tile(np.log(weights), (streams, 1)),
            np.ones((streams, len(weights)), dtype=np.int64),
            np.tile(beta[:, None, :], (1, streams, 1)),
            fresh=1,  # the one that knows nothing is no fresh one: those are bet on a violation, it waits for a step
        )

    def rates(self, part: slice, deviations: float) -> tuple[FloatArray, FloatArray]:
        """Return the rates (a, b) of some segments, moved towards a violation.

        Parameters
        ----------
        part : slice
            Of the segments.
        deviations : float
            In posterior standard deviations of the difference of the two log odds; each takes its own share.

        Returns
        -------
        a, b : array, shape (streams, segments of the part)
            In (0, 1): log odds up for a and down for b if `deviations` is positive.
        """
        of_x, of_y = self.beta[:2, :, part], self.beta[2:, :, part]
        spread_x, spread_y = (1 / of_x).sum(axis=0), (1 / of_y).sum(axis=0)
        step = deviations / np.sqrt(spread_x + spread_y)
        a = expit(np.log(of_x[0] / of_x[1]) + step * spread_x)
        b = expit(np.log(of_y[0] / of_y[1]) - step * spread_y)
        return np.maximum(np.minimum(a, 1 - EDGE), EDGE), np.maximum(np.minimum(b, 1 - EDGE), EDGE)

    def likeliest_start(self) -> NDArray[np.int64]:
        """Return the start of the segment of largest weight among those with counts, shape (streams,)."""
        best = self.log_weight[:, : self.fresh].argmax(axis=1)
        return np.take_along_axis(self.start, best[:, None], axis=1)[:, 0]

    def learn(
        self, step: int, x: NDArray[np.int64], y: NDArray[np.int64], n: NDArray[np.int64], hazard: float
    ) -> None:
        """Take in one step and open the segment that begins with the next.

        Parameters
        ----------
        step : int
            Number of this step, from 1.
        x, y, n : integer array, shape (streams,)
            Counts of the step and outputs a side.
        hazard : float
            Probability in (0, 1) that the rates change with the next step.
        """
        after = self.beta + np.stack([x, n - x, y, n - y])[:, :, None]
        # The chance of the counts given the segment's past: two beta-binomials, without what all segments share.
        log_weight = self.log_weight + sum(
            betaln(after[side], after[side + 1]) - betaln(self.beta[side], self.beta[side + 1])
            for side in (0, 2)
        )
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        if weight.shape[1] >= KEPT:
            kept = np.argpartition(-weight, KEPT - 2, axis=1)[:, : KEPT - 1]
            kept.sort(axis=1)
            weight = np.take_along_axis(weight, kept, axis=1)
            weight /= weight.sum(axis=1, keepdims=True)
            self.start = np.take_along_axis(self.start, kept, axis=1)
            after = np.take_along_axis(after, kept[None], axis=2)
        a = (weight * after[0] / (after[0] + after[1])).sum(axis=1)
        b = (weight * after[2] / (after[2] + after[3])).sum(axis=1)
        column = np.full((len(x), 1), hazard)
        # A floor instead of log 0: a segment may be ruled out, and JSON has no infinity.
        self.log_weight = np.log(np.concatenate([np.maximum(weight * (1 - hazard), 1e-300), column], axis=1))
        self.start = np.concatenate([self.start, np.full((len(x), 1), step + 1)], axis=1)
        self.beta = np.concatenate([after, _around(a, b, n)[:, :, None]], axis=2)
        self.fresh = self.start.shape[1] - 1

    def to_lists(self) -> dict[str, Any]:
        """Return the posterior as JSON values, exact."""
        return {
            "log_weight": self.log_weight.tolist(),
            "start": self.start.tolist(),
            "beta": self.beta.tolist(),
            "fresh": self.fresh,
        }

    @classmethod
    def from_lists(cls, saved: dict[str, Any]) -> "Segments":
        """Return the posterior that `to_lists` returned; ValueError if it is none."""
        log_weight, beta = finite("log_weight", saved["log_weight"]), finite("beta", saved["beta"])
        start, fresh = positive_count("start", saved["start"]), int(positive_count("fresh", saved["fresh"]))
        shape = log_weight.shape
        if len(shape) != 2 or start.shape != shape or beta.shape != (4, *shape) or fresh >= shape[1]:
            raise ValueError(
                "log_weight, start and beta must have shapes (s, k), (s, k), (4, s, k), fresh < k"
            )
        if (beta <= 0).any() or (np.abs(np.logaddexp.reduce(log_weight, axis=1)) > 1e-9).any():
            raise ValueError("beta must be positive, and the weights of each stream sum to 1")
        return cls(log_weight, start, beta, fresh)


def _around(a: FloatArray, b: FloatArray, most: ArrayLike) -> FloatArray:
    """Return Beta parameters, shape (4, ...), with means a and b: what a new segment takes over from the past.

    `most` bounds what it is worth, in outputs: one step, so that the first counts may outweigh it.
    """
    a, b = np.clip(a, 1e-9, 1 - 1e-9), np.clip(b, 1e-9, 1 - 1e-9)
    on_x = np.minimum(STRENGTH / np.minimum(a, 1 - a), most)
    on_y = np.minimum(STRENGTH / np.minimum(b, 1 - b), most)
    return np.stack([on_x * a, on_x * (1 - a), on_y * b, on_y * (1 - b)])
