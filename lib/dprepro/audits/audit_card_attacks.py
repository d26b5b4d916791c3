"""The attacks behind a privacy claim: what a membership test, an extraction test and exposed scores support.

A lower bound on epsilon is computed again from the counts: from one training with many canaries by Steinke, Nasr,
Jagielski (2023, arXiv 2305.08846), from many trainings by the limits of Clopper and Pearson on both rates. A bound
above the claimed epsilon refutes the claim. A bound below it confirms nothing: arbitrary canaries are hardly
memorised (Panda et al. 2025, arXiv 2503.06808), and attacks on records of the training data do little better than
chance on the Pile (Duan et al. 2024, arXiv 2402.07841, who insert no canaries) while texts are extracted verbatim.
"""

from typing import NamedTuple

from dprepro.audits.audit_card_claim import Claim
from dprepro.audits.audit_card_findings import (
    AGREES,
    COMPUTED,
    NOTE,
    REJECTED,
    ROUNDING,
    WRONG,
    Finding,
    brief,
    claimed,
)
from dprepro.audits.audit_card_keys import STRONG_CANARIES
from dprepro.stats.bounds import clopper_pearson, lower_limit, upper_limit
from dprepro.stats.one_run import epsilon_one_run
from dprepro.stats.tradeoff import epsilon_gdp, epsilon_kairouz


class _Audit(NamedTuple):
    low: float  # lower bound on epsilon
    most: float  # what a perfect attack would have shown with as many trials
    gaussian: float  # the bound under the assumption of a Gaussian release; `low` where there is none
    how: str


def attack_findings(claim: Claim) -> list[Finding]:
    """Compare the evidence of attacks with the claim.

    Parameters
    ----------
    claim : Claim

    Returns
    -------
    list of Finding
        About keys of [membership], [extraction] and [confidences] where there is something to say, and the bounds
        that were computed again.
    """
    return [*_membership(claim), *_extraction(claim), *_confidences(claim)]


def _membership(claim: Claim) -> list[Finding]:
    canaries = claim["membership.canaries"]
    if canaries is None:
        return []
    if canaries == ["none"]:
        text = "No membership test was done: nothing but the account speaks for the claim, and code can break it."
        return [claimed(claim, "membership.canaries", REJECTED, text)]
    found = []
    if not set(canaries) & set(STRONG_CANARIES):
        text = (
            "Not the data that a model gives away most easily. A test on such records that finds little does not "
            "show that little leaks; most-extractable or new-token canaries are needed (Panda et al. 2025)."
        )
        found.append(claimed(claim, "membership.canaries", REJECTED, text))
    impossible = _impossible(claim)
    found += impossible
    invalid = _invalid(claim)
    found += invalid
    reported, epsilon = claim["membership.epsilon_low"], claim["guarantee.epsilon"]
    if reported is not None and epsilon is not None and reported > epsilon:
        text = f"The audit that the claim itself reports exceeds the claimed epsilon {brief(epsilon)}."
        found.append(claimed(claim, "membership.epsilon_low", WRONG, text))
    audit = None if impossible or invalid else _audit(claim)
    return found + (_compared(claim, audit) if audit else [])


_BELOW = (
    ("guesses", "number_of_canaries"),
    ("correct_guesses", "guesses"),
    ("true_positives", "trials_in"),
    ("false_positives", "trials_out"),
)


def _impossible(claim: Claim) -> list[Finding]:
    """Counts that cannot be."""
    found = []
    for part, whole in _BELOW:
        count, limit = claim[f"membership.{part}"], claim[f"membership.{whole}"]
        if count is not None and limit is not None and count > limit:
            text = f"More than {whole} = {limit:,}, of which these are a part."
            found.append(claimed(claim, f"membership.{part}", WRONG, text))
    return found


def _invalid(claim: Claim) -> list[Finding]:
    """Why the counts give no bound."""
    if claim["membership.canaries"] == ["members"]:
        text = "Members were not put in by a coin: a difference to other records need not come from the training."
        return [claimed(claim, "membership.design", REJECTED, text)] if claim["membership.design"] else []
    if claim["membership.design"] != "many-trainings":
        return []
    if claim["membership.threshold"] == "same-scores":
        text = "The threshold was chosen on the scores that it is tested on: the counts give no bound."
        return [claimed(claim, "membership.threshold", REJECTED, text)]
    trainings, inside, outside = (
        claim[f"membership.{name}"] for name in ("trainings", "trials_in", "trials_out")
    )
    if trainings and inside and outside and inside + outside > trainings:
        text = (
            f"{inside + outside:,} trials from fewer trainings are not independent: the counts give no bound."
        )
        return [claimed(claim, "membership.trainings", REJECTED, text)]
    return []


