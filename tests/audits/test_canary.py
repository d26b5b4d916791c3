"""The loss test over many trainings: rates, limits, the bound, its validity where it is tight, and wrong input."""

import math

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.canary import canary_audit, canary_scores, detection_rate, trainings_ceiling
from dprepro.stats.gdp import mu_to_epsilon


def gaussian(signal, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + signal, rng.normal(size=n)


def randomised_response(epsilon, n, rng):
    """Scores of a mechanism that has exactly this epsilon, and of the best attack on it."""
    keep = 1 / (1 + np.exp(-epsilon))
    return (rng.random(n) < keep).astype(float), (rng.random(n) < 1 - keep).astype(float)


def test_scores_are_minus_the_loss_or_its_drop():
    np.testing.assert_array_equal(canary_scores([0.5, 2]), [-0.5, -2])
    np.testing.assert_allclose(canary_scores([[0.5, 2], [1, 1]], [0.6, 3]), [[0.1, 1], [-0.4, 2]])
    with pytest.raises(ValueError, match="losses must be finite"):
        canary_scores([0.5, np.nan])
    with pytest.raises(ValueError, match="reference must be finite"):
        canary_scores([0.5], np.inf)
    with pytest.raises(ValueError, match="reference must broadcast"):
        canary_scores([0.5, 1], [[1, 2], [3, 4]])


def test_rates_and_limits_against_scipy():
    inside, outside = gaussian(1.5, 60)
    audit = canary_audit(inside, outside, 1e-5, threshold=1.0)
    hits, alarms = int(np.sum(inside >= 1)), int(np.sum(outside >= 1))
    for rate, limits, count in ((audit.tpr, audit.tpr_limits, hits), (audit.fpr, audit.fpr_limits, alarms)):
        oracle = stats.binomtest(count, 60).proportion_ci(0.95, "exact")
        assert rate == count / 60
        np.testing.assert_allclose(limits, (oracle.low, oracle.high))
    # The bound uses the lower limit of the one and the upper limit of the other.
    low, high = audit.tpr_limits[0], audit.fpr_limits[1]
    both = max(math.log((low - 1e-5) / high), math.log((1 - 1e-5 - high) / (1 - low)))
    assert audit.epsilon_low == pytest.approx(both)


def test_held_out_threshold_tests_the_second_halves():
    inside, outside = gaussian(2, 41)
    audit = canary_audit(inside, outside, 0)
    assert (audit.trainings_in, audit.bound.trials_in, audit.bound.trials_out) == (41, 21, 21)
    assert audit.tpr == np.mean(inside[20:] >= audit.bound.threshold)


def test_ceiling_is_what_a_perfect_attack_gets():
    # From a 60-digit oracle: 100 of 100 and 0 of 100 at delta 1e-5 give 3.281336.
    assert trainings_ceiling(100, 100, 1e-5, 0.05) == pytest.approx(3.281335973268658)
    perfect = canary_audit(np.linspace(9, 8, 200) ** 2 % 1 + 5, np.linspace(3, 1, 200) ** 3 % 1, 1e-5)
    assert perfect.epsilon_low == perfect.ceiling == pytest.approx(3.281335973268658)


def test_bound_exceeds_epsilon_in_at_most_five_per_cent_where_the_attack_is_perfect():
    rng, epsilon, repeats = np.random.default_rng(1), 1.0, 600
    above = 0
    for _ in range(repeats):
        scores = randomised_response(epsilon, 400, rng)
        above += canary_audit(*scores, 0.0, threshold=0.5, claimed=epsilon).violation
    assert stats.binomtest(above, repeats, 0.05, alternative="greater").pvalue > 1e-4


def test_too_small_a_claim_is_contradicted():
    # A Gaussian mechanism with mu = 3 that claims the epsilon of mu = 1.
    claim = float(mu_to_epsilon(1, 1e-5))
    assert canary_audit(*gaussian(3, 2000), 1e-5, claimed=claim, conversion="gdp").violation
    assert not canary_audit(*gaussian(1, 2000), 1e-5, claimed=claim, conversion="gdp").violation


def test_detection_at_a_fixed_rate_keeps_that_rate_with_ties():
    # Whole numbers: many ties. The chance that a fresh "out" score exceeds the threshold must stay at .1.
    rng = np.random.default_rng(2)
    fresh = [detection_rate(rng.poisson(3, 500), rng.poisson(3, 39), 0.1).rate for _ in range(300)]
    assert np.mean(fresh) <= 0.1 + 4 * np.std(fresh) / 300**0.5
    found = detection_rate([0.5, 1, 2, 3], np.arange(19) / 18, 0.05)
    assert (found.threshold, found.rate) == (1.0, 0.5)
    np.testing.assert_allclose((found.low, found.high), stats.binomtest(2, 4).proportion_ci(0.95, "exact"))


def test_detection_needs_enough_trainings_without_the_canary():
    found = detection_rate([9.0, 8.0], np.arange(18.0), 0.05)
    assert (found.threshold, found.rate) == (np.inf, 0.0)
    assert detection_rate([19.0], np.arange(19.0), 0.05).rate == 1.0
    audit = canary_audit([9.0, 8, 7, 9], [1.0, 2, 0, 1], 0)
    assert "needs 19 trainings without it" in str(audit)


def test_all_scores_equal_shows_nothing():
    audit = canary_audit(np.ones(50), np.ones(50), 0.0)
    assert (audit.epsilon_low, audit.auc, audit.detection.rate) == (0, 0.5, 0)


def test_words():
    audit = canary_audit(*gaussian(4, 400), 1e-5, claimed=1.0)
    assert audit.violation
    assert "VIOLATION: the claim of epsilon = 1 is contradicted" in str(audit)
    held = str(canary_audit(*gaussian(4, 400), 1e-5, claimed=8.0))
    assert "is not contradicted" in held
    assert "It could not have been" in held
    assert "Not checked" in held
    assert "Gaussian trade-off" in str(canary_audit(*gaussian(1, 40), 1e-5, conversion="gdp"))
    # Losses given as scores: the commonest mistake is said, and costs power only.
    wrong = canary_audit(*gaussian(-3, 100), 1e-5)
    assert "is the sign right?" in str(wrong)
    assert "is the sign right?" not in str(canary_audit(*gaussian(0, 100), 1e-5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores_in": []}, "scores_in must be a one-dimensional array of at least 1 values"),
        ({"scores_out": []}, "scores_out must be"),
        ({"scores_in": [1.0]}, "scores_in must be a one-dimensional array of at least 2"),
        ({"scores_out": [1.0, np.nan]}, "scores_out must be finite"),
        ({"scores_in": [1.0, np.inf]}, "scores_in must be finite"),
        ({"scores_in": [[1.0, 2.0]]}, "scores_in must be a one-dimensional"),
        ({"scores_in": np.arange(60.0)}, "in the order of the trials"),
        ({"delta": 1.0}, "delta must be in"),
        ({"delta": 0.0, "conversion": "gdp"}, "delta must be in"),
        ({"alpha": 0.0}, "alpha must be in"),
        ({"threshold": "same"}, "threshold must be one of 'held_out'"),
        ({"conversion": "rdp"}, "conversion must be one of"),
        ({"fpr": 0.0}, "fpr must be in"),
        ({"claimed": -1.0}, "claimed must be in"),
    ],
)
def test_wrong_input_is_named(change, message):
    inside, outside = gaussian(1, 30)
    arguments = {"scores_in": inside, "scores_out": outside, "delta": 1e-5, **change}
    with pytest.raises(ValueError, match=message):
        canary_audit(**arguments)
