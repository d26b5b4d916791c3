"""The evidence of a claim: bounds from counts against published oracles, and what evidence is none."""

import numpy as np
import pytest

from dprepro.audits.audit_card import check
from dprepro.audits.audit_card_claim import Claim

ONE_RUN = {"canaries": ["new-token"], "design": "one-run", "number_of_canaries": 1000, "trainings": 1,
           "confidence": 0.95, "guesses": 100, "correct_guesses": 90}  # fmt: skip
MANY = {"canaries": ["most-extractable"], "design": "many-trainings", "number_of_canaries": 1, "trainings": 2000,
        "confidence": 0.95, "threshold": "held-out", "trials_in": 1000, "true_positives": 900, "trials_out": 1000,
        "false_positives": 100}  # fmt: skip


def claim(test, epsilon=4.0, delta=1e-5, **tables):
    tables = {"guarantee": {"epsilon": epsilon, "delta": delta}, "membership": test, **tables}
    values = {f"{table}.{key}": value for table, keys in tables.items() for key, value in keys.items()}
    return Claim({key: value for key, value in values.items() if value is not None}, "test.toml", "")


def finding(claim, item):
    found = [one for one in check(claim) if one.item == item]
    assert len(found) <= 1
    return found[0] if found else None


class TestBounds:
    def test_one_run(self):  # Steinke et al.'s own code: 1.6261436787
        bound = finding(claim(ONE_RUN), "membership.bound")
        assert bound.value == "1.626"
        assert bound.source == "audited (from the counts)"
        assert bound.status == "computed"
        assert "does not confirm it" in bound.text

    def test_many_trainings(self):  # exact limits: 1.9896949462833384
        assert finding(claim(MANY), "membership.bound").value == "1.99"

    def test_a_bound_above_the_claim_refutes_it(self):
        for test, low in ((ONE_RUN, 1.626), (MANY, 1.989)):
            assert finding(claim(test, low - 0.01), "membership.bound").status == "wrong"
            assert "refute the claim" in finding(claim(test, low - 0.01), "membership.bound").text
            assert finding(claim(test, low + 0.01), "membership.bound").status == "computed"

    def test_a_true_claim_is_rarely_refuted(self):
        # Randomised response with epsilon 1, canary in or out: an audit at confidence .9 errs in at most .1 of runs.
        rng, epsilon, n, runs = np.random.default_rng(8), 1.0, 200, 300
        share = 1 / (1 + np.exp(-epsilon))
        many = {**MANY, "trials_in": n, "trials_out": n, "trainings": 2 * n, "confidence": 0.9}
        refuted = 0
        for true, false in zip(rng.binomial(n, share, runs), rng.binomial(n, 1 - share, runs), strict=True):
            counts = {"true_positives": int(true), "false_positives": int(false)}
            refuted += finding(claim({**many, **counts}, epsilon, 0.0), "membership.bound").status == "wrong"
        assert refuted <= 46  # P[Bin(300, .1) > 46] < .002

    def test_what_a_perfect_attack_could_have_shown(self):
        # 100 right of 100 guesses show 3.49 at most: a claim of 4 cannot fall.
        assert "could not have refuted" in finding(claim(ONE_RUN, 4.0), "membership.bound").text
        assert "could not have refuted" not in finding(claim(ONE_RUN, 3.0), "membership.bound").text
        # 1,000 of 1,000 against 0 of 1,000: 5.6006.
        assert "5.601" in finding(claim(MANY, 6.0), "membership.bound").text

    @pytest.mark.parametrize(
        "lacking", ["design", "confidence", "guesses", "correct_guesses", "number_of_canaries"]
    )
    def test_no_bound_without_its_parts(self, lacking):
        given = claim({**ONE_RUN, lacking: None})
        assert finding(given, "membership.bound") is None
        assert finding(given, f"membership.{lacking}").status == "missing"

    def test_no_bound_without_delta(self):
        assert finding(claim(ONE_RUN, delta=None), "membership.bound") is None

    def test_no_guess_shows_nothing(self):
        assert (
            finding(claim({**ONE_RUN, "guesses": 0, "correct_guesses": 0}), "membership.bound").value == "0"
        )


