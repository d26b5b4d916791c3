"""An attacker who knows each run's pair of clean outputs: scores by hand, bounds that hold, what is gained."""

import numpy as np
import pytest
from scipy.stats import norm

from dprepro.audits.informed import Informed, informed
from dprepro.audits.snapshot import Snapshot, active_audit, passive_audit
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.keywords_joint import JointKeywords
from dprepro.mechanisms.in_context.voting import PrivateVoting


def rng(seed=0):
    return np.random.default_rng(seed)


def varying(runs, seed=1):
    """Votes whose demonstrations matter more than the canary: each run has one of two pairs."""
    which = rng(seed).integers(2, size=runs)
    with_ = np.array([[0, 2, 1], [2, 0, 1]])[which]
    without = np.array([[0, 3, 0], [3, 0, 0]])[which]
    return Snapshot(with_, without)


def test_rows_hold_the_pair_of_their_run():
    snapshot = Snapshot([[1.0, 2], [3, 4]], [[5.0, 6], [7, 8]], {"model": "m"})
    both = informed(snapshot)
    np.testing.assert_array_equal(both.with_canary, [[1, 2, 1, 2, 5, 6], [3, 4, 3, 4, 7, 8]])
    np.testing.assert_array_equal(both.without_canary, [[5, 6, 1, 2, 5, 6], [7, 8, 3, 4, 7, 8]])
    assert both.provenance == snapshot.provenance
    with pytest.raises(ValueError, match="must have a row for each run, got 2 and 3"):
        informed(Snapshot(np.ones((2, 1)), np.ones((3, 1))))


def test_scores_are_the_likelihood_ratios_of_each_pair():
    mechanism = PrivateVoting(4.0)
    rows = informed(varying(6)).with_canary
    released = Informed(mechanism).release(rows, rng(2))
    np.testing.assert_array_equal(released[:, 3:], rows[:, 3:])
    np.testing.assert_array_equal(released[:, :3], mechanism.release(rows[:, :3], rng(2)))
    scores = Informed(mechanism).score(released, rows[0], rows[1], "white")
    one, other = (
        norm(rows[:, part], mechanism.sigma).logpdf(released[:, :3]).sum(axis=1)
        for part in (slice(3, 6), slice(6, 9))
    )
    np.testing.assert_allclose(scores, one - other)
    black = Informed(mechanism).score(released, rows[0], rows[1], "black")
    np.testing.assert_array_equal(black, released[:, :3].argmax(axis=1) == 2)


def test_a_pair_of_equal_outputs_says_nothing():
    rows = informed(Snapshot([[1.0, 2], [3, 0]], [[1.0, 2], [2, 1]])).with_canary
    scores = Informed(PrivateVoting(4.0)).score(
        Informed(PrivateVoting(4.0)).release(rows, rng()), rows[0], rows[0], "white"
    )
    assert scores[0] == 0 != scores[1]


def test_releases_may_be_shorter_than_clean_outputs():
    """A set of two keywords out of four."""
    counts = Snapshot(np.tile([3.0, 1, 1, 0], (5, 1)), np.tile([3.0, 2, 0, 0], (5, 1)))
    keywords, rows = JointKeywords(2.0, keywords=2), informed(counts).with_canary
    released = Informed(keywords).release(rows, rng(3))
    assert released.shape == (5, 2 + 8)
    expected = keywords.score(released[:, :2], counts.with_canary[0], counts.without_canary[0], "white")
    np.testing.assert_allclose(Informed(keywords).score(released, rows[0], rows[1], "white"), expected)


def test_claims_and_noise_are_those_of_the_mechanism():
    voting, experts = Informed(PrivateVoting(4.0, 1e-6)), Informed(ProductOfExperts(2.0, 3))
    assert (voting.epsilon, voting.delta, voting.gaussian, voting.discrete) == (4.0, 1e-6, True, False)
    assert (experts.epsilon, experts.delta, experts.gaussian) == (2.0, 0.0, False)


def test_what_knowing_the_demonstrations_is_worth():
    """Where they move the votes more than the canary does, one pair for all runs proves next to nothing."""
    snapshot, mechanism = varying(300), PrivateVoting(8.0)
    blind = active_audit(snapshot, mechanism, bound="betting", n_sample=30_000, rng=rng())
    seen = active_audit(informed(snapshot), Informed(mechanism), bound="betting", n_sample=30_000, rng=rng())
    assert blind.epsilon < 5.5 < 7 < seen.epsilon < 8
    assert seen.conversion == "gdp"


@pytest.mark.parametrize("audit", [active_audit, passive_audit])
def test_a_right_mechanism_is_not_accused(audit):
    """40 audits of the strongest pair; each bound fails with probability at most .05, more than 7 with .2 %."""
    mechanism = PrivateVoting(4.0)
    options = {"bound": "betting", "n_sample": 4_000} if audit is active_audit else {}
    found = [
        audit(informed(varying(60, s)), Informed(mechanism), rng=rng(s), **options).epsilon for s in range(40)
    ]
    assert sum(epsilon > 4.0 for epsilon in found) <= 7
    assert max(found) > 1