def _audit(claim: Claim) -> _Audit | None:
    """The bound again, if there is all that it needs."""
    one_run = claim["membership.design"] == "one-run"
    names = (
        ("number_of_canaries", "guesses", "correct_guesses")
        if one_run
        else ("true_positives", "trials_in", "false_positives", "trials_out", "threshold")
    )
    counts = [claim[f"membership.{name}"] for name in names]
    confidence, delta = claim["membership.confidence"], claim["guarantee.delta"]
    if claim["membership.design"] is None or None in (*counts, confidence, delta):
        return None
    alpha = 1 - confidence
    if one_run:
        m, guesses, correct = counts
        low = float(epsilon_one_run(m, guesses, correct, delta, alpha))
        most = float(epsilon_one_run(m, guesses, guesses, delta, alpha))
        return _Audit(
            low, most, low, f"{correct:,} of {guesses:,} guesses right, {m:,} canaries (Steinke et al. 2023)"
        )
    true, inside, false, outside = counts[:4]
    tpr, fpr = lower_limit(true, inside, alpha / 2), upper_limit(false, outside, alpha / 2)
    best = lower_limit(inside, inside, alpha / 2), upper_limit(0, outside, alpha / 2)
    low, most = float(epsilon_kairouz(tpr, fpr, delta)), float(epsilon_kairouz(*best, delta))
    gaussian = float(epsilon_gdp(tpr, fpr, delta)) if delta > 0 else low
    return _Audit(low, most, gaussian, f"TPR at least {tpr:.4g}, FPR at most {fpr:.4g} (Clopper and Pearson)")


def _compared(claim: Claim, audit: _Audit) -> list[Finding]:
    epsilon, reported = claim["guarantee.epsilon"], claim["membership.epsilon_low"]
    text, status = f"Lower bound at confidence {claim['membership.confidence']:g}: {audit.how}.", COMPUTED
    if epsilon is not None and audit.low > epsilon:
        text += f" It lies above the claimed {brief(epsilon)}: the counts refute the claim."
        status = WRONG
    elif epsilon is not None:
        text += " It does not contradict the claim, and does not confirm it."
        if audit.most < epsilon:
            text += (
                f" A perfect attack with as many trials would have shown {brief(audit.most)}: this test could not "
                "have refuted the claim."
            )
    found = [Finding("membership.bound", status, text, brief(audit.low), "audited (from the counts)")]
    if reported is not None and not (epsilon is not None and reported > epsilon):
        found.append(_reported(claim, reported, audit))
    return found + _rates(claim)


def _reported(claim: Claim, reported: float, audit: _Audit) -> Finding:
    item = "membership.epsilon_low"
    if reported <= (1 + ROUNDING) * audit.low:
        return claimed(claim, item, AGREES, f"No more than the counts give, {brief(audit.low)}.")
    if reported <= (1 + ROUNDING) * audit.gaussian:
        text = (
            f"The counts give {brief(audit.low)}, and {brief(audit.gaussian)} only if the release were Gaussian, "
            "which the attack's scores are not known to be."
        )
        return claimed(claim, item, REJECTED, text)
    return claimed(claim, item, WRONG, f"The counts give {brief(audit.low)}, less than reported.")


def _rates(claim: Claim) -> list[Finding]:
    """Reported rates beside the counts; half a per cent is rounding."""
    found = []
    for rate, part, whole in (
        ("tpr", "true_positives", "trials_in"),
        ("fpr", "false_positives", "trials_out"),
    ):
        reported, count, trials = (claim[f"membership.{name}"] for name in (rate, part, whole))
        if None not in (reported, count, trials) and abs(reported - count / trials) > ROUNDING / 2:
            text = f"The counts give {count / trials:.4g}."
            found.append(claimed(claim, f"membership.{rate}", WRONG, text))
    return found


def _extraction(claim: Claim) -> list[Finding]:
    if claim["extraction.tested"] is False:
        text = "Not tested: this card says nothing on what comes out verbatim."
        return [claimed(claim, "extraction.tested", NOTE, text)]
    attempts, extracted = claim["extraction.attempts"], claim["extraction.extracted"]
    if attempts is None or extracted is None:
        return []
    if extracted > attempts:
        return [claimed(claim, "extraction.extracted", WRONG, f"More than the {attempts:,} attempts.")]
    low, high = clopper_pearson(extracted, attempts, 0.05)
    text = f"95 per cent limits {low:.3g} to {high:.3g} (Clopper and Pearson), if attempts are independent."
    return [
        Finding(
            "extraction.rate", COMPUTED, text, f"{extracted / attempts:.4g}", "recomputed (from the counts)"
        )
    ]


def _confidences(claim: Claim) -> list[Finding]:
    found = []
    if claim["confidences.exposed"] and claim["confidences.examined"] is False:
        text = (
            "Scores are exposed and no attack through them was tried: whether records can be found again through "
            "them is unknown."
        )
        found.append(claimed(claim, "confidences.examined", REJECTED, text))
    if claim["confidences.exposed"] and claim["confidences.defences"] == ["none"]:
        text = "Users see the scores as the model has them."
        found.append(claimed(claim, "confidences.defences", NOTE, text))
    return found
