"""Models of three sizes: what is cut off, and the rule on results made up so that the answer is known."""

import numpy as np
import pytest

from dprepro.audits import synbench_sizes
from dprepro.audits.synbench_sizes import by_size, claim, public_model
from dprepro.text.tiny_lm import tiny_lm


def result(scores):
    """Saved values: scores[series] from the smallest to the largest model."""
    return {
        f"{layers}, 4, {number}": {"macro": value, "weights": 1000 * layers}
        for number, line in enumerate(scores)
        for layers, value in zip((4, 1, 2), (line[2], line[0], line[1]), strict=True)
    }


def test_series_go_from_small_to_large():
    assert by_size(result([[0.1, 0.2, 0.3], [0.5, 0.4, 0.6]])) == {
        ("4", "0"): [0.1, 0.2, 0.3],
        ("4", "1"): [0.5, 0.4, 0.6],
    }


def test_the_three_outcomes():
    rising = claim(result([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.1, 0.3, 0.4]]))
    assert (rising.outcome, rising.n) == ("FAILS", 3)
    assert rising.effect == pytest.approx((0.2 + 0.2 + 0.3) / 3)
    assert claim(result([[0.3, 0.31, 0.3], [0.3, 0.29, 0.31], [0.32, 0.3, 0.31]])).outcome == "HOLDS"
    assert claim(result([[0.1, 0.5, 0.4], [0.5, 0.2, 0.1], [0.3, 0.1, 0.6]])).outcome == "UNDECIDED"
    with pytest.raises(ValueError, match="two series at least, got 1"):
        claim(result([[0.1, 0.2, 0.3]]))


def test_a_model_with_fewer_layers_writes_and_has_fewer_weights(monkeypatch):
    pieces = [f"It is a truth universally acknowledged, number {number}." for number in range(300)]
    monkeypatch.setattr(
        synbench_sizes, "public_pieces", lambda side: {"novels": pieces}
    )  # reading them takes long
    public_model.cache_clear()
    whole = sum(weight.numel() for weight in tiny_lm().model.parameters())
    made, perplexity = public_model(1, 1, 0)
    weights = sum(weight.numel() for weight in made.model.parameters())
    layer = sum(weight.numel() for weight in made.model.transformer.h[0].parameters())
    assert whole - weights == 3 * layer
    assert 1 < perplexity < 2048  # of as many tokens
    assert len(made.sample(2, np.random.default_rng(0), max_tokens=4)) == 2
    with pytest.raises(ValueError, match="layers must be at most 4, got 5"):
        public_model(5, 1, 0)
    public_model.cache_clear()
