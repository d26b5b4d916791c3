"""Lower confidence bound on epsilon from an attack's scores: the one that every audit calls.

Jagielski, Ullman, Oprea, "Auditing Differentially Private Machine Learning" (2020), section 4, with the exact
limits of Clopper and Pearson (1934) and the conversions of ``stats.tradeoff``: the attack decides "in" iff
score >= threshold; a lower limit on its TPR and an upper limit on its FPR, each one-sided at alpha/2 and so
jointly valid at 1 - alpha, are converted to epsilon. That is valid for a threshold that does not depend on the
tested trials.
"""

from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, one_of, positive_count, sample
from dprepro.stats.threshold_search import LINES, Attack, Side, Term, best_cut
from dprepro.stats.tradeoff import CONVERSIONS

FloatArray = NDArray[np.float64]


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
        If an argument lies outside its domain, if a score is NaN, if a side has too few scores (2 for
        "held_out", else 1), or if "held_out" gets sorted scores, whose halves are not alike.
    """
    convert = CONVERSIONS[one_of("conversion", conversion, tuple(CONVERSIONS))]
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
        _refuse_sorted("scores_in", inside)
        _refuse_sorted("scores_out", outside)
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
    lines = LINES[one_of("conversion", conversion, tuple(LINES))]
    delta = float(in_interval("delta", delta, 0, 1, closed="left"))
    inside, outside = _sorted("scores_in", scores_in), _sorted("scores_out", scores_out)
    sides = side_in, side_out = _sides(inside.size, outside.size, alpha, mass_in, mass_out)
    # Between two "in" scores a lower threshold adds false positives only, so no other threshold can be best.
    cuts = inside if grid is None else pooled_quantiles(inside, outside, int(positive_count("grid", grid)))
    distinct = np.append(True, cuts[1:] != cuts[:-1])
    attack = Attack(cuts[distinct][::-1], inside, outside)
    found = [best_cut(attack, *(Term(side, line, delta) for side in sides)) for line in lines]
    _, cut = max(found, key=lambda pair: pair[0])
    return _rates(cut, *attack.counts(cut), side_in, side_out)


def _sides(n_in: int, n_out: int, alpha: float, mass_in: float, mass_out: float) -> tuple[Side, Side]:
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither")) / 2
    masses = float(in_interval("mass_in", mass_in, 0, 1)), float(in_interval("mass_out", mass_out, 0, 1))
    return Side(True, n_in, level, masses[0]), Side(False, n_out, level, masses[1])


def _rates(threshold: float, tp: Any, fp: Any, side_in: Side, side_out: Side) -> Rates:
    tpr, fpr = float(tp / side_in.trials), float(fp / side_out.trials)
    return Rates(threshold, tpr, fpr, float(side_in.limit(tp)), float(side_out.limit(fp)))


def _sorted(name: str, scores: ArrayLike) -> FloatArray:
    array = sample(name, scores)
    return array if (array[1:] >= array[:-1]).all() else np.sort(array)


def _refuse_sorted(name: str, scores: FloatArray) -> None:
    # Twenty distinct values come in order by chance once in 10^18 times; constant or binary scores may.
    steps = np.diff(np.clip(scores, -1e300, 1e300))
    if np.count_nonzero(steps) >= 19 and ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError(
            f"{name} must be in the order of the trials for threshold='held_out', got {scores.size} sorted scores"
        )


def pooled_quantiles(inside: FloatArray, outside: FloatArray, grid: int) -> FloatArray:
    """Evenly spaced order statistics of two samples together, from the smallest to the largest.

    Parameters
    ----------
    inside, outside : ndarray, shapes (n,) and (m,)
        Each in rising order.
    grid : int

    Returns
    -------
    ndarray, shape (grid,)
    """
    ranks = np.linspace(0, inside.size + outside.size - 1, grid).astype(np.int64)
    if ranks[-1] < 20 * grid:
        return np.sort(np.concatenate([inside, outside]))[ranks]
    # Of the rank + 1 smallest, how many lie inside: bisection over all ranks at once, without merging the arrays.
    low, high = np.maximum(ranks + 1 - outside.size, 0), np.minimum(ranks + 1, inside.size)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        more = open_ & (inside[np.minimum(middle, inside.size - 1)] < outside[np.maximum(ranks - middle, 0)])
        low, high = np.where(more, middle + 1, low), np.where(open_ & ~more, middle, high)
    last_in = np.where(low > 0, inside[np.maximum(low - 1, 0)], -np.inf)
    last_out = np.where(low <= ranks, outside[np.maximum(ranks - low, 0)], -np.inf)
    return np.maximum(last_in, last_out)
