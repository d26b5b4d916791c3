"""The account of a claim done again, against published oracles, closed forms and a numerical integral."""

import math
import time
import tomllib
from functools import lru_cache

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dprepro.audits import audit_card_accounts
from dprepro.audits.audit_card import check
from dprepro.audits.audit_card_accounts import Training, _pld_replace_one
from dprepro.audits.audit_card_claim import Claim, parse_claim
from dprepro.mechanisms.accounting import dp_sgd_epsilon

# noise_multiplier 1, sample_rate .02, 250 steps, delta 1e-5 by dp_accounting 0.6.0 itself.
RDP, PLD = 2.401848, 2.032361
USUAL = {"kind": "dp-sgd", "sampling": "poisson", "accounted_as": "poisson", "noise_multiplier": 1.0,
         "sample_rate": 0.02, "steps": 250}  # fmt: skip


@pytest.fixture(autouse=True)
def _each_account_once(monkeypatch):
    monkeypatch.setattr(audit_card_accounts, "dp_sgd_epsilon", CACHED)


CACHED = lru_cache(dp_sgd_epsilon)


def claim(epsilon=None, delta=1e-5, neighbours="add-or-remove", accountant="pld", **mechanism):
    guarantee = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "accountant": accountant}
    tables = {"guarantee": guarantee, "mechanism": {**USUAL, **mechanism}}
    values = {f"{table}.{key}": value for table, keys in tables.items() for key, value in keys.items()}
    return Claim({key: value for key, value in values.items() if value is not None}, "test.toml", "")


def finding(claim, item):
    (one,) = [found for found in check(claim) if found.item == item]
    return one


def gaussian(sigma, steps, delta=1e-5):
    """Epsilon of `steps` releases of sensitivity 1 with noise sigma: Balle and Wang (2018), Theorem 8, solved."""
    mu = math.sqrt(steps) / sigma

    def excess(eps):
        return (
            stats.norm.cdf(mu / 2 - eps / mu) - math.exp(eps + stats.norm.logcdf(-mu / 2 - eps / mu)) - delta
        )

    return optimize.brentq(excess, 0, 700)


class TestRecomputed:
    def test_both_accounts_stand_beside_the_claimed_number(self):
        found = claim(2.05)
        assert float(finding(found, "guarantee.rdp").value) == pytest.approx(RDP, abs=2e-3)
        assert float(finding(found, "guarantee.pld").value) == pytest.approx(PLD, abs=2e-3)
        assert finding(found, "guarantee.pld").source == "recomputed (PLD)"
        assert finding(found, "guarantee.epsilon").status == "agrees"
        assert finding(found, "guarantee.epsilon").source == "claimed"

    @pytest.mark.parametrize(
        ("epsilon", "accountant", "status"),
        [
            (1.0, "pld", "wrong"),
            (0.0, "other", "wrong"),
            (0.98 * PLD, "pld", "wrong"),
            (0.995 * PLD, "pld", "agrees"),  # rounding
            (PLD, "prv", "agrees"),
            (PLD, "rdp", "rejected"),  # the accountant named gives another number
            (PLD, "moments", "rejected"),
            (2.41, "rdp", "agrees"),
            (8.0, "rdp", "note"),  # more than needed
            (1e300, "rdp", "note"),
        ],
    )
    def test_the_claimed_epsilon_against_them(self, epsilon, accountant, status):
        assert finding(claim(epsilon, accountant=accountant), "guarantee.epsilon").status == status

    def test_the_parameters_in_another_form(self):
        given = claim(2.05, sample_rate=None, batch_size=256, dataset_size=12800, steps=None, epochs=5)
        assert finding(given, "guarantee.pld").value == finding(claim(2.05), "guarantee.pld").value

    def test_full_batches_are_the_gaussian_mechanism(self):
        given = claim(9.0, sampling="full-batch", sample_rate=None, steps=4, noise_multiplier=2.0)
        assert float(finding(given, "guarantee.pld").value) == pytest.approx(gaussian(2.0, 4), rel=2e-3)
        assert finding(given, "guarantee.pld").text == "full batches, add-or-remove"

    def test_groups_clipped_apart_need_more_noise(self):
        # The gradient of one unit has norm up to sqrt(k) C.
        given = claim(9.0, sampling="full-batch", sample_rate=None, steps=1, clipping_groups=4)
        assert float(finding(given, "guarantee.pld").value) == pytest.approx(gaussian(0.5, 1), rel=2e-3)
        assert finding(given, "mechanism.clipping_groups").status == "note"

    def test_unknown_sampling_is_said(self):
        assert finding(claim(2.05, sampling=None), "guarantee.pld").text.startswith(
            "if batches were drawn by"
        )
        assert finding(claim(2.05, sampling=None), "mechanism.sampling").status == "missing"

    def test_the_central_limit_is_no_bound(self):
        assert finding(claim(2.05, accountant="gdp-clt"), "guarantee.accountant").status == "rejected"

    def test_another_mechanism_is_taken_as_it_is(self):
        given = claim(2.05, kind="other")
        assert finding(given, "mechanism.kind").status == "note"
        assert not [one for one in check(given) if one.item == "guarantee.pld"]


