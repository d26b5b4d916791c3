import sys

import numpy as np
import pytest
import torch

from dprepro.mechanisms import dp_finetune, dp_finetune_cost
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA
from dprepro.mechanisms.dp_finetune_cost import (
    gradient_bytes,
    gradients,
    held_gradients,
    peak_memory,
    short_snippets,
    step_seconds,
    utility,
)
from dprepro.text.tiny_lm import tiny_lm

TEXTS = ["a delight from start to end .", "a dull and lifeless mess .", "no ."]
ADAPTERS = 4 * 8 * (128 + 384)  # layers, rank, in + out of c_attn
UTILITY = {
    "data_seed": 1,
    "texts": 8,
    "held_out": 4,
    "longest": 16,
    "delta": 1e-4,
    "clipping_norm": 1.0,
    "sample_rate": 1.0,
    "steps": 4,
    "learning_rate": 1e-3,
    "lora_learning_rate": 1e-2,
}


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


def test_bytes_by_hand():
    assert gradient_bytes(134_515_008, 32) == 17_217_921_024
    with pytest.raises(ValueError, match="texts"):
        gradient_bytes(10, 0)


@pytest.mark.parametrize("lora", [None, LoRA(), LoRA(rank=2)])
def test_held_gradients_are_weights_times_texts(lm, lora):
    found = held_gradients(*lm, TEXTS, lora, np.random.default_rng(0))
    assert found.weights == sum(weight.numel() for weight in lm.model.parameters())
    assert found.trained == (found.weights if lora is None else ADAPTERS * lora.rank // 8)
    assert found.bytes == 4 * 3 * found.trained == gradient_bytes(found.trained, 3)
    assert not any(hasattr(weight, "grad_sample") for weight in lm.model.parameters())


def test_items_of_gradients():
    item = gradients("tiny, LoRA", np.random.default_rng(0), texts=2, longest=12)
    assert item == {"weights": 1_071_872, "trained": ADAPTERS, "bytes": 2 * 4 * ADAPTERS}
    for key, message in (("tiny, some", "weights must be one of"), ("huge, LoRA", "model must be one of")):
        with pytest.raises(ValueError, match=message):
            gradients(key, np.random.default_rng(0), texts=2, longest=12)


def test_steps_have_their_time(lm, monkeypatch):
    """A clock that shows the number of texts that went through the model, ten times as much in the first step."""
    clock = [0.0]
    losses = dp_finetune.text_losses

    def counted(model, rows):
        assert torch.get_num_threads() == 1
        clock[0] += len(rows) * (10 if clock[0] < 30 else 1)
        return losses(model, rows)

    monkeypatch.setattr(dp_finetune, "text_losses", counted)
    monkeypatch.setattr(dp_finetune_cost.time, "process_time", lambda: clock[0])
    before = {name: weight.clone() for name, weight in lm.model.state_dict().items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    for lora in (None, LoRA()):
        clock[0] = 0.0
        tuning = DPFineTune(1.0, 1.0, 1.0, 1, 1e-3, lora, chunk=2)
        assert step_seconds(tuning, lm, TEXTS, np.random.default_rng(0), 2) == [3, 3]
    assert torch.get_num_threads() == 2  # as before
    torch.set_num_threads(threads)
    assert all(torch.equal(weight, before[name]) for name, weight in lm.model.state_dict().items())
    with pytest.raises(ValueError, match="repeats"):
        step_seconds(tuning, lm, TEXTS, np.random.default_rng(0), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_peaks_are_those_of_the_gradients():
    texts = short_snippets("train", 64, 12, np.random.default_rng(0))
    private = DPFineTune(1.0, 1.0, 1.0, 1, 1e-3)
    found = peak_memory([DPFineTune(1.0, 1.0, 1.0, 1, 1e-3, LoRA()), private], texts)
    all_weights = gradient_bytes(1_071_872, 64)
    # All gradients at once, and at most three times as much (temporary copies, activations).
    assert all_weights < found[1] < 3 * all_weights
    assert 0 <= found[0] < all_weights / 2


def test_no_peaks_where_the_system_does_not_say(monkeypatch):
    monkeypatch.setattr(dp_finetune_cost.sys, "platform", "win32")
    assert peak_memory([], []) is None


def test_short_snippets(lm):
    found = short_snippets("train", 20, 10, np.random.default_rng(0))
    assert len(set(found)) == 20
    assert max(map(len, lm.tokenizer(found)["input_ids"])) <= 10
    assert found == short_snippets("train", 20, 10, np.random.default_rng(0))
    with pytest.raises(ValueError, match="count must be at most"):
        short_snippets("test", 10**5, 10, np.random.default_rng(0))


def test_utility():
    base = utility("base", np.random.default_rng(0), **UTILITY)
    found = {
        key: utility(key, np.random.default_rng(0), **UTILITY)
        for key in ("all weights, plain, 0", "LoRA, plain, 0", "LoRA, 8, 0")
    }
    assert set(base) == {"perplexity"}
    assert found["all weights, plain, 0"]["perplexity"] < base["perplexity"]
    assert found["LoRA, plain, 0"]["perplexity"] != base["perplexity"]
    assert [item["trained"] for item in found.values()] == [1_071_872, ADAPTERS, ADAPTERS]
    assert found["LoRA, plain, 0"]["noise_multiplier"] == 0
    noise = found["LoRA, 8, 0"]["noise_multiplier"]
    assert 7.9 < DPFineTune(noise, 1.0, 1.0, 4, 1e-3).epsilon(1e-4) <= 8
    assert found["LoRA, 8, 0"] == utility("LoRA, 8, 0", np.random.default_rng(0), **UTILITY)


def test_plain_is_in_double_precision(monkeypatch):
    seen = []
    fit = DPFineTune.fit

    def watch(self, model, *arguments):
        seen.append({weight.dtype for weight in model.parameters()})
        return fit(self, model, *arguments)

    monkeypatch.setattr(DPFineTune, "fit", watch)
    short = {**UTILITY, "texts": 2, "steps": 1}
    for key in ("LoRA, plain, 0", "LoRA, 2, 0"):
        utility(key, np.random.default_rng(0), **short)
    assert seen == [{torch.float64}, {torch.float32}]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("some, 8, 0", "weights must be one of"),
        ("LoRA, much, 0", "could not convert"),
        ("LoRA, -1, 0", "epsilon"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        utility(key, np.random.default_rng(0), **UTILITY)
