"""The account behind a claimed epsilon, done again: what the parameters of a DP-SGD claim give, beside what it says.

Abadi et al., "Deep Learning with Differential Privacy" (2016, arXiv 1607.00133) account for batches drawn by Poisson
sampling. Most code shuffles instead, and the account does not carry over: Chua et al., "How Private are DP-SGD
Implementations?" (2024, arXiv 2403.17673). What holds for any shuffle is the account of each record in one batch an
epoch: given the order of the records, only that batch depends on a record that is zeroed out, so an epoch is one
Gaussian release and E epochs are E of them.
"""

import math
from typing import Any

from dprepro.audits.audit_card_claim import AGREES, COMPUTED, NOTE, REJECTED, WRONG, Claim, Finding
from dprepro.mechanisms.accounting import dp_sgd_epsilon

ROUNDING = 0.01  # relative: printed numbers are rounded, and accountants differ by about as much
WORDED = {"poisson": "Poisson sampling", "shuffled": "shuffled epochs", "fixed-size": "batches of fixed size",
          "full-batch": "full batches"}  # fmt: skip


def shown(value: Any) -> str:
    """Return a value as a card prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return "infinite" if math.isinf(value) else f"{value:.6g}".replace("e-0", "e-")
    return f"{value:,}" if isinstance(value, int) else str(value)


def claimed(claim: Claim, item: str, status: str, text: str) -> Finding:
    """Return a finding about the value of a key of the claim."""
    return Finding(item, status, text, shown(claim[item]), "claimed")


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
        return found + _mismatch(claim)
    groups = claim["mechanism.clipping_groups"] or 1
    if groups > 1:
        sigma /= math.sqrt(groups)
        text = (
            f"{groups} groups clipped to clipping_norm each move the sum by up to sqrt({groups}) clipping_norm: "
            f"the account below is for noise_multiplier {sigma:.4g}."
        )
        found.append(claimed(claim, "mechanism.clipping_groups", NOTE, text))
    return found + _recomputed(claim, sigma, rate, steps, delta)


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
    return max(1, math.ceil(epochs / rate - 1e-9)) if epochs and rate and epochs / rate < 1e15 else None


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


def _recomputed(claim: Claim, sigma: float, rate: float, steps: int, delta: float) -> list[Finding]:
    sampling, found = claim["mechanism.sampling"], []
    replace = claim["guarantee.neighbours"] == "replace-one"
    near = "replace-one" if replace else "add-or-remove"
    way = "full batches" if rate == 1 else "Poisson sampling"
    if sampling is None:
        way = f"if batches were drawn by {way}"
    half = sigma / 2 if replace else sigma  # a sum moves by 2C where a record is replaced
    rdp = None
    if not replace or rate == 1:  # dp_accounting has no Renyi account of replacing under Poisson sampling
        rdp = dp_sgd_epsilon(half, rate, steps, delta, "rdp")
        found.append(_number("rdp", rdp, f"{way}, {near}", "RDP"))
    pld = (
        _pld_replace_one(sigma, rate, steps, delta) if replace else dp_sgd_epsilon(sigma, rate, steps, delta)
    )
    found.append(_number("pld", pld, f"{way}, {near}", "PLD"))
    if sampling in ("shuffled", "fixed-size") and rate < 1:
        bounds = _not_poisson(claim, half, steps, delta)
        found += [_number(name, epsilon, text, "PLD") for name, epsilon, text in bounds]
        return found + _not_poisson_judged(claim, pld, min(epsilon for _, epsilon, _ in bounds))
    return found + _judged(claim, rdp, pld)


def _pld_replace_one(sigma: float, rate: float, steps: int, delta: float) -> float:
    """Upper bound on epsilon where a record is replaced: its gradient turns from C to -C in the same batches."""
    unsampled = dp_sgd_epsilon(sigma / 2, 1, steps, delta)  # exact at sample_rate 1
    if rate == 1 or unsampled == 0 or math.isinf(unsampled):
        return unsampled
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    # Cells of the loss distribution in proportion to the bound at hand, so that little noise costs no gigabytes.
    half_noise = dp_sgd_epsilon(sigma / 2, rate, steps, delta)
    accountant = PLDAccountant(
        dp_accounting.NeighboringRelation.REPLACE_ONE,
        value_discretization_interval=max(1e-4, half_noise / 1e5),
    )
    return min(unsampled, float(accountant.compose(event, steps).get_epsilon(delta)))


def _not_poisson(claim: Claim, sigma: float, steps: int, delta: float) -> list[tuple[str, float, str]]:
    """Accounts that cover what was done where batches were not drawn by Poisson sampling."""
    bounds = []
    if claim["mechanism.sampling"] == "shuffled":
        epochs = claim["mechanism.epochs"] or steps * (sample_rate(claim) or 1)
        times = max(1, math.ceil(epochs - 1e-9))
        text = (
            f"each record in one batch an epoch, {times:,} epochs: holds for any shuffle, zero-out neighbours"
        )
        bounds.append(("each_once", dp_sgd_epsilon(sigma, 1, times, delta), text))
    text = f"every record in all {steps:,} steps: holds however batches are drawn"
    return [*bounds, ("full_participation", dp_sgd_epsilon(sigma, 1, steps, delta), text)]


def _mismatch(claim: Claim) -> list[Finding]:
    """An account for another way of drawing batches, where the numbers cannot be recomputed."""
    sampling, accounted = claim["mechanism.sampling"], claim["mechanism.accounted_as"]
    if accounted != "poisson" or sampling not in ("shuffled", "fixed-size"):
        return []
    text = (
        f"The training used {WORDED[sampling]}; the account is for Poisson sampling and does not cover that."
    )
    return [claimed(claim, "mechanism.sampling", REJECTED, text)]


def _not_poisson_judged(claim: Claim, poisson: float, bound: float) -> list[Finding]:
    item, epsilon, sampling = "guarantee.epsilon", claim["guarantee.epsilon"], claim["mechanism.sampling"]
    if epsilon is None:
        return []
    reach = epsilon * (1 + ROUNDING)
    if reach >= bound:
        return [claimed(claim, item, AGREES, f"An account that covers what was done gives {brief(bound)}.")]
    accounted = WORDED[claim["mechanism.accounted_as"] or "poisson"]
    text = (
        f"The training used {WORDED[sampling]}, the account is for {accounted}. An account that covers what was done "
        f"gives {brief(bound)}; {brief(poisson)} is what Poisson sampling would have given. Nothing here supports "
        "the claimed epsilon for this training, though nothing computed here refutes it either."
    )
    found = [claimed(claim, "mechanism.sampling", REJECTED, text)]
    if reach < poisson:
        text = f"Even Poisson sampling would give {brief(poisson)} by PLD: more than claimed."
        return [*found, claimed(claim, item, WRONG, text)]
    text = f"Poisson sampling would give {brief(poisson)} by PLD, but the batches were drawn in another way."
    return [*found, claimed(claim, item, NOTE, text)]


def _judged(claim: Claim, rdp: float | None, pld: float) -> list[Finding]:
    item, epsilon = "guarantee.epsilon", claim["guarantee.epsilon"]
    if epsilon is None:
        return []
    reach = epsilon * (1 + ROUNDING)
    if reach < pld:
        text = (
            f"The parameters give {brief(pld)} by PLD, the tightest account here: more than claimed. The claim does "
            "not follow from its own numbers."
        )
        return [claimed(claim, item, WRONG, text)]
    if claim["guarantee.accountant"] in ("rdp", "moments") and rdp is not None and reach < rdp:
        text = (
            f"The accountant named gives {brief(rdp)}, more than claimed. PLD gives {brief(pld)}, so the number can "
            "hold, but it comes from another account than the one named."
        )
        return [claimed(claim, item, REJECTED, text)]
    if epsilon > 1.1 * max(pld, rdp or 0):
        text = f"The parameters give less, {brief(pld)} by PLD: the claim holds with room."
        return [claimed(claim, item, NOTE, text)]
    return [claimed(claim, item, AGREES, f"The parameters give {brief(pld)} by PLD.")]


def brief(epsilon: float) -> str:
    """Return an epsilon to four digits, or "infinite"."""
    return shown(float(f"{epsilon:.4g}"))


def _number(name: str, epsilon: float, text: str, accountant: str) -> Finding:
    return Finding(f"guarantee.{name}", COMPUTED, text, brief(epsilon), f"recomputed ({accountant})")
