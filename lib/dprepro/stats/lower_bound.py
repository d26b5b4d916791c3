"""Lower confidence bound on epsilon from an attack's scores: the one that every audit calls.

Jagielski, Ullman, Oprea, "Auditing Differentially Private Machine Learning" (2020), section 4, with the exact
limits of Clopper and Pearson (1934) and the conversions of ``stats.tradeoff``: the attack decides "in" iff
score >= threshold; a lower limit on its TPR and an upper limit on its FPR, each one-sided at alpha/2 and so
jointly valid at 1 - alpha, are converted to epsilon. That is valid for a threshold that does not depend on the
tested trials.

The best threshold over n scores is found without computing n pairs of limits. Each conversion is a sum of a
term of the true positives and a term of the false positives (a maximum of two such sums for Kairouz). The terms
are smooth in the count: a few hundred exact knots, interpolated and raised by the error that their second
differences allow, bound every threshold from above, and only the thresholds whose bound reaches the best exact
value seen are computed exactly.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import in_interval, one_of, positive_count, sample
from dprepro.stats.bounds import lower_limit, upper_limit
from dprepro.stats.tradeoff import epsilon_gdp, epsilon_kairouz, epsilon_standard

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_CONVERSIONS = {"standard": epsilon_standard, "gdp": epsilon_gdp, "kairouz": epsilon_kairouz}
_LINES = {"standard": ("ratio",), "gdp": ("probit",), "kairouz": ("ratio", "complement")}
_ALL_COUNTS_UP_TO = 4096  # with fewer trials every count is a knot
_KNOT_RATIO = 1.01
_STRIDES = (128, 8, 1)  # block lengths of the search, with more cuts than that
_NO_BOUND = -1e6  # stands for log 0: below every real term, and finite, so that it can be interpolated


class Rates(NamedTuple):
    """Error rates of an attack at one threshold, with their limits."""

    threshold: float
    tpr: float
    fpr: float
    tpr_low: float
    fpr_up: float


class LowerBound(float):
    """Lower bound on epsilon, a float that carries what it was computed from.

    Attributes
    ----------
    threshold : float
        The decision is "in" iff score >= threshold.
    tpr, fpr : float
        Observed rates on the tested trials.
    tpr_low, fpr_up : float
        Their limits, with the masses applied.
    trials_in, trials_out : int
        Tested trials.
    """

    threshold: float
    tpr: float
    fpr: float
    tpr_low: float
    fpr_up: float
    trials_in: int
    trials_out: int

    def __new__(cls, value: float, **evidence: float) -> Self:
        bound = super().__new__(cls, value)
        bound.__dict__.update(evidence)
        return bound


def epsilon_lower_bound(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    delta: float,
    alpha: float,
    threshold: str | float = "held_out",
    conversion: str = "standard",
    *,
    grid: int | None = None,
    mass_in: float = 1.0,
    mass_out: float = 1.0,
) -> LowerBound:
    """Lower bound on epsilon at confidence 1 - alpha from the scores of an attack.

    Parameters
    ----------
    scores_in, scores_out : array_like, shapes (n,) and (m,)
        Scores of independent trials with the canary in and out, in the order in which they were drawn. High
        scores mean "in". Infinite scores are allowed.
    delta : float
        In [0, 1); in (0, 1) for the GDP conversion.
    alpha : float
        Chance that the bound exceeds epsilon, in (0, 1), over both rates jointly.
    threshold : "held_out", "same" or float
        - "held_out": the first ``n // 2`` and ``m // 2`` scores choose the threshold, the one with the best
          bound on them at level ``alpha / sqrt(min(n // 2, m // 2))``; the others are tested. Valid.
        - a number, chosen without looking at these scores: all of them are tested. Valid.
        - "same": the best threshold on the very scores that are tested. A recipe found in the literature and
          *not a valid bound*: the maximum over thresholds exceeds epsilon more often than alpha says.
    conversion : {"standard", "gdp", "kairouz"}
        See ``stats.tradeoff``. "gdp" assumes a Gaussian release.
    grid : int, optional
        Consider only this many evenly spaced pooled quantiles of the scores as thresholds; all by default.
    mass_in, mass_out : float
        Lower limits, in [0, 1], of the chance that a trial's clean output is the one that the scores were
        drawn from (`stats.bounds.modal_mass_low`). The rest is counted against the auditor. Their failure
        probabilities come on top of `alpha`.

    Returns
    -------
    LowerBound
        Never negative, never infinite; 0 at chance level.

    Raises
    ------
    ValueError
        If an argument lies outside its domain, if a score is NaN, or if a side has too few scores (2 for
        "held_out", else 1).
    """
    convert = _CONVERSIONS[one_of("conversion", conversion, tuple(_CONVERSIONS))]
    in_interval("alpha", alpha, 0, 1, closed="neither")
    in_interval("delta", delta, 0, 1, closed="neither" if conversion == "gdp" else "left")
    minimum = 2 if isinstance(threshold, str) and threshold == "held_out" else 1
    inside, outside = sample("scores_in", scores_in, minimum), sample("scores_out", scores_out, minimum)
    choose = partial(
        best_rates, conversion=conversion, delta=delta, grid=grid, mass_in=mass_in, mass_out=mass_out
    )
    if not isinstance(threshold, str):
        cut = float(in_interval("threshold", threshold, -np.inf, np.inf))
    elif one_of("threshold", threshold, ("held_out", "same")) == "same":
        cut = choose(inside, outside, alpha).threshold
    else:
        half_in, half_out = inside.size // 2, outside.size // 2
        # The best of many thresholds looks better than it is, most of all far out, where few trials speak.
        # A stricter level, between alpha and its share in a union bound over n thresholds, prefers those
        # whose rates are well known. It costs or gains power only: the other half is tested at alpha.
        strict = alpha / np.sqrt(min(half_in, half_out))
        cut = choose(inside[:half_in], outside[:half_out], strict).threshold
        inside, outside = inside[half_in:], outside[half_out:]
    side_in, side_out = _sides(inside.size, outside.size, alpha, mass_in, mass_out)
    rates = _rates(cut, np.count_nonzero(inside >= cut), np.count_nonzero(outside >= cut), side_in, side_out)
    epsilon = float(convert(rates.tpr_low, rates.fpr_up, delta))
    return LowerBound(epsilon, **rates._asdict(), trials_in=inside.size, trials_out=outside.size)


def best_rates(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    alpha: float,
    *,
    conversion: str = "standard",
    delta: float = 0.0,
    grid: int | None = None,
    mass_in: float = 1.0,
    mass_out: float = 1.0,
) -> Rates:
    """Rates and limits at the threshold whose bound on epsilon is the largest on these very scores.

    Parameters
    ----------
    scores_in, scores_out, alpha, conversion, delta, grid, mass_in, mass_out
        As for `epsilon_lower_bound`; delta may be 0 for every conversion. Sorted scores are not sorted again.

    Returns
    -------
    Rates
        Exactly the maximum over all thresholds (or the grid's), the highest of several equal ones. Its limits
        hold at confidence 1 - alpha for trials that did not choose the threshold.

    Raises
    ------
    ValueError
        As `epsilon_lower_bound`.
    """
    lines = _LINES[one_of("conversion", conversion, tuple(_LINES))]
    delta = float(in_interval("delta", delta, 0, 1, closed="left"))
    inside, outside = _sorted("scores_in", scores_in), _sorted("scores_out", scores_out)
    sides = side_in, side_out = _sides(inside.size, outside.size, alpha, mass_in, mass_out)
    # Between two "in" scores a lower threshold adds false positives only, so no other threshold can be best.
    cuts = inside if grid is None else _pooled_quantiles(inside, outside, int(positive_count("grid", grid)))
    distinct = np.append(True, cuts[1:] != cuts[:-1])
    attack = _Attack(cuts[distinct][::-1], inside, outside)
    found = [_best_cut(attack, *(_Term(side, line, delta) for side in sides)) for line in lines]
    _, cut = max(found, key=lambda pair: pair[0])
    return _rates(cut, *attack.counts(cut), side_in, side_out)


class _Attack(NamedTuple):
    """Falling thresholds and the sorted scores that they cut."""

    cuts: FloatArray
    inside: FloatArray
    outside: FloatArray

    def true_positives(self, cuts: Any) -> IntArray:
        return self.inside.size - np.searchsorted(self.inside, cuts, side="left")

    def false_positives(self, cuts: Any) -> IntArray:
        return self.outside.size - np.searchsorted(self.outside, cuts, side="left")

    def counts(self, cuts: Any) -> tuple[IntArray, IntArray]:
        return self.true_positives(cuts), self.false_positives(cuts)


class _Side(NamedTuple):
    """One side of the attack: enough to turn a count of "in" decisions into the limit of its rate."""

    inside: bool
    trials: int
    level: float
    mass: float

    def limit(self, counts: Any) -> FloatArray:
        if self.inside:
            return lower_limit(counts, self.trials, self.level) * self.mass
        return upper_limit(counts, self.trials, self.level) * self.mass + (1 - self.mass)


class _Term(NamedTuple):
    """One side's term of a bound, increasing in what favours the auditor."""

    side: _Side
    line: str
    delta: float

    def at(self, limit: FloatArray) -> FloatArray:
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


def _best_cut(attack: _Attack, term_in: _Term, term_out: _Term) -> tuple[float, float]:
    """Largest sum of the two terms over the attack's cuts, and the highest cut that reaches it."""
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
    return knots, _Side(inside, trials, level, 1.0).limit(knots)


@lru_cache(maxsize=64)
def _ceiling(term: _Term) -> _Ceiling:
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


def _sides(n_in: int, n_out: int, alpha: float, mass_in: float, mass_out: float) -> tuple[_Side, _Side]:
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither")) / 2
    masses = float(in_interval("mass_in", mass_in, 0, 1)), float(in_interval("mass_out", mass_out, 0, 1))
    return _Side(True, n_in, level, masses[0]), _Side(False, n_out, level, masses[1])


def _rates(threshold: float, tp: Any, fp: Any, side_in: _Side, side_out: _Side) -> Rates:
    tpr, fpr = float(tp / side_in.trials), float(fp / side_out.trials)
    return Rates(threshold, tpr, fpr, float(side_in.limit(tp)), float(side_out.limit(fp)))


def _sorted(name: str, scores: ArrayLike) -> FloatArray:
    array = sample(name, scores)
    return array if (array[1:] >= array[:-1]).all() else np.sort(array)


def _pooled_quantiles(inside: FloatArray, outside: FloatArray, grid: int) -> FloatArray:
    pool = np.sort(np.concatenate([inside, outside]), kind="stable")  # merges two sorted runs
    return pool[np.linspace(0, pool.size - 1, grid).astype(np.int64)]
