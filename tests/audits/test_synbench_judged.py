"""The rules on results made up so that the answer is known."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.synbench_judged import BETTER, better_with_epsilon, not_monotone, series, values

FINITE = ("0.5", "1", "2", "4")


def result(value, domains=("a", "b", "c"), numbers=("0", "1")):
    """One generator's saved result: value(domain, place of the budget, number) for every measure."""
    return {
        f"{domain}, {epsilon}, {number}": dict.fromkeys(BETTER, value(i, place, int(number)))
        for (i, domain), (place, epsilon), number in itertools.product(
            enumerate(domains), enumerate((*FINITE, "inf")), numbers
        )
    }


def test_series_go_from_strong_privacy_to_weak_and_leave_out_none():
    found = result(lambda domain, place, number: 10 * domain + place + 0.5 * number)
    assert series(found) == {
        (name, number): [10 * i + place + 0.5 * int(number) for place in range(4)]
        for i, name in enumerate("abc")
        for number in "01"
    }
    assert values(found, "b", "inf").tolist() == [14.0, 14.5]
    with pytest.raises(ValueError, match="an item d, inf, <number>"):
        values(found, "d", "inf")


def test_what_rises_in_every_series_is_monotone_and_its_exact_p_value():
    found = result(lambda domain, place, number: place + number * place / 10)
    rises = better_with_epsilon(found, "macro")
    assert (rises.outcome, rises.n) == ("HOLDS", 6)
    assert "S = 36 of 36" in rises.reason
    assert not_monotone(found).outcome == "FAILS"
    # 3 in the series with number 0, 3.3 in the others: Student's interval by another way.
    steps = [3.0, 3.3] * 3
    expected = stats.ttest_1samp(steps, 0).confidence_interval(0.95)
    assert (rises.effect, rises.low, rises.high) == pytest.approx((3.15, *expected))


def test_divergences_are_better_when_they_fall():
    found = result(lambda domain, place, number: 1.0 - place / 10)
    assert better_with_epsilon(found, "entity").outcome == "HOLDS"
    assert better_with_epsilon(found, "mauve").outcome == "FAILS"
    assert not_monotone(found).outcome == "HOLDS"
    assert better_with_epsilon(found, "entity").effect == pytest.approx(-0.3)


def test_noise_is_called_a_trend_as_often_as_the_level_says():
    rng = np.random.default_rng(3)
    said = [
        better_with_epsilon(
            result(lambda *_: rng.normal(), domains=("a", "b"), numbers=("0",)), "macro"
        ).outcome
        for _ in range(200)
    ]
    # Each direction has a chance of .05 at most; 22 of 200 in one is beyond p = .001.
    assert max(said.count("HOLDS"), said.count("FAILS")) < 22


def test_one_series_has_no_interval_and_another_measure_is_refused():
    found = result(lambda domain, place, number: place, domains=("a",), numbers=("0",))
    assert better_with_epsilon(found, "macro").high == float("inf")
    with pytest.raises(ValueError, match="measure must be one of"):
        better_with_epsilon(found, "words")
