"""The best threshold of an attack, exactly, without computing the limits of every rate.

The bound of ``stats.lower_bound`` at one threshold takes two Clopper-Pearson limits, microseconds each; a
white-box audit has 400,000 thresholds. Each conversion of ``stats.tradeoff`` increases with the sum of a term of
the true positives and a term of the false positives (Kairouz: with the larger of two such sums). That gives two
cheap ceilings:

- over thresholds: a block of neighbours does no better than the true positives of its lowest with the false
  positives of its highest;
- over counts: a term is smooth in the count, so a few hundred exact knots, joined by straight lines and raised by
  the error that second differences allow, lie above all of it.

Blocks whose ceiling stays below an exact value already seen are dropped, the others split; the thresholds that
are left, rarely more than ten, are computed exactly. (Branch and bound: Land and Doig 1960.)
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dprepro.stats.bounds import lower_limit, upper_limit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LINES = {"standard": ("ratio",), "gdp": ("probit",), "kairouz": ("ratio", "complement")}
_ALL_COUNTS_UP_TO = 4096  # with fewer trials every count is a knot
_KNOT_RATIO = 1.02
_STRIDES = (128, 8, 1)  # block lengths of the search, with more thresholds than that
_NO_BOUND = -1e6  # stands for log 0: below every real term, and finite, so that it can be interpolated


class Attack(NamedTuple):
    """Falling thresholds and the sorted scores that they cut."""

    cuts: FloatArray
    inside: FloatArray
    outside: FloatArray

    def true_positives(self, cuts: Any) -> IntArray:
        """Return how many scores inside are at or above each cut; shape of `cuts`."""
        return self.inside.size - np.searchsorted(self.inside, cuts, side="left")

    def false_positives(self, cuts: Any) -> IntArray:
        """Return how many scores outside are at or above each cut; shape of `cuts`."""
        return self.outside.size - np.searchsorted(self.outside, cuts, side="left")

    def counts(self, cuts: Any) -> tuple[IntArray, IntArray]:
        """Return true and false positives."""
        return self.true_positives(cuts), self.false_positives(cuts)


class Side(NamedTuple):
    """One side of the attack: enough to turn a count of "in" decisions into the limit of its rate."""

    inside: bool
    trials: int
    level: float
    mass: float

    def limit(self, counts: Any) -> FloatArray:
        """Return the one-sided limit of the rate for counts of "in": from below inside, from above outside."""
        if self.inside:
            return lower_limit(counts, self.trials, self.level) * self.mass
        return upper_limit(counts, self.trials, self.level) * self.mass + (1 - self.mass)


class Term(NamedTuple):
    """One side's term of a bound, increasing in what favours the auditor."""

    side: Side
    line: str
    delta: float

    def at(self, limit: FloatArray) -> FloatArray:
        """Return the term at limits of the rate."""
        inside, delta = self.side.inside, self.delta
        with np.errstate(divide="ignore"):
            if self.line == "probit":
                term = special.ndtri(limit) if inside else -special.ndtri(limit)
            elif self.line == "ratio":
                term = np.log(np.maximum(limit - delta, 0)) if inside else -np.log(limit)
            else:
                term = -np.log1p(-limit) if inside else np.log(np.maximum(1 - delta - limit, 0))
        return np.maximum(term, _NO_BOUND)


class _Ceiling(NamedTuple):
    """A term at its knots, and raised so that straight lines between the knots lie above it."""

    knots: IntArray
    term: FloatArray
    raised: FloatArray

    def above(self, counts: IntArray) -> FloatArray:
        if self.knots.size == self.knots[-1] + 1:  # every count is a knot
            return self.term[counts]
        return np.interp(counts, self.knots, self.raised)


def best_cut(attack: Attack, term_in: Term, term_out: Term) -> tuple[float, float]:
    """Largest sum of the two terms over the attack's cuts, and the highest cut that reaches it.

    Parameters
    ----------
    attack : Attack
        With at least one cut; unchecked.
    term_in, term_out : Term
        Of the side inside and of that outside, on one line and with one delta.
    """
    ceiling_in, ceiling_out = _ceiling(term_in), _ceiling(term_out)

    def exact(cuts: Any) -> FloatArray:
        tp, fp = attack.counts(cuts)
        return term_in.at(term_in.side.limit(tp)) + term_out.at(term_out.side.limit(fp))

    cuts, reached = attack.cuts, -np.inf
    starts, width = np.zeros(1, dtype=np.int64), cuts.size
    for stride in _STRIDES if cuts.size > _ALL_COUNTS_UP_TO else (1,):
        # Split what is left into blocks of `stride` cuts. A block cannot do better than the true positives of
        # its last cut with the false positives of its first.
        starts = (starts[:, None] + np.arange(0, width, stride)).ravel()
        starts = starts[starts < cuts.size]
        width = stride
        last = cuts[np.minimum(starts + stride, cuts.size) - 1]
        above_in = ceiling_in.above(attack.true_positives(last))
        at_last = above_in + ceiling_out.above(attack.false_positives(last))
        reached = max(reached, float(exact(last[at_last.argmax()])))
        above = at_last if stride == 1 else above_in + ceiling_out.above(attack.false_positives(cuts[starts]))
        starts = starts[above >= reached]
    values = exact(cuts[starts])
    best = values.argmax()
    return float(values[best]), float(cuts[starts[best]])


@lru_cache(maxsize=64)
def _knot_limits(inside: bool, trials: int, level: float) -> tuple[IntArray, FloatArray]:
    """Counts at which the limits are computed exactly, denser towards 0 and towards `trials`."""
    if trials <= _ALL_COUNTS_UP_TO:
        knots = np.arange(trials + 1)
    else:
        steps = int(np.log(trials / 2) / np.log(_KNOT_RATIO))
        half = np.unique(np.append(0, np.geomspace(1, trials // 2, steps).astype(np.int64)))
        knots = np.union1d(half, trials - half)
    return knots, Side(inside, trials, level, 1.0).limit(knots)


@lru_cache(maxsize=64)
def _ceiling(term: Term) -> _Ceiling:
    side = term.side
    knots, limits = _knot_limits(side.inside, side.trials, side.level)
    if side.mass < 1:
        limits = limits * side.mass + (0 if side.inside else 1 - side.mass)
    values = term.at(limits)
    gaps = np.diff(knots)
    slopes = np.diff(values) / gaps
    # A straight line misses a smooth function by at most gap^2/8 times its second derivative, which the
    # neighbouring second differences show (doubled for its change between them), and a monotone one by at most
    # its rise. Next to log 0 only the rise is safe. Gaps of one hold no count in between.
    bends = np.abs(2 * np.diff(slopes) / (gaps[1:] + gaps[:-1]))
    bend = np.maximum(np.append(bends, 0), np.append(0, bends))
    rise = np.abs(np.diff(values))
    smooth = np.minimum(values[1:], values[:-1]) > _NO_BOUND
    miss = np.where(smooth, np.minimum(2 * bend * gaps**2 / 8, rise), rise) + 1e-9
    miss[gaps == 1] = 0
    return _Ceiling(knots, values, values + np.maximum(np.append(miss, 0), np.append(0, miss)))
