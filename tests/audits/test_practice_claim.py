"""The claims to practise on: reproducible, readable as claims, and with the faults that they are drawn with."""

import math
import tomllib
from functools import cache

import pytest

from dprepro.audits import audit_card_accounts
from dprepro.audits import practice_claim as module
from dprepro.audits.audit_card import check
from dprepro.audits.audit_card_claim import parse_claim
from dprepro.audits.practice_claim import account_of, practice_claim
from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.stats.one_run import epsilon_one_run

SEEDS = (1, 3, 4, 9, 15)  # every fault, and each fault's absence
ACCOUNTS = ("rdp", "pld", "one-epoch", "gdp-clt")


@pytest.fixture(scope="module", autouse=True)
def accounted_once():
    """The claim and the card that judges it ask for the same accounts, of a second each."""
    known = cache(dp_sgd_epsilon)

    def once(sigma, rate, steps, delta, accountant="pld"):
        return known(sigma, rate, steps, delta, accountant)

    with pytest.MonkeyPatch.context() as patch:
        for asker in (module, audit_card_accounts):
            patch.setattr(asker, "dp_sgd_epsilon", once)
        yield


def tables(seed):
    return tomllib.loads(practice_claim(seed))


@cache
def findings(seed):
    return {finding.item: finding.status for finding in check(parse_claim(practice_claim(seed)))}


@cache
def accounts(seed):
    claim = tables(seed)
    sigma, delta = claim["mechanism"]["noise_multiplier"], claim["guarantee"]["delta"]
    batches = claim["mechanism"]["dataset_size"] // claim["mechanism"]["batch_size"]
    epochs = claim["mechanism"]["epochs"]
    return {account: account_of(account, sigma, batches, epochs, delta) for account in ACCOUNTS}


def test_a_seed_draws_one_claim_and_each_its_own():
    texts = {seed: practice_claim(seed) for seed in SEEDS}
    assert len(set(texts.values())) == len(SEEDS)
    assert practice_claim.__wrapped__(4) == texts[4]


@pytest.mark.parametrize("seed", [-1, 0.5, "a"])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(ValueError, match="seed"):
        practice_claim(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_epsilon_is_one_account_rounded_up_and_no_other(seed):
    claim = tables(seed)
    epsilon, named = claim["guarantee"]["epsilon"], claim["guarantee"]["accountant"]
    rounded = {account: math.ceil(100 * value) / 100 for account, value in accounts(seed).items()}
    [origin] = [account for account, value in rounded.items() if value == epsilon]
    assert named == ("pld" if origin == "one-epoch" else origin)
    # The claims whose account bounds nothing are those that the card finds too small.
    assert (epsilon < rounded["pld"]) == (origin in ("one-epoch", "gdp-clt"))
    assert (findings(seed)["guarantee.epsilon"] == "wrong") == (origin in ("one-epoch", "gdp-clt"))


def test_accounts_agree_with_dp_accounting():
    from dp_accounting import (
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
        get_epsilon_gaussian,
    )
    from dp_accounting.pld import PLDAccountant

    step = PoissonSampledDpEvent(0.01, GaussianDpEvent(0.8))

    first_epoch = PLDAccountant().compose(SelfComposedDpEvent(step, 100)).get_epsilon(1e-6)
    assert account_of("one-epoch", 0.8, 100, 3, 1e-6) == pytest.approx(first_epoch, rel=2e-3)
    assert account_of("rdp", 0.8, 100, 3, 1e-6) > account_of("pld", 0.8, 100, 3, 1e-6) > first_epoch
    # Theorem 5 of Bu et al., worked by hand: q sqrt(T) = .01 sqrt(300) = .1732051, e^(1/.64) - 1 = 3.7707331.
    mu = 0.1732051 * math.sqrt(3.7707331)
    assert account_of("gdp-clt", 0.8, 100, 3, 1e-6) == pytest.approx(
        get_epsilon_gaussian(1 / mu, 1e-6), rel=1e-5
    )


def test_every_fault_is_drawn_and_missed_by_others():
    drawn = [tables(seed) for seed in SEEDS]
    assert {claim["mechanism"]["sampling"] for claim in drawn} == {"poisson", "shuffled"}
    small = [claim["guarantee"]["delta"] < 1 / claim["mechanism"]["dataset_size"] for claim in drawn]
    assert set(small) == {True, False}
    assert {claim["membership"]["canaries"] == ["arbitrary"] for claim in drawn} == {True, False}
    open_scores = [claim["confidences"].get("examined", True) for claim in drawn]
    assert set(open_scores) == {True, False}
    bounds = [findings(seed)["membership.bound"] for seed in SEEDS]
    assert set(bounds) == {"wrong", "computed"}


@pytest.mark.parametrize("account", ["prv", "gdp", ""])
def test_other_accounts_are_refused(account):
    with pytest.raises(ValueError, match="account must be"):
        account_of(account, 1.0, 100, 3, 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_facts_are_missing_and_the_faults_are_two_to_four(seed):
    claim, found = tables(seed), findings(seed)
    assert list(found.values()).count("missing") == 2
    mechanism = claim["mechanism"]
    faults = [
        claim["guarantee"]["epsilon"] < accounts(seed)["pld"],
        claim["guarantee"]["delta"] >= 1 / mechanism["dataset_size"],
        mechanism["sampling"] == "shuffled",
        claim["membership"]["canaries"] == ["arbitrary"],
        claim["confidences"].get("examined") is False,
    ]
    assert 2 <= sum(faults) <= 4
    assert found["guarantee.delta"] == ("rejected" if faults[1] else "stated")
    assert found["mechanism.sampling"] == ("rejected" if faults[2] else "stated")
    assert found["membership.canaries"] == ("rejected" if faults[3] else "stated")
    assert (found.get("confidences.examined") == "rejected") == faults[4]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_claim_is_wrong_if_its_account_or_its_audit_says_so(seed):
    claim = tables(seed)
    epsilon, test = claim["guarantee"]["epsilon"], claim["membership"]
    counts = test["number_of_canaries"], test["guesses"], test["correct_guesses"]
    refuted = epsilon_one_run(*counts, claim["guarantee"]["delta"], 1 - test["confidence"]) > epsilon
    wrong = refuted or epsilon < accounts(seed)["pld"]
    assert ("wrong" in findings(seed).values()) == wrong


def test_the_data_set_is_a_whole_number_of_batches():
    for seed in SEEDS:
        mechanism = tables(seed)["mechanism"]
        assert mechanism["dataset_size"] % mechanism["batch_size"] == 0
