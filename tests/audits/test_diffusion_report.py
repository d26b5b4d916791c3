import numpy as np
import pytest
from scipy import stats

from dprepro.audits.diffusion_report import EPSILONS, beating, by_start, claim, measured


def found(shares):
    """A saved result with shares of broken texts by start and epsilon, one a repetition."""
    return {
        f"{start}, {epsilon}, {i}": {"texts": 200, "blank": round(200 * share), "repeated": 0, "garbled": 0}
        for start, by_epsilon in shares.items()
        for epsilon, values in by_epsilon.items()
        for i, share in enumerate(values)
    }


def one(plain, strong, between=0.4):
    return {"inf": plain, "4": [between] * 3, "2": [between] * 3, "1": strong, "0.5": strong}


BROKEN, FINE, SPREAD = [0.97, 0.95, 0.99], [0.02, 0.03, 0.01], [0.1, 0.9, 0.6]


@pytest.mark.parametrize(
    ("plain", "strong", "outcome"),
    [
        (FINE, BROKEN, "HOLDS"),
        (FINE, FINE, "FAILS"),  # no collapse
        (BROKEN, BROKEN, "FAILS"),  # broken without noise as well
        ([1.0] * 3, [0.96, 0.97, 0.95], "FAILS"),
        (FINE, SPREAD, "UNDECIDED"),
        (SPREAD, BROKEN, "UNDECIDED"),
        ([0.0] * 3, [0.5] * 3, "HOLDS"),
        ([0.0] * 3, [0.49] * 3, "FAILS"),
    ],
)
def test_the_rule(plain, strong, outcome):
    judged = by_start(found({"scratch": one(plain, strong)}), "scratch")
    assert judged.outcome == outcome
    assert judged.low <= judged.effect <= judged.high
    assert judged.n == 6


def test_effect_and_interval_are_students():
    values, plain = [0.9, 0.8, 0.95], [0.1, 0.3, 0.2]
    judged = by_start(found({"public": one(plain, values)}), "public")
    gaps = np.subtract(values, plain)
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    assert (judged.effect, judged.low, judged.high) == pytest.approx((gaps.mean(), low, high))
    assert "0.88 [0.69, 1.00]" in judged.reason
    assert "6 of 6 corpora have collapsed" in judged.reason


@pytest.mark.parametrize(
    ("scratch", "public", "outcome"),
    [
        ((FINE, BROKEN), (FINE, BROKEN), "HOLDS"),
        ((FINE, FINE), (BROKEN, BROKEN), "FAILS"),
        ((FINE, BROKEN), (FINE, FINE), "UNDECIDED"),
    ],
)
def test_both_starts_have_to_agree(scratch, public, outcome):
    whole = found({"scratch": one(*scratch), "public": one(*public)})
    judged = claim(whole)
    assert judged.outcome == outcome
    assert judged[1:5] == by_start(whole, "scratch")[1:5]
    assert "scratch: " in judged.reason
    assert "public: " in judged.reason


def test_measures():
    whole = {
        "public, 1, 0": {
            "texts": 50,
            "blank": 5,
            "repeated": 10,
            "garbled": 20,
            "words": 7.5,
            "epsilon": "inf",
        },
        "public, 1, 1": {"texts": 50, "blank": 0, "repeated": 0, "garbled": 0, "words": 8.5, "epsilon": "1"},
        "real, 0": {"texts": 50},
    }
    assert measured(whole, "public", "1").tolist() == [0.7, 0.0]
    assert measured(whole, "public", "1", "garbled").tolist() == [0.4, 0.0]
    assert measured(whole, "public", "1", "words").tolist() == [7.5, 8.5]
    assert measured(whole, "public", "1", "epsilon").tolist() == [np.inf, 1.0]
    with pytest.raises(ValueError, match=f"epsilon must be one of {', '.join(EPSILONS)}, got '3'"):
        measured(whole, "public", "3")
    with pytest.raises(ValueError, match="start must be one of 'scratch', 'public', got 'real'"):
        measured(whole, "real", "1")


def test_beating_a_guesser():
    """At one half, 526 right answers of 1,000 have p = .053 and 527 have .047."""
    whole = {f"public, 1, {i}": {"correct": right} for i, right in enumerate((500, 526, 527, 700))}
    assert beating({**whole, "public, 0.5, 0": {"correct": 900}}, "public, 1", 1000, 0.5) == 2
    assert beating(whole, "public, 1", 1000, 0.65) == 1
