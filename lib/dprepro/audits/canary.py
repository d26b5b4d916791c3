"""The loss test for canaries: does a trained model show that a record was in its training data, and how well?

A canary is a record that the auditor inserts. The score of a trained model is minus its loss on the canary, or the
drop of the loss against a reference model: "in" iff the score is high (Yeom et al., "Privacy Risk in Machine
Learning", 2018; Carlini et al., "The Secret Sharer", 2019). Here: many trainings, with and without one canary, each
of which gives one score. Error rates are binomial then, and ``stats.lower_bound`` turns their limits into a lower
bound on epsilon (Jagielski, Ullman, Oprea 2020). ``canary_one_run`` does it with many canaries in one training,
``canary_designs`` says which canaries, ``canary_power`` how many.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.canary_words import checked_claim, sign_line, verdict_lines
from dprepro.base.check import finite, in_interval, one_of, positive_count, sample
from dprepro.stats.bounds import clopper_pearson, lower_limit, upper_limit
from dprepro.stats.lower_bound import LowerBound, epsilon_lower_bound
from dprepro.stats.tradeoff import CONVERSIONS, auc

FloatArray = NDArray[np.float64]


def canary_scores(losses: ArrayLike, reference: ArrayLike | None = None) -> FloatArray:
    """Return scores for the loss test: minus the loss, or how far it dropped below a reference's loss.

    Parameters
    ----------
    losses : array_like
        Loss of each canary under the trained model.
    reference : array_like, optional
        Loss of the same canaries under a model that never saw them, or at the start of training; broadcasts. It takes
        out how hard each canary is: needed where different canaries are compared, as in one run, not where the
        same canary is scored in every training.

    Raises
    ------
    ValueError
        A loss that is not finite, or shapes that do not fit.
    """
    loss = finite("losses", losses)
    if reference is None:
        return -loss
    base = finite("reference", reference)
    if np.broadcast_shapes(loss.shape, base.shape) != loss.shape:
        raise ValueError(f"reference must broadcast to losses {loss.shape}, got shape {base.shape}")
    return base - loss


@dataclass(frozen=True)
class Detection:
    """Share of canaries detected at a fixed false positive rate, with its two-sided limits."""

    fpr: float
    threshold: float
    rate: float
    low: float
    high: float


def detection_rate(
    scores_in: ArrayLike, scores_out: ArrayLike, fpr: float = 0.05, alpha: float = 0.05
) -> Detection:
    """Detection rate of "in iff score > threshold", with a threshold that has at most the wanted FPR.

    Parameters
    ----------
    scores_in, scores_out : array_like, shapes (n,) and (m,)
        Scores of independent trials with and without the canary.
    fpr : float
        Wanted false positive rate, in (0, 1).
    alpha : float
        Of the two-sided Clopper-Pearson limits, in (0, 1).

    Returns
    -------
    Detection
        Its threshold is the j-th largest "out" score, j = floor(fpr (m + 1)): a further "out" score exceeds it with
        probability at most j/(m + 1), ties included. Infinite, and nothing detected, where m + 1 < 1/fpr.
        Given the threshold the count of detected trials is binomial, and that is what the limits cover. The true FPR
        of the threshold varies about its mean: by a third of it with 200 "out" trials and fpr .05.

    Raises
    ------
    ValueError
        A side without scores, a score that is not finite, fpr or alpha outside (0, 1).
    """
    inside, outside = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    wanted = float(in_interval("fpr", fpr, 0, 1, closed="neither"))
    # 0.05 * 20 may fall short of 1 in its last bit.
    rank = int(np.floor(wanted * (outside.size + 1) * (1 + 1e-12)))
    threshold = float(np.sort(outside)[-rank]) if rank else np.inf
    hits = int(np.count_nonzero(inside > threshold))
    low, high = clopper_pearson(hits, inside.size, alpha)
    return Detection(wanted, threshold, hits / inside.size, float(low), float(high))


def trainings_ceiling(
    trials_in: ArrayLike, trials_out: ArrayLike, delta: float, alpha: float, conversion: str = "kairouz"
) -> FloatArray:
    """Largest epsilon that so many tested trainings can show: the bound of an attack that never errs.

    Parameters
    ----------
    trials_in, trials_out : array_like of whole numbers, at least 1
        Tested trainings with and without the canary; a held-out half that chose the threshold does not count.
    delta, alpha, conversion
        As in `canary_audit`.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    convert = CONVERSIONS[one_of("conversion", conversion, tuple(CONVERSIONS))]
    level = in_interval("alpha", alpha, 0, 1, closed="neither") / 2
    n, m = positive_count("trials_in", trials_in), positive_count("trials_out", trials_out)
    return convert(lower_limit(n, n, level), upper_limit(0, m, level), delta)


