"""Saved blocks to snapshots, by hand."""

import numpy as np
import pytest

from dprepro.audits.pipeline_report import clean_outputs, constancy, detection, moved, separations, spread
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.readings import KeywordCounts, LabelUtilities

VOTES = {
    "votes, one label, copying, 0": {"with_canary": [0, 2, 1, 1, 1, 1], "without_canary": [0, 3, 0, 1, 2, 0]},
    "votes, one label, copying, 1": {"with_canary": [0, 2, 1], "without_canary": [0, 3, 0]},
    "votes, one label, direct, 0": {"with_canary": [3, 0, 2, 1], "without_canary": [3, 0, 3, 0]},
}


def test_votes():
    found = clean_outputs(VOTES, "votes, one label, copying")
    np.testing.assert_array_equal(found.with_canary, [[0, 2, 1], [1, 1, 1], [0, 2, 1]])
    np.testing.assert_array_equal(found.without_canary, [[0, 3, 0], [1, 2, 0], [0, 3, 0]])
    assert found.provenance["model"] == "smollm2-135m-instruct"
    np.testing.assert_allclose(moved(found), 2**0.5)
    assert clean_outputs(VOTES, "votes, one label, direct").with_canary.shape == (2, 2)
    assert detection(clean_outputs(VOTES, "votes, one label, direct"), 1) == 0.75


def test_log_probabilities():
    logs = np.log([[[0.2, 0.1, 0.1], [0.1, 0.3, 0.1], [0.2, 0.2, 0.2]]] * 2)
    canary = logs.copy()
    canary[:, 1] = np.log([0.01, 0.01, 0.9])
    block = {"with_canary": canary.ravel().tolist(), "without_canary": logs.ravel().tolist()}
    mechanism = ProductOfExperts(1.0, 3)
    reading = LabelUtilities([" a", " b", " c"], mechanism)
    found = clean_outputs({"experts, sentiment, copying, 0": block}, "experts, sentiment, copying", reading)
    np.testing.assert_allclose(found.with_canary, mechanism.utilities(canary))
    gain, loss = np.log(0.9 / 0.92) - np.log(0.2), max(np.log(0.01 / 0.92), -2) - np.log(0.6)
    np.testing.assert_allclose(separations(found, mechanism), [(gain - loss) / 4] * 2)


def test_texts():
    block = {"with_canary": "a b\nb\nc\nb\n\na", "without_canary": "a\nb\nc\nb\nb\na"}
    found = clean_outputs(
        {"texts, replies, copying, 0": block}, "texts, replies, copying", KeywordCounts(["b", "c"])
    )
    np.testing.assert_array_equal(found.with_canary, [[2, 1], [1, 0]])
    np.testing.assert_array_equal(found.without_canary, [[1, 1], [2, 0]])


def test_spread_and_constancy():
    rows = np.array([[0.0, 1], [0, 1], [0, 1], [2, 5]])
    assert spread(rows) == pytest.approx(1 + 4)
    assert spread(rows[:3]) == 0
    assert constancy(rows)[:2] == (3, 4)
    equal = constancy(np.zeros((120, 3)))
    assert equal.least == pytest.approx(0.025 ** (1 / 120))  # the binomial tail, solved by hand
    assert constancy(np.zeros((120, 3)), alpha=0.1).least == pytest.approx(0.05 ** (1 / 120))


def test_bad_input():
    with pytest.raises(
        ValueError, match="start must begin the key of a block, got 'votes, sentiment, copying'"
    ):
        clean_outputs(VOTES, "votes, sentiment, copying")
    with pytest.raises(ValueError, match="reading must be given for experts, got None"):
        clean_outputs({"experts, one label, copying, 0": {}}, "experts, one label, copying")
    with pytest.raises(ValueError, match="alpha must be in"):
        constancy(np.zeros((3, 1)), alpha=1.0)
