"""The eight changes of a mechanism that ReTiDP monitors (arXiv 2509.20283, main experiment), run with the mechanisms.

The claim is epsilon = 1 throughout. The summary of the paper leaves open what fits its events and is taken here: ten
queries of sensitivity 1 (five for report noisy max), threshold 1 and cutoff c = 1 of the sparse vector technique.

Two of the changes leave the probabilities of their event as they are: at c = 1 the sparse vector techniques 1 and 2
of (h) are one mechanism, and the five equal answers of (g) are reported one time in five under any noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import at_most, positive_count
from dprepro.mechanisms.additive import GaussianCount, LaplaceCount
from dprepro.mechanisms.events import Event, Exactly, Interval, OneOf
from dprepro.mechanisms.noisy_max import ReportNoisyMax
from dprepro.mechanisms.sparse_vector import SparseVector

IntArray = NDArray[np.int64]
EPSILON = 1.0

_RUNS = 1 << 18  # of a mechanism at a time: outputs of ten queries stay below 3 MB


@dataclass(frozen=True)
class Scenario:
    """A mechanism before and after a change, two neighbouring inputs, and the event watched.

    Attributes
    ----------
    change : str
        In words.
    before, after : mechanism
        Called as mechanism(x, n, rng); both with an exact `probability(x, event)`.
    x, x_neighbour : sequence
        A database of records, or the answers Q(x) to the queries.
    event : Event
    harmful : bool
        Whether the paper counts the change as a violation.
    """

    change: str
    before: Any
    after: Any
    x: tuple[float, ...]
    x_neighbour: tuple[float, ...]
    event: Event
    harmful: bool

    def probabilities(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return exact (P(A(x) in E), P(A(x') in E)), before and after."""
        first, second = (
            (mechanism.probability(self.x, self.event), mechanism.probability(self.x_neighbour, self.event))
            for mechanism in (self.before, self.after)
        )
        return first, second

    def counts(
        self, repetitions: int, rng: np.random.Generator, *, n: int, horizon: int, change: int
    ) -> tuple[IntArray, IntArray]:
        """Run the mechanisms and count the event.

        Parameters
        ----------
        repetitions : int
        rng : numpy.random.Generator
        n : int
            Outputs a side and step.
        horizon : int
            Steps, numbered from 1.
        change : int
            First step with the changed mechanism; horizon + 1 for none.

        Returns
        -------
        count_x, count_y : array, shape (repetitions, horizon)

        Raises
        ------
        ValueError
            A number below 1, or a change after horizon + 1.
        """
        repetitions = int(positive_count("repetitions", repetitions))
        length, first_changed = positive_count("horizon", horizon), positive_count("change", change)
        at_most("change", first_changed, "horizon + 1", length + 1)
        sides = [np.empty((repetitions, int(length)), dtype=np.int64) for _ in range(2)]
        kept = int(first_changed) - 1
        for mechanism, steps in ((self.before, slice(kept)), (self.after, slice(kept, None))):
            for side, x in zip(sides, (self.x, self.x_neighbour), strict=True):
                part = side[:, steps]
                side[:, steps] = event_counts(mechanism, x, self.event, part.size, n, rng).reshape(part.shape)
        return sides[0], sides[1]


def event_counts(
    mechanism: Callable[[ArrayLike, int, np.random.Generator], NDArray[Any]],
    x: ArrayLike,
    event: Event,
    groups: int,
    n: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return how many of n outputs lie in the event, for each of `groups` groups, shape (groups,).

    Raises
    ------
    ValueError
        An n below 1.
    """
    n = int(positive_count("n", n))
    block = max(1, _RUNS // n)
    found = [
        event(mechanism(x, size * n, rng)).reshape(size, n).sum(axis=1)
        for size in (min(block, groups - start) for start in range(0, groups, block))
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _svt(variant: int) -> SparseVector:
    return SparseVector(variant, EPSILON, threshold=1.0, cutoff=1)


_ZEROS, _ONE = (0.0,) * 10, (1.0, *(0.0,) * 9)
_ALL_ONE, _ALL_TWO = (1.0,) * 5, (2.0,) * 5
_LATE, _EARLY = (*(0.0,) * 5, *(1.0,) * 5), (*(1.0,) * 5, *(0.0,) * 5)
_SEVENTH = Exactly((0, 0, 0, 0, 0, 0, 1))

SCENARIOS = {
    "a": Scenario(
        "Laplace scale 1 to .5", LaplaceCount(1.0), LaplaceCount(0.5), _ZEROS, _ONE, Interval(high=0.0), True
    ),
    "b": Scenario(
        "Laplace to Gaussian of equal variance",
        LaplaceCount(1.0),
        GaussianCount(2**0.5),
        _ZEROS,
        _ONE,
        Interval(high=-1.0),
        True,
    ),
    "c": Scenario(
        "noisy max: its index to its value",
        ReportNoisyMax(EPSILON),
        ReportNoisyMax(EPSILON, output="maximum"),
        _ALL_ONE,
        _ALL_TWO,
        Interval(high=2.0),
        True,
    ),
    "d": Scenario("SVT 2 to SVT 4", _svt(2), _svt(4), _LATE, _EARLY, _SEVENTH, True),
    "e": Scenario(
        "SVT 2 to SVT 5", _svt(2), _svt(5), _LATE, _EARLY, Exactly(tuple(int(v) for v in _LATE)), True
    ),
    "f": Scenario(
        "SVT 2 to SVT 6", _svt(2), _svt(6), _EARLY, _LATE, Exactly(tuple(int(v) for v in _EARLY)), True
    ),
    "g": Scenario(
        "noisy max: Laplace to exponential noise",
        ReportNoisyMax(EPSILON),
        ReportNoisyMax(EPSILON, noise="exponential"),
        _ALL_ONE,
        _ALL_TWO,
        OneOf((3,)),
        False,
    ),
    "h": Scenario("SVT 2 to SVT 1", _svt(2), _svt(1), _LATE, _EARLY, _SEVENTH, False),
}