class TestReplaceOne:
    def test_one_step_against_an_integral(self):
        sigma, rate, delta = 1.0, 0.1, 1e-3

        def density(y, mean):
            return (1 - rate) * stats.norm.pdf(y, 0, sigma) + rate * stats.norm.pdf(y, mean, sigma)

        grid = np.linspace(-12, 12, 200_001)
        one, other = density(grid, 1.0), density(grid, -1.0)

        def excess(eps):
            gap = one - math.exp(eps) * other
            return integrate.trapezoid(np.maximum(gap, 0), grid) - delta

        exact = optimize.brentq(excess, 0, 5)
        assert _pld_replace_one(Training(sigma, rate, 1, delta, 1)) == pytest.approx(exact, abs=2e-3)
        # Removing the record instead is less.
        assert dp_sgd_epsilon(sigma, rate, 1, delta) < exact - 0.1

    def test_it_is_what_the_claim_is_held_against(self):
        item = "guarantee.epsilon"
        assert finding(claim(2.05), item).status == "agrees"
        assert finding(claim(2.05, neighbours="replace-one"), item).status == "wrong"
        assert finding(claim(2.95, neighbours="replace-one"), item).status == "agrees"
        assert finding(claim(2.05, neighbours="zero-out"), item).status == "agrees"

    def test_full_batches_have_twice_the_sensitivity(self):
        given = claim(9.0, neighbours="replace-one", sampling="full-batch", sample_rate=None, steps=1)
        assert float(finding(given, "guarantee.pld").value) == pytest.approx(gaussian(0.5, 1), rel=2e-3)

    def test_little_noise_costs_no_memory(self):
        start = time.perf_counter()
        assert _pld_replace_one(Training(0.05, 0.02, 1000, 1e-5, 20)) > 1000
        assert time.perf_counter() - start < 30


class TestOtherSampling:
    def test_shuffled_epochs_are_not_covered_by_the_poisson_account(self):
        given = claim(2.05, sampling="shuffled")
        each_once, always = (
            finding(given, "guarantee.each_once"),
            finding(given, "guarantee.full_participation"),
        )
        assert float(each_once.value) == pytest.approx(
            gaussian(1.0, 5), rel=2e-3
        )  # 250 steps of .02: 5 epochs
        assert float(always.value) == pytest.approx(gaussian(1.0, 250), rel=2e-3)
        sampling = finding(given, "mechanism.sampling")
        assert sampling.status == "rejected"
        assert "accounted for Poisson sampling, which does not cover that" in sampling.text
        assert each_once.value in sampling.text
        assert finding(given, "guarantee.epsilon").status == "note"

    def test_they_are_covered_by_a_larger_claim(self):
        assert finding(claim(11.5, sampling="shuffled"), "guarantee.epsilon").status == "agrees"
        assert finding(claim(11.5, sampling="shuffled"), "mechanism.sampling").status == "stated"

    def test_without_sampling_the_account_is_for_a_record_that_is_zeroed_out(self):
        item = "guarantee.neighbours"
        added = finding(claim(11.5, sampling="shuffled"), item)
        assert added.status == "rejected"
        assert "is for a record that is zeroed out" in added.text
        assert finding(claim(11.5, sampling="shuffled", neighbours="zero-out"), item).status == "stated"
        assert finding(claim(30.0, sampling="shuffled", neighbours="replace-one"), item).status == "stated"
        assert finding(claim(2.05), item).status == "stated", "Poisson sampling covers both"

    def test_a_claim_below_even_the_poisson_account_is_wrong(self):
        given = claim(1.0, sampling="shuffled")
        assert finding(given, "guarantee.epsilon").status == "wrong"
        assert finding(given, "mechanism.sampling").status == "rejected"

    def test_replacing_under_shuffling(self):
        given = claim(2.95, sampling="shuffled", neighbours="replace-one")
        assert float(finding(given, "guarantee.each_once").value) == pytest.approx(gaussian(0.5, 5), rel=2e-3)

    def test_batches_of_fixed_size_have_no_account_by_epochs(self):
        items = [one.item for one in check(claim(2.05, sampling="fixed-size"))]
        assert "guarantee.full_participation" in items
        assert "guarantee.each_once" not in items

    def test_the_mismatch_is_named_where_nothing_can_be_recomputed(self):
        for missing in ({"delta": None}, {"noise_multiplier": None}, {"epsilon": None}):
            given = claim(**{"epsilon": 2.05, **missing}, sampling="shuffled")
            assert finding(given, "mechanism.sampling").status == "rejected"
        given = claim(2.05, delta=None, sampling="shuffled", accounted_as="shuffled")
        assert finding(given, "mechanism.sampling").status == "stated"

    def test_part_of_an_epoch_counts_as_one(self):
        given = claim(2.05, sampling="shuffled", steps=10)
        assert float(finding(given, "guarantee.each_once").value) == pytest.approx(gaussian(1.0, 1), rel=2e-3)


