"""The n-gram membership attack on synthetic text, evaluated: AUC with intervals, epsilon as estimate and as bound.

Meeus et al., "The Canary's Echo" (arXiv 2502.14921), and SynBench (arXiv 2509.14594). ``ngram_design`` says which
private subset holds which target, a generator writes a corpus for each subset, ``ngram_scores`` scores every target
after every corpus, and `membership_audit` says what the table of scores shows. Any other table of scores of that
shape goes too: with the model's own loss in place of the text it is the white-box attack, which bounds what the text
can hide.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.canary_one_run import OneRunAudit, one_run_audit
from dprepro.audits.ngram_design import INCLUSIONS
from dprepro.audits.ngram_epsilon import EpsilonBounds, PointEstimate, epsilon_bounds, point_estimate
from dprepro.base.check import finite, in_interval, one_of
from dprepro.stats.clustered_auc import ClusteredAUC, clustered_auc

FloatArray = NDArray[np.float64]
_FEW = 8  # targets in a corpus below which one corpus says nothing


@dataclass(frozen=True)
class MembershipAudit:
    """What the scores of targets after many generated corpora show.

    Attributes
    ----------
    kind : {"exact", "independent"}
        How targets were put into subsets.
    delta, alpha, claimed
        As asked for.
    subsets, targets : int
    pooled, within : ClusteredAUC
        Over all pairs of an "in" and an "out" trial, and over pairs of the same target only. The first also compares
        targets with one another and so suffers from what makes some easy; the second is what an attacker has who
        knows the scores of one target after many corpora.
    point : PointEstimate
        Epsilon read off the pooled ROC curve at false positive rates of .1 to .2. No bound.
    bounds : EpsilonBounds
        By subset (valid), by trial (not valid), by target.
    one_run : ndarray, shape (subsets,)
        Bound from each corpus alone, by the audit with one run; 0 where a corpus has fewer than eight targets. Under
        "exact" it holds only if the scores of a subset come from that corpus alone (see `membership_audit`).
    half_of_runs : float
        The bound that half of the corpora reach, each alone at alpha/2: valid at 1 - alpha however the corpora
        depend on one another. (Each errs with chance alpha/2 at most, so half of them with chance alpha at most.)
        It rests on what `one_run` rests on.
    all_runs : OneRunAudit or None
        The same from all coins together, guessed by scores less the median of their corpus; None under "exact", where
        a target's coins depend on one another, and with fewer than eight targets.
    """

    kind: str
    delta: float
    alpha: float
    claimed: float | None
    subsets: int
    targets: int
    pooled: ClusteredAUC
    within: ClusteredAUC
    point: PointEstimate
    bounds: EpsilonBounds
    one_run: FloatArray
    half_of_runs: float
    all_runs: OneRunAudit | None

    @property
    def epsilon_low(self) -> float:
        """Lower bound at 1 - alpha: by subset, or from all coins where they are independent."""
        return self.bounds.by_subset if self.all_runs is None else self.all_runs.epsilon_low

    @property
    def violation(self) -> bool:
        """Whether that bound exceeds the claim; False without a claim."""
        return self.claimed is not None and self.epsilon_low > self.claimed

    def __str__(self) -> str:
        bounds, point = self.bounds, self.point
        coins = "by its own coin in each" if self.kind == "independent" else "in exactly half of them"
        share = f"{100 * (1 - self.alpha):g} %"
        lines = [
            f"Membership attack on {self.targets} targets and {self.subsets} subsets, each target {coins}.",
            f"AUC {self.pooled} pooled, {self.within} within a target ({share}, clustered by subset and by target).",
            f"Epsilon at delta {self.delta:g}: {point.epsilon:.2f} as a point estimate (TPR {point.tpr:.2f} at FPR "
            f"{point.fpr:.2f}; the best of a range, no bound).",
            f"Lower bounds at {share}: {bounds.by_subset:.2f} pooled, subsets as trials; {bounds.worst_target:.2f} "
            f"for the worst target, all of them allowed for; {self.half_of_runs:.2f} by half of the corpora, each "
            f"audited for itself ({self.one_run.mean():.2f} from one corpus, on average).",
        ]
        if self.all_runs is not None:
            lines.append(f"From all coins together: {self.all_runs.epsilon_low:.2f}.")
        lines.append(
            f"({bounds.by_trial:.2f} with trials taken for independent, which those of a subset are not: no bound.)"
        )
        if self.claimed is not None:
            verdict = "CONTRADICTED" if self.violation else "not contradicted"
            lines.append(f"Claimed: {self.claimed:g}, {verdict}.")
        lines.append(
            "Not checked: that these targets, or this attack, are the worst. A low bound is no evidence of privacy."
        )
        return "\n".join(lines)


def membership_audit(
    scores: ArrayLike,
    included: ArrayLike,
    delta: float,
    alpha: float = 0.05,
    *,
    kind: str = "exact",
    claimed: float | None = None,
) -> MembershipAudit:
    """Evaluate a membership attack from its table of scores.

    Parameters
    ----------
    scores : array_like, shape (subsets, targets)
        Finite; high means that the target was in the subset. In the order in which subsets were drawn.
    included : array_like of bool or 0/1, same shape
        `ngram_design.half_and_half`.
    delta : float
        At which epsilon is asked for, in [0, 1).
    alpha : float
        In (0, 1).
    kind : {"exact", "independent"}
        How `included` was drawn.
    claimed : float, optional
        Epsilon that the generator claims at `delta`, positive; infinity allowed.

    Returns
    -------
    MembershipAudit
        ``str`` of it says in words what was found and what it rests on.

    Raises
    ------
    ValueError
        Names the argument: fewer than four subsets, trials of one kind only, shapes that do not fit, scores that are
        not finite, numbers outside their domain; for "exact" a target that is not in half of the subsets.

    Notes
    -----
    *Under "exact" the scores of a subset must come from that corpus alone* (and from what is public) for `one_run`
    and `half_of_runs` to be bounds. The coins of a target in the other subsets determine its coin in this one, so a
    score less its mean over the subsets sees what all of them leak: with four subsets the "bound" for randomised
    response at epsilon 1 is about 1.5. That a target is easy is to be taken off by references or by the loss of a
    public model. Under "independent" the other corpora say nothing of a subset's coins: such scores do no harm there.
    """
    table = finite("scores", scores)
    pooled = clustered_auc(table, included, alpha)
    inside = np.asarray(included) == 1
    claim = None if claimed is None else float(in_interval("claimed", claimed, 0, np.inf, closed="right"))
    if one_of("kind", kind, INCLUSIONS) == "exact":
        wrong = np.flatnonzero(2 * inside.sum(axis=0) != len(inside))
        if wrong.size:
            raise ValueError(
                f"included must hold each target in half of the {len(inside)} subsets, got "
                f"{inside[:, wrong[0]].sum()} for target {wrong[0]}"
            )
    alone, stricter = (
        np.array([_one_run(*row, delta, level) for row in zip(table, inside, strict=True)])
        for level in (alpha, alpha / 2)
    )
    return MembershipAudit(
        kind,
        float(delta),
        float(alpha),
        claim,
        len(inside),
        inside.shape[1],
        pooled,
        clustered_auc(table, inside, alpha, within=True),
        point_estimate(table, inside, delta),
        epsilon_bounds(table, inside, delta, alpha),
        alone,
        float(np.sort(stricter)[len(stricter) // 2]),
        _all_coins(table, inside, delta, alpha) if kind == "independent" and table.shape[1] >= _FEW else None,
    )


def _one_run(scores: FloatArray, coins: NDArray[np.bool_], delta: float, alpha: float) -> float:
    if scores.size < _FEW or coins.all() or not coins.any():
        return 0.0
    return one_run_audit(scores, coins, delta, alpha).epsilon_low


def _all_coins(table: FloatArray, inside: NDArray[np.bool_], delta: float, alpha: float) -> OneRunAudit:
    # As one run of as many canaries: in one of many small corpora all coins may fall alike, and to leave it out, or
    # to guess it in another way, would be a choice by the coins.
    return one_run_audit(
        (table - np.median(table, axis=1, keepdims=True)).ravel(), inside.ravel(), delta, alpha
    )
