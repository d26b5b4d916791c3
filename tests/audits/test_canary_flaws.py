"""Separate clipping moves weights and bias together by sqrt(2) C, and an audit convicts it."""

import numpy as np
import pytest

from dprepro.audits.canary_flaws import SeparatelyClipped, clipping_audit, convictions, gaussian_records
from dprepro.mechanisms.dp_sgd import DPSGD

SIZES = {"noise_multiplier": 10**0.5, "clipping_norm": 0.25, "steps": 10, "learning_rate": 1.0}


def test_one_step_of_one_record():
    # Gradient of weights and bias at 0: -1/2 each, both clipped to .25.
    step = [kind(0.0, 0.25, 1.0, 1, 1.0) for kind in (DPSGD, SeparatelyClipped)]
    x, y, rng = np.ones((1, 1)), np.ones(1), np.random.default_rng(0)
    joint, separate = (sgd.fit(x, y, rng) for sgd in step)
    assert np.hypot(joint.weights[0], joint.bias) == pytest.approx(0.25)
    np.testing.assert_allclose((separate.weights[0], separate.bias), 0.25)


def test_without_clipping_both_are_the_same():
    rng = np.random.default_rng(1)
    x, y, _ = gaussian_records(30, 4, rng)
    one, other = (kind(0.0, 1e6, 1.0, 20, 0.5).fit(x, y, rng) for kind in (DPSGD, SeparatelyClipped))
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-12)
    assert one.bias == pytest.approx(other.bias)


def test_the_flaw_is_convicted_and_the_right_clipping_is_not():
    for kind, guilty in ((SeparatelyClipped, True), (DPSGD, False)):
        sgd = kind(SIZES["noise_multiplier"], 0.25, 1.0, 10, 1.0)
        audit = clipping_audit(sgd, 2000, 1e-5, 0.05, np.random.default_rng(2))
        assert audit.violation is guilty, str(audit)
        assert audit.claimed == pytest.approx(4.37717809568122)  # mu = 1: sqrt(10) steps' worth of noise


def test_what_is_saved():
    item = convictions(
        "joint, 0", np.random.default_rng(3), audits=2, trainings=40, delta=1e-5, alpha=0.05, **SIZES
    )
    assert len(item["epsilon_low"]) == 2
    assert item["claimed"] == pytest.approx(4.37718)


def test_subsampling_is_refused():
    with pytest.raises(ValueError, match="sample_rate must be 1"):
        clipping_audit(DPSGD(1.0, 1.0, 0.5, 5, 1.0), 10, 1e-5, 0.05, np.random.default_rng(0))