@dataclass(frozen=True)
class CanaryAudit:
    """What many trainings with and without one canary show.

    Attributes
    ----------
    delta, alpha, conversion, claimed
        As asked for.
    trainings_in, trainings_out : int
        All trainings; `bound` says how many of them were tested.
    bound : LowerBound
        On epsilon, with the threshold and the rates and limits that it rests on.
    detection : Detection
        At a fixed false positive rate.
    auc : float
        Chance that a score with the canary exceeds one without it.
    """

    delta: float
    alpha: float
    conversion: str
    claimed: float | None
    trainings_in: int
    trainings_out: int
    bound: LowerBound
    detection: Detection
    auc: float

    @property
    def epsilon_low(self) -> float:
        """Lower bound on epsilon at confidence 1 - alpha."""
        return float(self.bound)

    @property
    def tpr(self) -> float:
        """Observed true positive rate on the tested trainings."""
        return self.bound.tpr

    @property
    def fpr(self) -> float:
        """Observed false positive rate on the tested trainings."""
        return self.bound.fpr

    @property
    def tpr_limits(self) -> tuple[float, float]:
        """Two-sided Clopper-Pearson limits of the true positive rate; the bound on epsilon uses the lower."""
        return self._limits(self.bound.tpr, self.bound.trials_in)

    @property
    def fpr_limits(self) -> tuple[float, float]:
        """Two-sided Clopper-Pearson limits of the false positive rate; the bound on epsilon uses the upper."""
        return self._limits(self.bound.fpr, self.bound.trials_out)

    @property
    def ceiling(self) -> float:
        """Bound that an attack without an error would reach with as many tested trainings."""
        bound = self.bound
        return float(
            trainings_ceiling(bound.trials_in, bound.trials_out, self.delta, self.alpha, self.conversion)
        )

    @property
    def violation(self) -> bool:
        """Whether the bound exceeds the claim; False without a claim."""
        return self.claimed is not None and self.epsilon_low > self.claimed

    def __str__(self) -> str:
        bound, found = self.bound, self.detection
        tpr, fpr = (
            f"{rate:.3f} [{low:.3f}, {high:.3f}]"
            for rate, (low, high) in ((self.tpr, self.tpr_limits), (self.fpr, self.fpr_limits))
        )
        lines = [
            f"Loss test on {self.trainings_in} trainings with and {self.trainings_out} without the canary, "
            f"{bound.trials_in} and {bound.trials_out} of them tested.",
            f"TPR {tpr} at FPR {fpr}; detection rate at a fixed FPR of {found.fpr:g}: "
            f"{found.rate:.3f} [{found.low:.3f}, {found.high:.3f}]; AUC {self.auc:.3f}.",
        ]
        if found.threshold == np.inf:
            lines.append(
                f"(An FPR of {found.fpr:g} needs {int(np.ceil(1 / found.fpr)) - 1} trainings without it.)"
            )
        lines += [
            *verdict_lines(self.epsilon_low, self.ceiling, self.delta, self.alpha, self.claimed),
            *sign_line(self.auc, self.trainings_in, self.trainings_out),
            "Checked: the error rates, with limits for their sampling error; the threshold was given, or chosen on "
            "other trainings than those tested.",
            "Not checked: that the trainings are independent and differ in nothing but the canary and their random "
            "numbers; that this canary, or this test, is the worst one. A low bound is no evidence of privacy.",
        ]
        if self.conversion == "gdp":
            lines.append(
                "Assumed besides: a Gaussian trade-off curve (right for full participation, not for subsampling)."
            )
        return "\n".join(lines)

    def _limits(self, rate: float, trials: int) -> tuple[float, float]:
        low, high = clopper_pearson(round(rate * trials), trials, self.alpha)
        return float(low), float(high)


def canary_audit(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    delta: float,
    alpha: float = 0.05,
    *,
    threshold: str | float = "held_out",
    conversion: str = "kairouz",
    fpr: float = 0.05,
    claimed: float | None = None,
) -> CanaryAudit:
    """Audit a training by the scores of one canary over many trainings, with it and without it.

    Parameters
    ----------
    scores_in, scores_out : array_like, shapes (n,) and (m,)
        One finite score a training, in the order of the trainings: n on the data with the canary, m without. High
        means "in" (`canary_scores`).
    delta : float
        In [0, 1); in (0, 1) for the GDP conversion.
    alpha : float
        Chance that the bound exceeds epsilon, over both rates jointly.
    threshold : "held_out" or float
        As in `stats.lower_bound.epsilon_lower_bound`: chosen on the first halves, or a number fixed before.
    conversion : {"kairouz", "standard", "gdp"}
        As in `stats.tradeoff`. "kairouz" uses both inequalities of the definition and assumes nothing.
    fpr : float
        Where the detection rate is reported.
    claimed : float, optional
        Epsilon that the training claims at `delta`; infinity allowed.

    Returns
    -------
    CanaryAudit
        ``str`` of it says in words what was checked and what not.

    Raises
    ------
    ValueError
        Names the argument: a side without trainings, fewer than two scores a side with a held-out threshold, a score
        that is not finite, sorted scores, a number outside its domain.

    Notes
    -----
    *What it assumes.* The trainings are independent runs of one randomised training. With the canary added to or
    left out of otherwise equal data, the bound is on epsilon for add/remove neighbours; if another record takes its
    place, for replace-one. The other records may be fixed, or drawn anew for each training independently of
    whether the canary is there.

    Scores of *several canaries of one training* are no independent trials: they share its random numbers, and the
    binomial limits do not hold for them. `canary_one_run.one_run_audit` is for those.
    """
    inside, outside = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    if isinstance(threshold, str):
        one_of("threshold", threshold, ("held_out",))
    claim = checked_claim(claimed)
    bound = epsilon_lower_bound(inside, outside, delta, alpha, threshold, conversion)
    return CanaryAudit(
        float(delta),
        float(alpha),
        conversion,
        claim,
        inside.size,
        outside.size,
        bound,
        detection_rate(inside, outside, fpr, alpha),
        auc(inside, outside),
    )


def _scores(name: str, scores: ArrayLike) -> FloatArray:
    return sample(name, finite(name, scores))
