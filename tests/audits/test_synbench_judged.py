"""The rules on results made up so that the answer is known."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.synbench_judged import BETTER, FRESH, judged, looks, not_monotone, series

FINITE = ("0.5", "1", "2", "4")


def result(value, domains=("a", "b", "c"), numbers=(0, 1)):
    """One generator's saved result: value(domain, place of the budget, number) for every measure."""
    return {
        f"{domain}, {epsilon}, {number}": dict.fromkeys(BETTER, value(i, place, number))
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


def test_what_rises_in_every_series_is_monotone_and_its_exact_p_value():
    rises = not_monotone(result(lambda domain, place, number: place + number * place / 10))
    assert (rises.outcome, rises.n) == ("FAILS", 6)
    assert rises.reason == "S = 36 of 36, p better 0.0000, p worse 1.0000"
    # 3 in the series with number 0, 3.3 in the others: Student's interval by another way.
    steps = [3.0, 3.3] * 3
    expected = stats.ttest_1samp(steps, 0).confidence_interval(0.95)
    assert (rises.effect, rises.low, rises.high) == pytest.approx((3.15, *expected))


def test_three_series_need_ten_of_their_eighteen_pairs():
    """By hand: all arrangements of four values, three times."""
    one = [
        sum((b > a) - (b < a) for a, b in itertools.combinations(order, 2))
        for order in itertools.permutations(range(4))
    ]
    sums = [sum(s) for s in itertools.product(one, repeat=3)]
    chance = {least: sum(s >= least for s in sums) / len(sums) for least in (8, 10)}
    assert chance[10] < 0.05 < chance[8]
    orders = {10: [(0, 1, 2, 3), (0, 1, 2, 3), (3, 0, 2, 1)], 8: [(0, 1, 2, 3), (0, 1, 2, 3), (3, 2, 0, 1)]}
    for s, values in orders.items():
        found = not_monotone(
            result(lambda i, place, _, values=values: (*values[i], 9)[place], numbers=(FRESH,))
        )
        assert found.reason.startswith(f"S = {s} of 18, p better {chance[s]:.4f}")
        assert found.outcome == ("FAILS" if s == 10 else "UNDECIDED")


def test_divergences_are_better_when_they_fall():
    found = result(lambda domain, place, number: 1.0 - place / 10)
    assert not_monotone(found, "entity").outcome == "FAILS"
    assert not_monotone(found, "mauve").outcome == "HOLDS"
    assert not_monotone(found).outcome == "HOLDS"
    assert not_monotone(found, "entity").effect == pytest.approx(-0.3)


@pytest.mark.parametrize("before", [(0,), (0, 1)])
def test_the_fresh_draw_alone_decides(before):
    # Seen before it rises, in the fresh draw it falls twice as steeply.
    found = result(
        lambda _, place, number: -2.0 * place if number == FRESH else place, numbers=(*before, FRESH)
    )
    fresh, earlier, together = looks(found).values()
    assert list(looks(found)) == ["fresh draw", "seen before", "together"]
    assert (fresh.outcome, fresh.n, fresh.effect) == ("HOLDS", 3, -6)
    assert (earlier.outcome, earlier.n, earlier.effect) == ("FAILS", 3 * len(before), 3)
    assert together.n == 3 + 3 * len(before)
    assert together.reason.startswith(f"S = {18 * len(before) - 18} of {18 * len(before) + 18}, ")
    verdict = judged(found)
    assert verdict[:5] == fresh[:5]
    assert f"budgets {fresh.reason}; seen before, n={earlier.n}: 3.000, {earlier.reason}" in verdict.reason


def test_without_a_fresh_draw_the_first_look_stands_and_says_so():
    found = result(lambda _, place, number: place, numbers=(0, 1))
    assert looks(found) == {"first look": not_monotone(found)}
    assert judged(found)[:5] == not_monotone(found)[:5]
    assert "first look; order over the finite budgets S = 36 of 36" in judged(found).reason
    assert "seen before" not in judged(found).reason


def test_a_draw_seen_before_must_be_there():
    with pytest.raises(ValueError, match="found must have items of a draw before 2, got 15 items without"):
        looks(result(lambda *_: 0.0, numbers=(FRESH,)))


def test_noise_is_called_a_trend_as_often_as_the_level_says():
    rng = np.random.default_rng(3)
    said = [
        judged(result(lambda *_: rng.normal(), domains=("a", "b"), numbers=(0, FRESH))).outcome
        for _ in range(200)
    ]
    # Each direction has a chance of .05 at most; 22 of 200 in one is beyond p = .001.
    assert max(said.count("HOLDS"), said.count("FAILS")) < 22


def test_one_series_has_no_interval_and_another_measure_is_refused():
    found = result(lambda domain, place, number: place, domains=("a",), numbers=(0,))
    assert not_monotone(found).high == float("inf")
    with pytest.raises(ValueError, match="measure must be one of"):
        not_monotone(found, "words")
