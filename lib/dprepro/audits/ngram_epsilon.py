"""Empirical epsilon of a membership attack: the point estimate that papers print, and bounds that hold.

SynBench (arXiv 2509.14594) reads an epsilon off the ROC curve of all targets and subsets together, where the false
positive rate is in [.1, .2]: the largest value of Kairouz, Oh, Viswanath (2015), `stats.tradeoff.epsilon_kairouz`.
That is an estimate, and the best of several, so it may well exceed epsilon. A bound needs independent trials, and
trials of one subset are not: they share what the generator wrote. What each function assumes stands in its notes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, positive_count
from dprepro.stats.betting import betting_interval
from dprepro.stats.lower_bound import best_rates, epsilon_lower_bound
from dprepro.stats.tradeoff import epsilon_kairouz, roc

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class PointEstimate:
    """An epsilon read off an ROC curve, and where."""

    epsilon: float
    tpr: float
    fpr: float


def point_estimate(
    scores: ArrayLike, included: ArrayLike, delta: float, fpr: tuple[float, float] = (0.1, 0.2)
) -> PointEstimate:
    """Largest epsilon of Kairouz et al. over the points of the ROC curve in a range of false positive rates.

    Parameters
    ----------
    scores, included : array_like of one shape
        All trials together (subsets, targets), or those of one target (subsets,).
    delta : float
        In [0, 1].
    fpr : (float, float)
        The range, both ends in [0, 1]; at its ends the curve is read by linear interpolation.

    Raises
    ------
    ValueError
        Trials of one kind only, scores that are not finite, an argument outside its domain.

    Notes
    -----
    *An estimate, no bound.* It has no confidence, and since the best point of a range is taken it is too large on
    average. *Pooled* over targets that are in equally many subsets ("exact") it needs no common trade-off curve:
    both rates are means over targets, the privacy region is convex, and a mean outside it has a target
    outside it.
    """
    table, inside = _trials(scores, included)
    low, high = (float(end) for end in in_interval("fpr", fpr, 0, 1))
    if low > high:
        raise ValueError(f"fpr must be a range (low, high), got ({low:g}, {high:g})")
    _, tpr, rate = roc(table[inside], table[~inside])
    # Several thresholds may have one false positive rate: read the curve at its upper end.
    at = [
        float(tpr[rate <= end].max()) if (rate == end).any() else float(np.interp(end, rate, tpr))
        for end in (low, high)
    ]
    chosen = (rate >= low) & (rate <= high)
    tprs, rates = np.r_[at, tpr[chosen]], np.r_[low, high, rate[chosen]]
    found = epsilon_kairouz(tprs, rates, delta)
    best = int(found.argmax())
    return PointEstimate(float(found[best]), float(tprs[best]), float(rates[best]))


def estimate_limits(
    scores: ArrayLike,
    included: ArrayLike,
    delta: float,
    rng: np.random.Generator,
    draws: int = 400,
) -> tuple[float, float]:
    """How far `point_estimate` scatters: percentiles over subsets and targets drawn again.

    Parameters
    ----------
    scores, included : array_like, shape (subsets, targets)
    delta : float
        As for `point_estimate`, whose range of false positive rates is the default.
    rng : numpy.random.Generator
    draws : int
        A draw with trials of one kind only has no estimate and is left out.

    Returns
    -------
    low, high : float
        The 2.5 and 97.5 per cent quantiles; infinite where an estimate is.

    Raises
    ------
    ValueError
        As `point_estimate`, for what is no matrix, and where no draw has trials of both kinds.

    Notes
    -----
    The bootstrap of Owen, "The Pigeonhole Bootstrap" (2007): rows and columns are drawn with replacement, each for
    itself, which overstates the variance a little. It describes the *estimate*, its upward bias included, and is no
    bound on epsilon.
    """
    table, inside = _trials(scores, included)
    if table.ndim != 2:
        raise ValueError(f"scores must be a matrix (subsets, targets), got shape {table.shape}")
    found = []
    for _ in range(number := int(positive_count("draws", draws))):
        cells = np.ix_(*(rng.integers(size, size=size) for size in table.shape))
        if inside[cells].any() and not inside[cells].all():
            found.append(point_estimate(table[cells], inside[cells], delta).epsilon)
    if not found:
        raise ValueError(f"draws must include one with trials of both kinds, got none of {number}")
    low, high = np.quantile(found, [0.025, 0.975], method="nearest")
    return float(low), float(high)


@dataclass(frozen=True)
class EpsilonBounds:
    """Lower bounds on epsilon from a table of trials, each at confidence 1 - alpha.

    Attributes
    ----------
    threshold : float
        Of the bounds by subset and by target: chosen on the first half of the subsets, all targets together.
        "in" iff score >= threshold.
    subsets : int
        Tested: the other half.
    by_subset : float
        Pooled over targets, with subsets as the independent trials. Assumes nothing of the trials of one subset.
    by_trial : float
        Pooled, with all trials independent, as papers count them. *Not valid* where a subset has several targets:
        they share its texts.
    by_target : ndarray, shape (targets,)
        Each target's own, valid one at a time.
    worst_target : float
        The largest bound over targets at alpha/targets each (Bonferroni), so valid as it stands.
    """

    threshold: float
    subsets: int
    by_subset: float
    by_trial: float
    by_target: FloatArray
    worst_target: float


def epsilon_bounds(
    scores: ArrayLike, included: ArrayLike, delta: float, alpha: float = 0.05
) -> EpsilonBounds:
    """Lower bounds on epsilon: pooled and for each target.

    Parameters
    ----------
    scores : array_like, shape (subsets, targets)
        In the order in which the subsets were drawn. At least four subsets.
    included : array_like of bool or 0/1, same shape
    delta : float
        In [0, 1).
    alpha : float
        Chance that a bound exceeds epsilon, in (0, 1).

    Raises
    ------
    ValueError
        Fewer than four subsets, a half without trials of both kinds, scores that are not finite, an argument outside
        its domain.

    Notes
    -----
    *All assume* that subsets are drawn and generators run independently, and that a target is in a
    subset with probability 1/2 whatever else is in it: then "in" and "out" differ in one record, and epsilon is that
    of add/remove neighbours. Under the exact half-and-half design this holds within a subset; over subsets the
    halves of a target are drawn without replacement, which ties them together slightly. All thresholds come from the
    other half of the subsets, so none depends on a tested trial.

    *by_subset.* In subset i let Z_i = (hits among the included targets)/(cT), T targets, cut off at 1; its mean is
    at most TPR/(2c), TPR being the mean over targets. The same for correct rejections. So betting limits for the two
    means (`stats.betting`, alpha/2 each) give a lower limit on TPR and an upper one on FPR, however the targets of a
    subset depend on one another, and the region of privacy, which is convex, holds the mean point. c = 1/2 + T^-1/2.

    *by_target* tests a quarter of the subsets on each side, and can show little unless there are many: 10 of 10
    against 0 of 10 gives .81.
    """
    table, inside = _trials(scores, included)
    if table.ndim != 2 or len(table) < 4:
        raise ValueError(f"scores must be a matrix of at least 4 subsets, got shape {table.shape}")
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    slack = float(in_interval("delta", delta, 0, 1, closed="left"))
    half = len(table) // 2
    (chosen, chosen_in), (table, inside) = (table[:half], inside[:half]), (table[half:], inside[half:])
    for name, part in (("first", chosen_in), ("second", inside)):
        if part.all() or not part.any():
            raise ValueError(
                f"included must hold trials of both kinds in the {name} half of the subsets, "
                f"got {int(part.sum())} of {part.size} in"
            )
    cut = _threshold(chosen, chosen_in, slack, np.log(4 / level) / len(table))
    hit = table >= cut
    # The usual count prefers thresholds far out, where thousands of trials speak.
    strict = level / np.sqrt(min(chosen_in.sum(), (~chosen_in).sum()))
    far_out = best_rates(
        chosen[chosen_in], chosen[~chosen_in], strict, conversion="kairouz", delta=slack
    ).threshold

    def bound(columns: slice, share: float, threshold: float) -> float:
        part, kind = table[:, columns], inside[:, columns]
        if kind.all() or not kind.any():
            return 0.0
        return float(epsilon_lower_bound(part[kind], part[~kind], slack, share, threshold, "kairouz"))

    targets = [slice(place, place + 1) for place in range(table.shape[1])]
    tpr_low, tnr_low = (_mean_low(right, level) for right in (hit & inside, ~hit & ~inside))
    return EpsilonBounds(
        cut,
        len(table),
        float(epsilon_kairouz(tpr_low, 1 - tnr_low, slack)),
        bound(slice(None), level, far_out),
        np.array([bound(column, level, cut) for column in targets]),
        max(bound(column, level / len(targets), cut) for column in targets),
    )


def _threshold(scores: FloatArray, inside: BoolArray, delta: float, radius: float) -> float:
    """Threshold with the largest epsilon after both rates are moved by what their limits will cost."""
    cuts, tpr, fpr = roc(scores[inside], scores[~inside])
    found = epsilon_kairouz(np.maximum(0, tpr - radius), np.minimum(1, fpr + radius), delta)
    return float(cuts[1:][found[1:].argmax()])


def _mean_low(right: BoolArray, alpha: float) -> float:
    """Lower limit on the mean rate of right decisions, at alpha/2, from those made in each subset."""
    targets = right.shape[1]
    room = 0.5 + targets**-0.5
    each = np.minimum(1.0, right.sum(axis=1) / (room * targets))
    return min(1.0, 2 * room * betting_interval(each, alpha)[0])


def _trials(scores: ArrayLike, included: ArrayLike) -> tuple[FloatArray, BoolArray]:
    table, coins = finite("scores", scores), np.asarray(included)
    if coins.shape != table.shape:
        raise ValueError(f"included must have the shape of scores, {table.shape}, got {coins.shape}")
    inside = coins == 1
    if inside.all() or not inside.any():
        raise ValueError(
            f"included must hold trials of both kinds, got {int(inside.sum())} of {inside.size} in"
        )
    return table, inside