class TestExtremes:
    def test_no_noise_is_infinite_in_words(self):
        given = claim(2.05, noise_multiplier=0.0)
        assert finding(given, "mechanism.noise_multiplier").status == "wrong"
        assert (
            "epsilon is infinite at every delta below 1" in finding(given, "mechanism.noise_multiplier").text
        )

    def test_no_noise_without_the_rest_too(self):
        given = Claim({"mechanism.noise_multiplier": 0.0}, "test.toml", "")
        assert finding(given, "mechanism.noise_multiplier").status == "wrong"

    @pytest.mark.parametrize(
        "given",
        [
            claim(2.05, noise_multiplier=1e-9),
            claim(2.05, noise_multiplier=1e-9, neighbours="replace-one"),
        ],
    )
    def test_a_claim_is_not_called_wrong_where_the_accounts_have_no_answer(self, given):
        assert finding(given, "guarantee.epsilon").status == "rejected"
        assert "No account here gives a finite epsilon" in finding(given, "guarantee.epsilon").text
        assert finding(given, "guarantee.pld").value == "infinite"

    def test_very_many_steps_take_no_minutes(self):
        start = time.perf_counter()
        given = claim(2.05, steps=10**8)
        assert finding(given, "guarantee.epsilon").status == "rejected"
        assert "loose" in finding(given, "guarantee.epsilon").text
        assert "more than 1,000,000" in finding(given, "guarantee.pld").text
        rare = claim(2.05, sample_rate=1e-9, steps=10**12)
        assert finding(rare, "guarantee.epsilon").status == "note"  # the Renyi account gives .17
        replaced = claim(2.05, steps=10**8, neighbours="replace-one")
        assert finding(replaced, "guarantee.epsilon").status == "rejected"
        assert time.perf_counter() - start < 30

    def test_nor_where_they_are_loose(self, monkeypatch):
        loose = {"rdp": 4.0, "pld": 5.0}
        monkeypatch.setattr(audit_card_accounts, "dp_sgd_epsilon", lambda *run: loose[(*run, "pld")[4]])
        assert finding(claim(3.0), "guarantee.epsilon").status == "rejected"
        assert "loose" in finding(claim(3.0), "guarantee.epsilon").text
        assert finding(claim(4.0), "guarantee.epsilon").status == "agrees"

    def test_much_noise(self):
        assert float(finding(claim(2.05, noise_multiplier=1e6), "guarantee.pld").value) < 1e-3

    def test_delta_zero(self):
        assert finding(claim(2.05, delta=0.0), "guarantee.delta").status == "wrong"


class TestAgreement:
    def test_delta_is_below_one_in_the_data_set(self):
        assert finding(claim(2.05, dataset_size=99_999), "guarantee.delta").status == "stated"
        at = finding(claim(2.05, dataset_size=100_000), "guarantee.delta")
        assert at.status == "rejected"
        assert "N delta = 1 records" in at.text

    @pytest.mark.parametrize(
        ("mechanism", "item"),
        [
            ({"batch_size": 256, "dataset_size": 25600}, "mechanism.sample_rate"),
            ({"batch_size": 300, "dataset_size": 200}, "mechanism.batch_size"),
            ({"epochs": 10}, "mechanism.steps"),
            ({"epochs": 2.0}, "mechanism.steps"),
            ({"sampling": "full-batch"}, "mechanism.sample_rate"),
        ],
    )
    def test_keys_that_determine_one_another(self, mechanism, item):
        assert finding(claim(2.05, **mechanism), item).status == "wrong"

    @pytest.mark.parametrize(
        "mechanism",
        [
            {"batch_size": 256, "dataset_size": 12800},
            {"batch_size": 256, "dataset_size": 12900},  # less than one per cent apart
            {"epochs": 5},
            {"sample_rate": 0.03, "steps": 34, "epochs": 1.0},  # the last batch of an epoch is smaller
            {"sample_rate": 0.03, "steps": 330, "epochs": 10.0},  # or dropped
            {"sampling": "full-batch", "sample_rate": 1.0},
        ],
    )
    def test_rounding_is_no_contradiction(self, mechanism):
        statuses = {one.item: one.status for one in check(claim(300.0, **mechanism))}
        assert "wrong" not in statuses.values()

    def test_the_lesson_of_the_template_parses_to_nothing_recomputed(self):
        assert all(one.status == "missing" for one in check(parse_claim("")))
        assert tomllib.loads("") == {}
