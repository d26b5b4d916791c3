"""The account behind a claimed epsilon, done again, beside what the claim says.

Abadi et al. (2016, arXiv 1607.00133) account for batches drawn by Poisson sampling. Most code shuffles instead, and
the account does not carry over: Chua et al., "How Private are DP-SGD Implementations?" (2024, arXiv 2403.17673).
What holds for any shuffle is the account of each record in one batch an epoch: given the order of the records, only
that batch depends on a record that is zeroed out, so an epoch is one Gaussian release and E epochs are E of them. To
add or remove the record moves others from batch to batch as well, which this does not cover.

Accounts are upper bounds. A claim below the PLD account is called wrong only where that account is tight, which shows
in its being no larger than the Renyi account; elsewhere the claim is not supported.
"""

import math
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
from dprepro.mechanisms.accounting import dp_sgd_epsilon

_WORDED = {
    "poisson": "Poisson sampling",
    "shuffled": "shuffled epochs",
    "fixed-size": "batches of fixed size",
    "full-batch": "full batches",
}
_RENYI = ("rdp", "moments")
_LONG = 10**6  # steps; beyond, the PLD account of sampled batches takes minutes
_OTHER = ("shuffled", "fixed-size")  # ways of drawing batches that the Poisson account does not cover


class Training(NamedTuple):
    """What an account needs."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float
    epochs: int  # rounded up


class _Accounts(NamedTuple):
    rdp: float | None  # None where dp_accounting has none
    pld: float
    tight: bool  # whether the PLD account is close to the truth

    @property
    def best(self) -> float:
        return self.pld if self.rdp is None else min(self.pld, self.rdp)

    def __str__(self) -> str:
        """Return the best bound with the name of its account."""
        return f"{brief(self.best)} by {'PLD' if self.best == self.pld else 'RDP'}"


def account_findings(claim: Claim, training: Training) -> list[Finding]:
    """Recompute epsilon by every account that applies and lay the claimed one beside.

    Parameters
    ----------
    claim : Claim
    training : Training
        noise_multiplier > 0, delta > 0.

    Returns
    -------
    list of Finding
        The recomputed numbers, then what they say about the claimed epsilon and the sampling.
    """
    sampling, replace = claim["mechanism.sampling"], claim["guarantee.neighbours"] == "replace-one"
    accounts = _poisson(training, replace)
    way = "full batches" if training.sample_rate == 1 else "Poisson sampling"
    given = f"if batches were drawn by {way}" if sampling is None else way
    text = f"{given}, {'replace-one' if replace else 'add-or-remove'}"
    found = [] if accounts.rdp is None else [_number("rdp", accounts.rdp, text, "RDP")]
    if training.steps > _LONG and training.sample_rate < 1:
        text += f", counting every record in every step (more than {_LONG:,} steps)"
    found.append(_number("pld", accounts.pld, text, "PLD"))
    if sampling not in _OTHER or training.sample_rate == 1:
        return found + _judged(claim, accounts)
    bounds = _not_poisson(sampling, training, replace)
    found += [_number(name, epsilon, text, "PLD") for name, epsilon, text in bounds]
    return found + _judged_not_poisson(claim, accounts, min(epsilon for _, epsilon, _ in bounds))


def mismatch(claim: Claim) -> list[Finding]:
    """Return a finding if the account is for another way of drawing batches, where nothing can be recomputed."""
    sampling = claim["mechanism.sampling"]
    if claim["mechanism.accounted_as"] != "poisson" or sampling not in _OTHER:
        return []
    text = (
        f"The training used {_WORDED[sampling]}; the account is for Poisson sampling and does not cover that."
    )
    return [claimed(claim, "mechanism.sampling", REJECTED, text)]


def _poisson(training: Training, replace: bool) -> _Accounts:
    sigma, rate, steps, delta, _ = training
    pld_rate = rate if steps <= _LONG else 1.0  # larger batches never leak less, so this is a bound too
    rdp, pld = dp_sgd_epsilon(sigma, rate, steps, delta, "rdp"), dp_sgd_epsilon(sigma, pld_rate, steps, delta)
    tight = pld <= rdp and math.isfinite(pld)
    if not replace:
        return _Accounts(rdp, pld, tight)
    if pld_rate == 1:  # the sum moves by 2C, as with half the noise
        unsampled = dp_sgd_epsilon(sigma / 2, 1, steps, delta, "rdp") if rate == 1 else None
        return _Accounts(unsampled, dp_sgd_epsilon(sigma / 2, 1, steps, delta), tight)
    return _Accounts(None, _pld_replace_one(training), tight)  # dp_accounting has no Renyi account of this


def _pld_replace_one(training: Training) -> float:
    """Upper bound on epsilon where a record is replaced: its gradient turns from C to -C in the same batches."""
    sigma, rate, steps, delta, _ = training
    unsampled = dp_sgd_epsilon(sigma / 2, 1, steps, delta)
    if unsampled == 0 or math.isinf(unsampled):
        return unsampled
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    # Cells of the loss distribution in proportion to a bound at hand, so that little noise costs no gigabytes.
    half_noise = dp_sgd_epsilon(sigma / 2, rate, steps, delta)
    accountant = PLDAccountant(
        dp_accounting.NeighboringRelation.REPLACE_ONE,
        value_discretization_interval=max(1e-4, half_noise / 1e5),
    )
    return min(unsampled, float(accountant.compose(event, steps).get_epsilon(delta)))


def _not_poisson(sampling: str, training: Training, replace: bool) -> list[tuple[str, float, str]]:
    """Accounts that cover what was done: name, epsilon and what it holds for."""
    sigma, _, steps, delta, epochs = training
    sigma, near = (sigma / 2, "replace-one") if replace else (sigma, "zero-out")
    bounds = []
    if sampling == "shuffled":
        text = (
            f"each record in one batch an epoch, {epochs:,} epochs: holds for any shuffle, {near} neighbours"
        )
        bounds.append(("each_once", dp_sgd_epsilon(sigma, 1, epochs, delta), text))
    text = f"every record in all {steps:,} steps: holds however batches are drawn, {near} neighbours"
    return [*bounds, ("full_participation", dp_sgd_epsilon(sigma, 1, steps, delta), text)]


def _judged(claim: Claim, accounts: _Accounts) -> list[Finding]:
    item, epsilon = "guarantee.epsilon", claim["guarantee.epsilon"]
    if epsilon is None:
        return []
    reach = epsilon * (1 + ROUNDING)
    if math.isinf(accounts.best):
        text = "No account here gives a finite epsilon for so little noise: the claim is not shown."
        return [claimed(claim, item, REJECTED, text)]
    if reach < accounts.best:
        return [_refuted(claim, accounts, f"The parameters give {accounts}, more than claimed.")]
    if claim["guarantee.accountant"] in _RENYI and accounts.rdp and reach < accounts.rdp:
        text = (
            f"The accountant named gives {brief(accounts.rdp)}, more than claimed. PLD gives {brief(accounts.pld)}, "
            "so the number can hold, but it comes from another account than the one named."
        )
        return [claimed(claim, item, REJECTED, text)]
    named = accounts.rdp if claim["guarantee.accountant"] in _RENYI and accounts.rdp else accounts.best
    if epsilon > 1.1 * named:
        return [
            claimed(claim, item, NOTE, f"The parameters give less, {accounts}: the claim holds with room.")
        ]
    return [claimed(claim, item, AGREES, f"The parameters give {accounts}.")]


def _judged_not_poisson(claim: Claim, accounts: _Accounts, bound: float) -> list[Finding]:
    item, epsilon = "guarantee.epsilon", claim["guarantee.epsilon"]
    if epsilon is None:
        return mismatch(claim)
    reach = epsilon * (1 + ROUNDING)
    if reach >= bound:
        found = [claimed(claim, item, AGREES, f"An account that covers what was done gives {brief(bound)}.")]
        if claim["guarantee.neighbours"] == "add-or-remove":
            text = (
                "The account that covers what was done is for a record that is zeroed out. To add or remove one "
                "moves others from batch to batch, which it does not cover: zero-out is what can be claimed."
            )
            found.append(claimed(claim, "guarantee.neighbours", REJECTED, text))
        return found
    sampling, assumed = claim["mechanism.sampling"], claim["mechanism.accounted_as"] or "poisson"
    other = "" if assumed == sampling else f" and accounted for {_WORDED[assumed]}, which does not cover that"
    text = (
        f"The training used {_WORDED[sampling]}{other}. An account that holds for what was done gives "
        f"{brief(bound)}; {accounts} is what Poisson sampling would have given. The claimed epsilon is not shown for "
        "this training."
    )
    found = [claimed(claim, "mechanism.sampling", REJECTED, text)]
    if reach < accounts.best:
        text = f"Even Poisson sampling would give {accounts}, more than claimed."
        return [*found, _refuted(claim, accounts, text)]
    text = f"Poisson sampling would give {accounts}, but the batches were drawn in another way."
    return [*found, claimed(claim, item, NOTE, text)]


def _refuted(claim: Claim, accounts: _Accounts, text: str) -> Finding:
    if accounts.tight:
        return claimed(
            claim, "guarantee.epsilon", WRONG, f"{text} The claim does not follow from its own numbers."
        )
    text += (
        " The accounts here are loose for such parameters: the claim is not shown, and not refuted either."
    )
    return claimed(claim, "guarantee.epsilon", REJECTED, text)


def _number(name: str, epsilon: float, text: str, accountant: str) -> Finding:
    return Finding(f"guarantee.{name}", COMPUTED, text, brief(epsilon), f"recomputed ({accountant})")
