"""Many canaries in one training: guesses, ties, coins, and validity where the theorem is tight."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.canary_one_run import one_run_audit
from dprepro.stats.one_run import epsilon_one_run


def gaussian(signal, m, seed=0):
    rng = np.random.default_rng(seed)
    included = rng.random(m) < 0.5
    return rng.normal(size=m) + signal * included, included


def test_guesses_against_a_count_by_hand():
    scores = np.array([5.0, 4, 3, 2, 1, 0, -1, -2])
    included = np.array([1, 1, 0, 1, 0, 1, 0, 0])
    audit = one_run_audit(scores, included, 0.0, guesses=6)
    # "in": 5, 4, 3 (two right); "out": -2, -1, 0 (two right).
    assert (audit.right_in, audit.right_out, audit.correct, audit.tied) == (2, 2, 4, 0)
    assert audit.epsilon_low == epsilon_one_run(8, 6, 4, 0.0, 0.05)
    assert audit.auc == stats.mannwhitneyu(scores[included == 1], scores[included == 0]).statistic / 16
    odd = one_run_audit(scores, included, 0.0, guesses=3)
    assert (odd.right_in, odd.right_out) == (2, 1)


def test_public_numbers():
    # Steinke et al.'s bound for 90 of 100 guesses on 1,000 canaries, from a separate implementation: 1.6261436787.
    rng = np.random.default_rng(3)
    included = rng.random(1000) < 0.5
    ins, outs = np.flatnonzero(included), np.flatnonzero(~included)
    scores = rng.random(1000)
    scores[ins[:45]], scores[outs[:5]] = 2 + rng.random(45), 2 + rng.random(5)
    scores[outs[5:50]], scores[ins[45:50]] = -2 + rng.random(45), -2 + rng.random(5)
    audit = one_run_audit(scores, included, 1e-5, guesses=100)
    assert (audit.guesses, audit.correct) == (100, 90)
    assert audit.epsilon_low == pytest.approx(1.6261436787)
    assert audit.ceiling > audit.epsilon_low


def test_the_order_of_canaries_never_counts():
    scores, included = gaussian(1, 400)
    rounded = scores.round(1)
    order = np.argsort(~included, kind="stable")  # included ones first
    plain, sorted_ = (one_run_audit(rounded[o], included[o], 1e-5) for o in (np.arange(400), order))
    assert plain == sorted_


def test_ties_across_the_edge_are_not_guessed():
    included = np.arange(200) < 100  # included ones first, as in np.concatenate([scores_in, scores_out])
    audit = one_run_audit(np.ones(200), included, 1e-5)
    assert (audit.correct, audit.tied, audit.epsilon_low, audit.auc) == (0, 50, 0.0, 0.5)
    assert "lost to equal scores" in str(audit)
    # A block that ends at the edge is guessed whole.
    scores = np.repeat([3.0, 2, 1, 0], 50)
    audit = one_run_audit(scores, np.repeat([True, True, False, False], 50), 1e-5, guesses=100)
    assert (audit.correct, audit.tied) == (100, 0)


def test_chance_breaks_ties_without_looking_at_the_coins():
    included = np.arange(400) < 200
    rng = np.random.default_rng(6)
    blind = [one_run_audit(np.ones(400), included, 0.0, rng=rng) for _ in range(100)]
    assert {audit.guesses - audit.tied for audit in blind} == {100}
    assert np.mean([audit.correct for audit in blind]) == pytest.approx(50, abs=4 * 5 / 10)
    # Without noise: canaries left out have one and the same score, and those included are above it.
    scores = np.where(included, 1 + rng.random(400), 0.0)
    assert one_run_audit(scores, included, 0.0).right_out == 0
    audit = one_run_audit(scores, included, 0.0, rng=rng)
    assert (audit.correct, audit.epsilon_low) == (100, audit.ceiling)
    # Where there is no tie it changes nothing.
    scores, included = gaussian(1, 100)
    assert one_run_audit(scores, included, 0.0) == one_run_audit(scores, included, 0.0, rng=rng)


def test_all_canaries_may_be_guessed():
    scores, included = gaussian(30, 64)
    audit = one_run_audit(scores, included, 0.0, guesses=2 * min(included.sum(), 64 - included.sum()))
    assert audit.correct == audit.guesses
    two = one_run_audit([1.0, 0.0], [1, 0], 0.0, guesses=2)
    assert (two.correct, two.tied) == (2, 0)


def test_several_runs_are_one_audit_with_more_coins():
    pairs = [gaussian(1.5, 80, seed) for seed in range(5)]
    scores, included = (np.array(part) for part in zip(*pairs, strict=True))
    together = one_run_audit(scores, included, 1e-5)
    alone = [one_run_audit(*pair, 1e-5) for pair in pairs]
    assert (together.runs, together.canaries, together.guesses) == (5, 400, 100)
    assert together.correct == sum(audit.correct for audit in alone)
    assert together.epsilon_low == epsilon_one_run(400, 100, together.correct, 1e-5, 0.05)
    assert together.epsilon_low > max(audit.epsilon_low for audit in alone)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_bound_exceeds_epsilon_in_at_most_five_per_cent_where_the_theorem_is_tight(delta):
    # Randomised response on each coin, with a jitter against ties: all guesses are right with the largest chance.
    rng, epsilon, repeats, m = np.random.default_rng(4), 1.0, 400, 200
    above = 0
    for _ in range(repeats):
        coins = rng.random(m) < 0.5
        answers = np.where(rng.random(m) < 1 / (1 + np.exp(-epsilon)), coins, ~coins)
        above += one_run_audit(answers + 0.1 * rng.random(m), coins, delta, claimed=epsilon).violation
    assert stats.binomtest(above, repeats, 0.05, alternative="greater").pvalue > 1e-4
    assert above > 0  # it is tight: a bound that never comes near would pass anything


def test_canaries_that_share_their_noise_do_not_break_it():
    # One noise for all scores: in one run either all high or all low, whatever the coins. Binomial limits would fail.
    rng, repeats, m, above = np.random.default_rng(5), 300, 200, 0
    for _ in range(repeats):
        coins = rng.random(m) < 0.5
        scores = rng.normal() * 10 + rng.normal(size=m) * 0.01
        above += one_run_audit(scores, coins, 1e-5).epsilon_low > 0
    assert stats.binomtest(above, repeats, 0.05, alternative="greater").pvalue > 1e-4


def test_words():
    audit = one_run_audit(*gaussian(5, 1000), 1e-5, claimed=1.0)
    assert audit.violation
    assert "VIOLATION" in str(audit)
    assert "1000 canaries in one training" in str(audit)
    assert "is the sign right?" in str(one_run_audit(*gaussian(-2, 1000), 1e-5))
    few = one_run_audit(*gaussian(5, 40), 1e-5, claimed=4.0)
    assert "It could not have been" in str(few)
    assert not one_run_audit(*gaussian(5, 40), 1e-5, claimed=np.inf).violation


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"included": np.ones(40)}, "included must hold canaries of both kinds, got 40 of 40"),
        ({"included": np.zeros(40)}, "included must hold canaries of both kinds, got 0 of 40"),
        ({"included": np.arange(40) < 39}, "included must come from fair coins, got 39 of 40"),
        ({"included": np.arange(40) % 3}, "included must be true or false"),
        ({"included": np.arange(20) % 2}, "included must have the shape of scores"),
        ({"scores": np.r_[np.ones(39), np.nan]}, "scores must be finite, got 1 of 40"),
        ({"scores": [1.0], "included": [1]}, "at least 2 canaries"),
        ({"scores": np.ones((2, 2, 10))}, "scores must be an array"),
        ({"scores": []}, "scores must be an array"),
        ({"guesses": 41}, "guesses must be at most the number of canaries in a run, got 41 of 40"),
        ({"guesses": 0}, "guesses must be a whole number of at least 1"),
        ({"guesses": 2.5}, "guesses must be a whole number"),
        ({"delta": -1e-5}, "delta must be in"),
        ({"alpha": 1.0}, "alpha must be in"),
        ({"claimed": np.nan}, "claimed must be in"),
    ],
)
def test_wrong_input_is_named(change, message):
    scores, included = gaussian(1, 40, seed=7)
    arguments = {"scores": scores, "included": included, "delta": 1e-5, **change}
    with pytest.raises(ValueError, match=message):
        one_run_audit(**arguments)
