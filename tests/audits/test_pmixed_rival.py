"""DP-SGD beside PMixED: the same texts, the account of the training, and what training and noise do."""

from importlib.util import find_spec

import numpy as np
import pytest

from dprepro.audits.pmixed_rival import report
from dprepro.audits.pmixed_study import review_task
from dprepro.mechanisms.accounting import dp_sgd_epsilon

# Looked for, not loaded: that takes two seconds of every process that collects the tests.
pytestmark = pytest.mark.skipif(find_spec("opacus") is None, reason="needs opacus")

SETTING = {
    "texts": 10,
    "delta": 1e-5,
    "clipping_norm": 1.0,
    "sample_rate": 0.005,
    "steps": 4,
    "learning_rate": 2e-3,
}


def test_texts_come_back_from_their_tokens():
    task = review_task(2)
    rows = task.private[:500] + task.test
    texts = [task.lm.tokenizer.decode(row[1:-1]) for row in rows]
    assert [[0, *row, 0] for row in task.lm.tokenizer(texts)["input_ids"]] == rows


def test_training_helps_and_keeps_its_budget():
    task = review_task(10)
    public = [
        -line.sum()
        for line in task.lm.log_probabilities([task.lm.tokenizer.decode(row[1:-1]) for row in task.test])
    ]
    plain = report("plain, 0", np.random.default_rng(1), **SETTING)
    private = report("8, 0", np.random.default_rng(1), **SETTING)
    assert private["tokens"] == plain["tokens"] == [len(row) - 1 for row in task.test]
    assert sum(plain["law"]) < sum(public)
    assert plain["noise_multiplier"] == 0
    spent = dp_sgd_epsilon(private["noise_multiplier"], 0.005, 4, 1e-5)
    assert 7.9 < spent <= 8


def test_bad_input():
    with pytest.raises(ValueError, match="setting must be 'plain' or an epsilon, got 'eight'"):
        report("eight, 0", np.random.default_rng(1), **SETTING)
    with pytest.raises(ValueError, match="sample_rate must be in"):
        report("8, 0", np.random.default_rng(1), **{**SETTING, "sample_rate": 0.0})
