"""The sweep: the default rate holds, a published rate above it does not, the sound account does at both."""

import numpy as np
import pytest

from dprepro.audits.pmixed_sweep import report
from dprepro.audits.pmixed_worst import rare_word_delta
from dprepro.mechanisms.pmixed import PMixED

SETTING = {"epsilon": 8.0, "order": 3, "n_experts": 80, "n_queries": 1024, "delta": 1e-5}


@pytest.mark.parametrize(("rate", "broken"), [("0.03", False), ("0.1", True)])
def test_rates(rate, broken):
    item = report(rate, np.random.default_rng(0), **SETTING)
    assert (item["published, delta"] > SETTING["delta"]) == broken
    assert (item["published, loss"] > item["granted"]) == broken
    assert item["sound, delta"] < SETTING["delta"] / 10
    assert 0.5 * item["granted"] < item["sound, loss"] <= item["granted"]
    assert item["sound, radius"] > item["published, radius"]
    mechanism = PMixED(8, sample_rate=float(rate), account="published")
    word, others = item["published, word"], item["published, others"]
    assert item["published, delta"] == rare_word_delta(mechanism, word, others)
    assert all(type(value) is float for value in item.values())
