"""The epsilon and delta of a claim against its own parameters: do they agree, and what is accounted for.

Abadi et al., "Deep Learning with Differential Privacy" (2016, arXiv 1607.00133): the account of DP-SGD needs
noise_multiplier, sample_rate, steps and delta. The last three can be given in several ways, which must agree. The
account itself is done in audit_card_accounts.
"""

import math

from dprepro.audits.audit_card_accounts import Training, account_findings, mismatch
from dprepro.audits.audit_card_claim import Claim
from dprepro.audits.audit_card_findings import NOTE, REJECTED, ROUNDING, WRONG, Finding, claimed


def epsilon_findings(claim: Claim) -> list[Finding]:
    """Compare the claimed epsilon and delta with the parameters of the mechanism.

    Parameters
    ----------
    claim : Claim

    Returns
    -------
    list of Finding
        About keys of [guarantee] and [mechanism] where there is something to say, and the recomputed numbers.
    """
    found = _delta(claim)
    if claim["mechanism.kind"] == "other":
        text = "Only DP-SGD is recomputed here: the claimed epsilon is taken as it is, not confirmed."
        return [*found, claimed(claim, "mechanism.kind", NOTE, text)]
    if claim["guarantee.accountant"] == "gdp-clt":
        text = (
            "The central-limit account is an approximation that can come out below the truth: it is no bound."
        )
        found.append(claimed(claim, "guarantee.accountant", REJECTED, text))
    found += _disagreements(claim)
    sigma = claim["mechanism.noise_multiplier"]
    if sigma == 0:
        text = (
            "noise_multiplier 0 adds no noise: epsilon is infinite at every delta below 1, so there is no "
            "guarantee of differential privacy at all."
        )
        return [*found, claimed(claim, "mechanism.noise_multiplier", WRONG, text)]
    rate, steps, delta = sample_rate(claim), number_of_steps(claim), claim["guarantee.delta"]
    if sigma is None or rate is None or steps is None or not delta:
        return found + mismatch(claim)
    groups = claim["mechanism.clipping_groups"] or 1
    if groups > 1:
        sigma /= math.sqrt(groups)
        text = (
            f"{groups} groups clipped to clipping_norm each move the sum by up to sqrt({groups}) clipping_norm: "
            f"the account below is for noise_multiplier {sigma:.4g}."
        )
        found.append(claimed(claim, "mechanism.clipping_groups", NOTE, text))
    return found + account_findings(claim, Training(sigma, rate, steps, delta, _epochs(claim, rate, steps)))


def sample_rate(claim: Claim) -> float | None:
    """Return the chance of a unit to be in a batch, from what the claim gives; None if it does not."""
    if claim["mechanism.sampling"] == "full-batch":
        return 1.0
    if (rate := claim["mechanism.sample_rate"]) is not None:
        return float(rate)
    batch, size = claim["mechanism.batch_size"], claim["mechanism.dataset_size"]
    return batch / size if batch and size and batch <= size else None


def number_of_steps(claim: Claim) -> int | None:
    """Return the number of noisy updates, from what the claim gives; None if it does not."""
    steps, epochs, rate = claim["mechanism.steps"], claim["mechanism.epochs"], sample_rate(claim)
    if steps is not None:
        return int(steps)
    return max(1, math.ceil(epochs / rate - 1e-9)) if epochs and rate else None


def _delta(claim: Claim) -> list[Finding]:
    delta, size = claim["guarantee.delta"], claim["mechanism.dataset_size"]
    if delta == 0 and claim["mechanism.kind"] != "other" and claim["mechanism.noise_multiplier"] is not None:
        text = "Gaussian noise has no finite epsilon at delta 0: some delta above 0 must be claimed."
        return [claimed(claim, "guarantee.delta", WRONG, text)]
    if delta and size and delta >= 1 / size:
        text = (
            f"delta is not below 1/N = {1 / size:.3g}. Publishing each record in full with probability delta keeps "
            f"(0, delta)-differential privacy, and would publish N delta = {size * delta:.3g} records on average."
        )
        return [claimed(claim, "guarantee.delta", REJECTED, text)]
    return []


def _disagreements(claim: Claim) -> list[Finding]:
    """Keys that determine one another and do not agree."""
    found = []
    rate, batch, size = (claim[f"mechanism.{name}"] for name in ("sample_rate", "batch_size", "dataset_size"))
    if batch and size and batch > size:
        found.append(
            claimed(claim, "mechanism.batch_size", WRONG, f"A batch exceeds the data set of {size:,}.")
        )
    elif rate and batch and size and abs(rate - batch / size) > ROUNDING * rate:
        text = f"batch_size/dataset_size = {batch / size:.4g} is another sample_rate."
        found.append(claimed(claim, "mechanism.sample_rate", WRONG, text))
    if claim["mechanism.sampling"] == "full-batch" and rate not in (None, 1.0):
        text = "Full batches mean sample_rate 1."
        found.append(claimed(claim, "mechanism.sample_rate", WRONG, text))
    steps, epochs, rate = claim["mechanism.steps"], claim["mechanism.epochs"], sample_rate(claim)
    if steps and epochs and rate:
        # An epoch has floor(1/q) or ceil(1/q) steps, as the last batch is dropped or not.
        low, high = epochs * math.floor(1 / rate + 1e-9), epochs * math.ceil(1 / rate - 1e-9)
        if not (1 - ROUNDING) * low - 1 <= steps <= (1 + ROUNDING) * high + 1:
            text = f"{epochs:g} epochs at sample_rate {rate:.4g} are {epochs / rate:.4g} steps."
            found.append(claimed(claim, "mechanism.steps", WRONG, text))
    return found


def _epochs(claim: Claim, rate: float, steps: int) -> int:
    """Return how often each record is used where batches are shuffled."""
    return max(1, math.ceil((claim["mechanism.epochs"] or steps * rate) - 1e-9))
