"""Calls until a bound is near: bounds against the audit in design mode, the exact epsilon against the mechanism's."""

import numpy as np
import pytest

from dprepro.audits.snapshot import Snapshot, active_audit
from dprepro.audits.snapshot_expectation import black_box_moments
from dprepro.audits.snapshot_time import KINDS, ConstantOutputs
from dprepro.mechanisms.in_context.embedding import EmbeddingSpaceAggregation
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.keywords_joint import JointKeywords
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.bounds import lower_limit, upper_limit
from dprepro.stats.tradeoff import CONVERSIONS

EXPERTS = ProductOfExperts(8.0, 3)
CASES = {
    "PV": ConstantOutputs(PrivateVoting(8.0), np.array([0.0, 2, 1]), np.array([0.0, 3, 0])),
    "PoE": ConstantOutputs(EXPERTS, *EXPERTS.separated(0.9)),
    "ESA": ConstantOutputs(
        EmbeddingSpaceAggregation(8.0, partitions=3), np.array([2 / 3, 1 / 3]), np.array([1.0, 0.0])
    ),
    "KSA": ConstantOutputs(
        JointKeywords(8.0, keywords=2), np.array([1.0, 2, 2, 0, 0]), np.array([0.0, 3, 3, 0, 0])
    ),
}
AUDITS = {
    "passive": {"recipe": "inferred"},
    "active, valid": {"recipe": "valid", "bound": "modal"},
    "active, as stated": {"recipe": "as_stated"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("calls", [60, 2000])
def test_bounds_are_those_of_the_audit_in_design_mode(name, kind, calls):
    case = CASES[name]
    snapshot = Snapshot(np.tile(case.with_canary, (calls, 1)), np.tile(case.without_canary, (calls, 1)))
    n_sample = calls if kind == "passive" else case.n_sample
    audit = active_audit(snapshot, case.mechanism, mode="design", n_sample=n_sample, **AUDITS[kind])
    if kind == "passive":  # there counts are rounded against the auditor
        assert audit.epsilon <= case.bound(kind, calls) + 1e-6
    assert case.bound(kind, calls) == pytest.approx(audit.epsilon, abs=0.3 if kind == "passive" else 0.003)


@pytest.mark.parametrize(("name", "conversion"), [("PV", "gdp"), ("PoE", "standard")])
def test_passive_bound_is_about_the_mean_of_what_passive_audits_report(name, conversion):
    case = CASES[name]
    limits = [lower_limit(case.rates[0] * 2000, 2000, 0.025), upper_limit(case.rates[1] * 2000, 2000, 0.025)]
    best = int(np.argmax(CONVERSIONS[conversion](*limits, 1e-5)))
    tpr, fpr = (float(rates[best]) for rates in case.rates)
    mean, sd = black_box_moments(tpr, fpr, 2000, delta=1e-5, conversion=conversion)
    assert case.bound("passive", 2000) == pytest.approx(mean, abs=0.25 * sd)


def test_exact_epsilon():
    assert CASES["PV"].exact == pytest.approx(8.0, abs=1e-3)
    assert CASES["PoE"].exact == pytest.approx(0.9 * 8, abs=0.01)
    assert CASES["ESA"].exact == pytest.approx(CASES["ESA"].mechanism.exact_epsilon(2**0.5), abs=1e-3)
    with_, without = CASES["KSA"].with_canary, CASES["KSA"].without_canary
    largest = CASES["KSA"].mechanism.log_ratios(with_, without)[1]
    # (TPR - delta)/FPR at the best event, which is the one of the largest log ratio
    assert CASES["KSA"].exact == pytest.approx(abs(largest), abs=0.05)


@pytest.mark.parametrize("name", CASES)
def test_bounds_rise_to_the_exact_epsilon(name):
    case = CASES[name]
    for kind in KINDS[:2]:
        bounds = [case.bound(kind, calls) for calls in (30, 300, 3_000, 10**6)]
        assert np.all(np.diff(bounds) > 0), kind
        assert case.exact - 0.4 < bounds[-1] <= case.exact + 1e-6, kind


@pytest.mark.parametrize("kind", KINDS[:2])
def test_calls_to_by_brute_force(kind):
    case = CASES["PV"]
    found = case.calls_to(kind, 2.0)
    assert case.bound(kind, found) >= case.exact - 2.0 > case.bound(kind, found - 1)
    assert all(case.bound(kind, n) < case.exact - 2.0 for n in range(2, found, 7))


def test_the_stated_radius_does_not_shrink_with_calls_alone():
    case = CASES["PV"]
    few = ConstantOutputs(case.mechanism, case.with_canary, case.without_canary, n_sample=1_000)
    assert few.calls_to("active, as stated", 0.5) is None
    assert few.calls_to("active, valid", 0.5) is not None


def test_seconds_by_hand():
    case = CASES["PV"]
    assert case.seconds("passive", 10, 0.5, 0.001) == pytest.approx(2 * (10 * 0.5 + 10 * 0.001))
    assert case.seconds("active, valid", 10, 0.5, 1e-6) == pytest.approx(2 * (10 * 0.5 + 0.4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"with_canary": np.array([0.0, 3, 0])},
            "with_canary must differ from without_canary, got equal rows",
        ),
        ({"with_canary": np.zeros(2)}, r"must be rows of one length, got shapes \(2,\) and \(3,\)"),
        ({"with_canary": np.array([0.0, np.nan, 1])}, "with_canary must be finite"),
        ({"mechanism": object()}, "mechanism must have a success method, got object"),
        ({"n_sample": 0}, "n_sample must be a whole number of at least 1, got 0"),
        ({"alpha": 1.0}, r"alpha must be in \(0, 1\), got 1"),
    ],
)
def test_bad_outputs(change, message):
    case = CASES["PV"]
    good = {
        "mechanism": case.mechanism,
        "with_canary": case.with_canary,
        "without_canary": case.without_canary,
    }
    with pytest.raises(ValueError, match=message):
        ConstantOutputs(**{**good, **change})


def test_bad_questions():
    case = CASES["PV"]
    with pytest.raises(ValueError, match="kind must be one of"):
        case.bound("both", 100)
    with pytest.raises(ValueError, match="calls must be a whole number of at least 2, got 1"):
        case.bound("passive", 1)
    with pytest.raises(ValueError, match=r"below must be in \(0, inf\), got 0"):
        case.calls_to("passive", 0.0)
    with pytest.raises(ValueError, match="most must be a whole number of at least 2, got 1"):
        case.calls_to("passive", 1.0, most=1)
    with pytest.raises(ValueError, match="calls must be a whole number of at least 1, got -1"):
        case.seconds("passive", -1, 0.5, 1e-6)
    with pytest.raises(ValueError, match=r"call must be in \[0, inf\), got nan"):
        case.seconds("passive", 10, np.nan, 1e-6)
    with pytest.raises(ValueError, match=r"release must be in \[0, inf\), got -1"):
        case.seconds("passive", 10, 0.5, -1.0)
