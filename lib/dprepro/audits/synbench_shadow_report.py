"""What shadow attacks find in classifiers of synthetic and of private text, and what that says of SynBench's claim.

SynBench (arXiv 2509.14594) says that classifiers trained on synthetic text leak more than those trained privately on
the private text. Here both are attacked in the same way (``shadow``). Each attack is compared by the difference of
its two areas under the ROC curve, with limits clustered by model and by text (``stats.clustered_auc``), and a rule
says which differences bear the claim out.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.shadow import Attack, each_in_turn, lira, rmia, scaled_logits
from dprepro.base.check import in_interval
from dprepro.stats.clustered_auc import AUCDifference, ClusteredAUC, auc_difference, clustered_auc

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ATTACKS = ("RMIA", "LiRA", "Logits")
OFFLINE = ("RMIA, offline", "LiRA, offline")


def attack_scores(confidences: FloatArray, included: BoolArray) -> dict[str, FloatArray]:
    """Attack every model with all others as its shadow models.

    Parameters
    ----------
    confidences : ndarray, shape (M, T + Z)
        In the true labels of T texts and of Z that no model was trained on, in (0, 1].
    included : ndarray of bool, shape (M, T)

    Returns
    -------
    dict of str to ndarray, shape (M, T)
        For each of ATTACKS and OFFLINE; high means "in".

    Raises
    ------
    ValueError
        As the attacks; RMIA needs a Z of at least 1.
    """
    targets = np.asarray(included).shape[1]

    def of_targets(online: bool) -> Attack:
        return lambda own, others, inside: lira(own[:targets], others[:, :targets], inside, online=online)

    def of_all(online: bool) -> Attack:
        return lambda own, others, inside: rmia(
            own[:targets], own[targets:], others[:, :targets], others[:, targets:], inside, online=online
        )

    found = {
        "RMIA": each_in_turn(of_all(True), confidences, included),
        "LiRA": each_in_turn(of_targets(True), confidences, included),
        "Logits": scaled_logits(np.asarray(confidences)[:, :targets]),
    }
    found[OFFLINE[0]] = each_in_turn(of_all(False), confidences, included)
    found[OFFLINE[1]] = each_in_turn(of_targets(False), confidences, included)
    return found


class Compared(NamedTuple):
    """One attack on classifiers of synthetic text and on classifiers of private text.

    Attributes
    ----------
    synthetic, private : ClusteredAUC
    difference : AUCDifference
        The first less the second.
    outcome : str
        HOLDS, FAILS or UNDECIDED.
    """

    synthetic: ClusteredAUC
    private: ClusteredAUC
    difference: AUCDifference
    outcome: str


def compare(
    synthetic: ArrayLike, private: ArrayLike, included: ArrayLike, margin: float, alpha: float = 0.05
) -> Compared:
    """Compare one attack on two kinds of classifiers whose models have the same texts in and out.

    Parameters
    ----------
    synthetic, private : array_like, shape (M, T)
        Scores of the attack, from `attack_scores`.
    included : array_like of bool, shape (M, T)
    margin : float
        In [0, 1]: a difference of areas that is smaller counts for none.
    alpha : float
        Of the limits, in (0, 1).

    Returns
    -------
    Compared
        The outcome is HOLDS if the whole interval of the difference lies above 0; if not, FAILS if the whole
        interval lies below `margin`; else UNDECIDED.

    Raises
    ------
    ValueError
        As `clustered_auc`, or a margin outside its domain.
    """
    least = float(in_interval("margin", margin, 0, 1))
    difference = auc_difference(synthetic, private, included, alpha=alpha)
    outcome = "HOLDS" if difference.low > 0 else "FAILS" if difference.high < least else "UNDECIDED"
    first, second = (clustered_auc(scores, included, alpha) for scores in (synthetic, private))
    return Compared(first, second, difference, outcome)


def overall(compared: Mapping[str, Compared]) -> str:
    """Return the outcome of several attacks together, whose limits share one error probability (Bonferroni).

    HOLDS if an attack bears the claim out and none fails it, since a classifier leaks what any attack sees; FAILS if
    every attack fails it; else UNDECIDED. ValueError for no attack.
    """
    if not compared:
        raise ValueError("compared must hold at least one attack, got none")
    outcomes = {found.outcome for found in compared.values()}
    if outcomes == {"FAILS"}:
        return "FAILS"
    return "HOLDS" if "HOLDS" in outcomes and "FAILS" not in outcomes else "UNDECIDED"


def largest_auc(epsilon: float, delta: float) -> float:
    """Return the largest AUC of any attack on one record under (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        At least 0; may be infinite.
    delta : float
        In [0, 1].

    Returns
    -------
    float
        1 - (1 - delta)^2 / (1 + exp(epsilon)): the area below TPR = min(exp(epsilon) FPR + delta,
        1 - exp(-epsilon) (1 - delta - FPR)), the border of the privacy region of Kairouz, Oh, Viswanath (2015).

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    budget = float(in_interval("epsilon", epsilon, 0, np.inf))
    slack = float(in_interval("delta", delta, 0, 1))
    return float(1 - (1 - slack) ** 2 / (1 + np.exp(budget)))
