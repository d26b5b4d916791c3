"""Coverage by simulation: votes of a snapshot, the exact epsilon at a threshold, parts added up."""

import numpy as np
import pytest
from scipy.special import ndtr

from dprepro.audits.snapshot import active_audit
from dprepro.audits.snapshot_coverage import VOTES, failures, joined, random_snapshot, true_epsilon
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.tradeoff import epsilon_gdp

SMALL = {"epsilon": 8.0, "calls": 50, "n_sample": 500}
RECIPES = ("inferred, Clopper-Pearson, 0.9", "as_stated, empirical Bernstein, 0.9", "valid, betting, 1")


def test_votes_equal_their_mode_as_often_as_said():
    snapshot = random_snapshot(0.9, 20_000, np.random.default_rng(0))
    for rows, mode in zip((snapshot.with_canary, snapshot.without_canary), VOTES, strict=True):
        usual = (rows == mode).all(axis=1)
        assert (rows[~usual] == VOTES[VOTES[:, 0] != mode[0]]).all()
        assert abs(usual.mean() - 0.9) < 4 * (0.9 * 0.1 / 20_000) ** 0.5


@pytest.mark.parametrize("mass", [1.0, 0.9])
def test_true_epsilon_by_hand(mass):
    # Along the difference of the votes the two sides are normal, mu apart; a side is a mixture of both.
    mechanism = PrivateVoting(8.0)
    audit = active_audit(
        random_snapshot(mass, 200, np.random.default_rng(1)),
        mechanism,
        recipe="inferred",
        n_sample=2_000,
        rng=np.random.default_rng(2),
    )
    mu = 2**0.5 / mechanism.sigma
    cut = audit.rates.threshold / mu  # the score is mu times the standardised release, from the middle
    upper, lower = ndtr(mu / 2 - cut), ndtr(-mu / 2 - cut)
    tpr, fpr = mass * upper + (1 - mass) * lower, mass * lower + (1 - mass) * upper
    expected = float(epsilon_gdp(tpr, fpr, mechanism.delta))
    assert true_epsilon(audit, mechanism, mass) == pytest.approx(expected, rel=1e-9)


def test_parts_joined_are_the_whole():
    saved, wholes = {}, {}
    for number, recipe in enumerate(RECIPES):
        once, again = np.random.default_rng(number), np.random.default_rng(number)
        wholes[recipe] = failures(f"{recipe}, 0", once, audits=12, **SMALL)
        for part, audits in enumerate((5, 4, 3)):
            saved[f"{recipe}, {part}"] = failures(f"{recipe}, {part}", again, audits=audits, **SMALL)
    found = joined({key: saved[key] for key in sorted(saved, key=lambda key: key[-1])})
    assert list(found) == list(RECIPES)
    for recipe, whole in wholes.items():
        assert found[recipe] == pytest.approx(whole, rel=1e-12)
    assert wholes[RECIPES[0]]["failures"] > 0


def test_bad_input():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="audits must be a whole number"):
        failures("valid, modal, 1, 0", rng, audits=0, **SMALL)
    with pytest.raises(ValueError, match="mass must be in"):
        random_snapshot(1.5, 10, rng)
    with pytest.raises(ValueError, match="with_canary must have shape"):
        random_snapshot(0.9, 1, rng)