class TestReported:
    @pytest.mark.parametrize(
        ("reported", "status"), [(1.5, "agrees"), (1.626, "agrees"), (1.7, "wrong"), (4.5, "wrong")]
    )
    def test_against_the_counts(self, reported, status):
        given = claim({**ONE_RUN, "epsilon_low": reported})
        assert finding(given, "membership.epsilon_low").status == status

    def test_above_the_claim_without_counts(self):
        test = {"canaries": ["new-token"], "epsilon_low": 5.0}
        assert finding(claim(test), "membership.epsilon_low").status == "wrong"
        assert finding(claim({**test, "epsilon_low": 3.0}), "membership.epsilon_low").status == "stated"

    def test_by_the_gaussian_conversion(self):
        # Limits .8798 and .1202: mu = 2.35, at delta 1e-5 more than 10.
        given = claim({**MANY, "epsilon_low": 9.0}, 20.0)
        assert finding(given, "membership.epsilon_low").status == "rejected"
        assert "if the release were Gaussian" in finding(given, "membership.epsilon_low").text

    def test_rates_against_counts(self):
        given = claim({**MANY, "tpr": 0.9, "fpr": 0.2})
        assert finding(given, "membership.tpr").status == "stated"
        assert finding(given, "membership.fpr").status == "wrong"


class TestNoEvidence:
    @pytest.mark.parametrize("canaries", [["arbitrary"], ["members"], ["arbitrary", "members"], ["none"]])
    def test_canaries(self, canaries):
        assert finding(claim({**ONE_RUN, "canaries": canaries}), "membership.canaries").status == "rejected"

    @pytest.mark.parametrize("canaries", [["new-token"], ["arbitrary", "most-extractable"]])
    def test_canaries_that_count(self, canaries):
        assert finding(claim({**ONE_RUN, "canaries": canaries}), "membership.canaries").status == "stated"

    def test_arbitrary_canaries_can_refute_all_the_same(self):
        assert (
            finding(claim({**ONE_RUN, "canaries": ["arbitrary"]}, 1.0), "membership.bound").status == "wrong"
        )

    def test_without_a_test_nothing_else_is_asked(self):
        missing = [one.item for one in check(claim({"canaries": ["none"]})) if one.status == "missing"]
        assert not [item for item in missing if item.startswith("membership.")]

    def test_members_were_not_put_in_by_a_coin(self):
        given = claim({**ONE_RUN, "canaries": ["members"]}, 1.0)
        assert finding(given, "membership.bound") is None
        assert finding(given, "membership.design").status == "rejected"

    def test_a_threshold_from_the_tested_scores(self):
        given = claim({**MANY, "threshold": "same-scores"}, 1.0)
        assert finding(given, "membership.threshold").status == "rejected"
        assert finding(given, "membership.bound") is None

    def test_more_trials_than_trainings(self):
        given = claim({**MANY, "trainings": 10}, 1.0)
        assert finding(given, "membership.trainings").status == "rejected"
        assert finding(given, "membership.bound") is None

    @pytest.mark.parametrize(
        ("test", "key", "value"),
        [
            (ONE_RUN, "guesses", 1001),
            (ONE_RUN, "correct_guesses", 101),
            (MANY, "true_positives", 1001),
            (MANY, "false_positives", 1001),
        ],
    )
    def test_counts_that_cannot_be(self, test, key, value):
        given = claim({**test, key: value})
        assert finding(given, f"membership.{key}").status == "wrong"
        assert finding(given, "membership.bound") is None


class TestExtractionAndConfidences:
    def test_extraction_rate_with_limits(self):
        given = claim(ONE_RUN, extraction={"tested": True, "attempts": 2000, "extracted": 0})
        rate = finding(given, "extraction.rate")
        assert rate.value == "0"
        assert "0 to 0.00184" in rate.text  # Clopper-Pearson, 0 of 2,000: .001842739793
        assert finding(given, "extraction.method").status == "missing"

    def test_extraction_untested_or_impossible(self):
        assert finding(claim(ONE_RUN, extraction={"tested": False}), "extraction.tested").status == "note"
        given = claim(ONE_RUN, extraction={"tested": True, "attempts": 2, "extracted": 3})
        assert finding(given, "extraction.extracted").status == "wrong"
        assert finding(claim(ONE_RUN), "extraction.tested").status == "missing"

    def test_exposed_scores(self):
        def status(item, **confidences):
            one = finding(claim(ONE_RUN, confidences=confidences), f"confidences.{item}")
            return one.status if one else None

        assert status("exposed") == "missing"
        assert status("examined", exposed=True) == "missing"
        assert status("defences", exposed=True) == "missing"
        assert status("examined", exposed=True, examined=False) == "rejected"
        assert status("defences", exposed=True, defences=["none"]) == "note"
        assert status("result", exposed=True, examined=True) == "missing"
        assert status("examined", exposed=False) is None
        assert status("defences", exposed=False) is None
