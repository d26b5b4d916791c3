"""The attack as a whole: what it says of a perfect leak and of none, by one run and by many, and what it refuses."""

import numpy as np
import pytest

from dprepro.audits.canary_one_run import one_run_audit
from dprepro.audits.ngram import membership_audit
from dprepro.audits.ngram_design import half_and_half

RNG = np.random.default_rng


def table(kind="exact", effect=4.0, subsets=40, targets=60, seed=1):
    rng = RNG(seed)
    inside = half_and_half(subsets, targets, rng, kind)
    easy = 5 * rng.normal(size=targets)
    return easy + effect * inside + rng.normal(size=inside.shape), inside


def test_pooled_suffers_from_easy_targets_and_within_does_not():
    found = membership_audit(*table(), 0.0)
    assert found.within.value > 0.98
    assert 0.6 < found.pooled.value < 0.8
    assert found.pooled.low < found.pooled.value < found.pooled.high


def test_one_corpus_alone_is_the_audit_with_one_run():
    scores, inside = table()
    found = membership_audit(scores, inside, 1e-5)
    assert found.one_run[7] == one_run_audit(scores[7], inside[7], 1e-5).epsilon_low
    assert found.all_runs is None, "coins of a target over subsets depend on one another"
    assert found.epsilon_low == found.bounds.by_subset


def test_what_half_of_the_corpora_show():
    """At alpha/2 each: twenty of forty reach it, and it exceeds the truth hardly ever, whatever a subset shares."""
    inside = table()[1]
    scores = 2 * inside + RNG(12).normal(size=inside.shape)
    found = membership_audit(scores, inside, 1e-5)
    each = [one_run_audit(*row, 1e-5, 0.025).epsilon_low for row in zip(scores, inside, strict=True)]
    assert sum(value >= found.half_of_runs for value in each) >= 20
    assert sum(value > found.half_of_runs for value in each) < 20
    rng, keep, over = RNG(8), np.e / (1 + np.e), 0
    for _ in range(20):
        inside = half_and_half(10, 40, rng)
        answers = np.where(rng.random((10, 1)) < keep, inside, ~inside) + 0.1 * rng.random(inside.shape)
        over += membership_audit(answers, inside, 0.0).half_of_runs > 1
    assert over <= 5, "one in twenty by chance; more than five of 20 once in 3,000 times"


def test_scores_centred_by_the_other_subsets_are_no_bound_under_exact_halves():
    """Randomised response at epsilon 1: alone a bound; less its mean over four subsets a score sees all four runs."""
    rng = RNG(9)
    inside = half_and_half(4, 1000, rng)
    answers = np.where(rng.random(inside.shape) < np.e / (1 + np.e), inside, ~inside) + 0.1 * rng.random(
        inside.shape
    )
    assert 0.5 < membership_audit(answers, inside, 0.0).half_of_runs < 1
    assert membership_audit(answers - answers.mean(axis=0), inside, 0.0).half_of_runs > 1.2


def test_independent_coins_allow_one_audit_of_all_corpora():
    scores, inside = table("independent")
    found = membership_audit(scores, inside, 1e-5, kind="independent")
    assert found.all_runs.canaries == 2400
    assert found.epsilon_low == found.all_runs.epsilon_low
    assert "From all coins together" in str(found)


def test_a_corpus_whose_coins_all_fall_alike_is_part_of_the_audit_of_all():
    inside = half_and_half(60, 8, RNG(1), "independent")
    inside[3] = True
    shared = 30 * RNG(2).normal(size=(60, 1))  # what a corpus moves in all of its targets says nothing
    found = membership_audit(
        4 * inside + shared + RNG(3).normal(size=inside.shape), inside, 1e-5, kind="independent"
    )
    assert found.all_runs.canaries == 480
    assert found.all_runs.correct > 0.85 * found.all_runs.guesses
    assert found.one_run[3] == 0
    # Randomised response at epsilon 1, in many small corpora.
    rng, keep, over = RNG(4), np.e / (1 + np.e), 0
    for _ in range(20):
        inside = half_and_half(60, 8, rng, "independent")
        answers = np.where(rng.random(inside.shape) < keep, inside, ~inside) + 0.1 * rng.random(inside.shape)
        over += membership_audit(answers, inside, 0.0, kind="independent").all_runs.epsilon_low > 1
    assert over <= 5, "one in twenty by chance; more than five of 20 once in 3,000 times"


def test_a_leak_contradicts_a_claim_and_no_leak_does_not():
    inside = half_and_half(40, 60, RNG(2))
    leak = membership_audit(inside + 0.1 * RNG(3).random(inside.shape), inside, 1e-4, claimed=0.5)
    assert leak.violation
    assert "Claimed: 0.5, CONTRADICTED." in str(leak)
    assert "no bound" in str(leak)
    none = membership_audit(RNG(4).normal(size=inside.shape), inside, 1e-4, claimed=0.5)
    assert not none.violation
    assert none.epsilon_low == 0
    assert "not contradicted" in str(none)
    assert not membership_audit(inside + 0.0, inside, 1e-4).violation, (
        "without a claim there is nothing to violate"
    )


def test_all_scores_equal_say_nothing():
    inside = half_and_half(20, 10, RNG(5))
    found = membership_audit(np.zeros(inside.shape), inside, 0.0)
    assert found.pooled.value == found.within.value == 0.5
    assert found.epsilon_low == 0
    assert found.point.epsilon == pytest.approx(0)
    assert not found.one_run.any()


def test_few_targets_give_no_bound_from_one_corpus():
    inside = half_and_half(20, 4, RNG(6), "independent")
    found = membership_audit(inside + 0.0, inside, 0.0, kind="independent")
    assert not found.one_run.any()
    assert found.all_runs is None


def test_bad_input_is_refused():
    scores, inside = table(subsets=8, targets=10)
    with pytest.raises(ValueError, match=r"trials of both kinds, got 80 of 80 in"):
        membership_audit(scores, np.ones_like(inside), 0.0)
    wrong = inside.copy()
    wrong[np.flatnonzero(wrong[:, 2])[0], 2] = False
    with pytest.raises(ValueError, match=r"each target in half of the 8 subsets, got 3 for target 2"):
        membership_audit(scores, wrong, 0.0)
    with pytest.raises(ValueError, match=r"kind must be one of"):
        membership_audit(scores, inside, 0.0, kind="half")
    with pytest.raises(ValueError, match=r"scores must be finite"):
        membership_audit(np.full(scores.shape, np.nan), inside, 0.0)
    with pytest.raises(ValueError, match=r"at least 4 subsets"):
        membership_audit(scores[:2], inside[:2], 0.0, kind="independent")
    for claimed in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"claimed must be in \(0, inf\]"):
            membership_audit(scores, inside, 0.0, claimed=claimed)
