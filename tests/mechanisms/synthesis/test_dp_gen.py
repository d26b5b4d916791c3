from dataclasses import replace

import numpy as np
import pytest
import torch

from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA, text_losses, token_rows
from dprepro.mechanisms.synthesis import dp_gen
from dprepro.mechanisms.synthesis.dp_gen import DPGen, TextGenerator
from dprepro.text.tiny_lm import TinyLM, tiny_lm

TEXTS = [
    "a delight from start to end .",
    "one of the best films .",
    "a dull mess .",
    "no .",
    "so bad that it is good .",
]
LABELS = ["good", "good", "bad", "bad", "bad"]


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


def small(layers=1, width=16):
    """A GPT-2 of another size under the same tokenizer, its weights drawn."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=2048,
            n_positions=64,
            n_embd=width,
            n_layer=layers,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
        return GPT2LMHeadModel(config).eval()


def gen(**changes):
    settings = {"epsilon": 2.0, "sample_rate": 1.0, "steps": 2, "learning_rate": 1e-3, "delta": 1e-3}
    return DPGen(**{**settings, **changes})


def fitted(lm, seed=0, texts=TEXTS, labels=LABELS, **changes):
    return gen(**changes).fit(*lm, texts, labels, np.random.default_rng(seed))


def weights(found):
    return torch.cat([weight.flatten() for weight in found.model.parameters()]).detach()


def test_the_epsilon_spent_is_that_of_its_steps(lm):
    found = fitted(lm, epsilon=1.0, sample_rate=0.25, steps=8)
    assert found.epsilon == dp_sgd_epsilon(found.noise_multiplier, 0.25, 8, 1e-3, "prv")
    assert 0.95 < found.epsilon <= 1
    assert found.delta == 1e-3
    # Another account of the same noise: both are upper bounds, PLD the tighter one.
    assert 0.95 < dp_sgd_epsilon(found.noise_multiplier, 0.25, 8, 1e-3, "pld") < found.epsilon


@pytest.mark.parametrize(("records", "delta"), [(None, 1 / 5), (40, 1 / 40)])
def test_delta_is_one_over_the_records_unless_given(records, delta, lm):
    found = gen(delta=None, accountant="pld").fit(
        *lm, TEXTS, LABELS, np.random.default_rng(0), records=records
    )
    assert found.delta == delta
    assert found.epsilon == dp_sgd_epsilon(found.noise_multiplier, 1.0, 2, delta)


def test_it_is_dp_sgd_on_labelled_texts(lm):
    """One step at full participation, by DPFineTune on texts that carry their labels."""
    marked = [f"{label}: {text}" for text, label in zip(TEXTS, LABELS, strict=True)]
    for share in (1.0, 0.5, 0.0):
        found = fitted(lm, steps=1, noise_share=share)
        by_hand = DPFineTune(share * found.noise_multiplier, 1.0, 1.0, 1, 1e-3)
        expected = by_hand.fit(*lm, marked, np.random.default_rng(0))
        torch.testing.assert_close(weights(found), weights(expected), rtol=0, atol=0)


def test_a_planted_bug_changes_the_noise_and_not_the_account(lm):
    honest, none = fitted(lm), fitted(lm, noise_share=0.0)
    assert (none.epsilon, none.noise_multiplier) == (honest.epsilon, honest.noise_multiplier)
    assert not torch.equal(weights(honest), weights(none))


def test_infinite_epsilon_is_neither_clipping_nor_noise(lm):
    found = fitted(lm, epsilon=np.inf, sample_rate=0.5, clipping_norm=1e-6)
    marked = [f"{label}: {text}" for text, label in zip(TEXTS, LABELS, strict=True)]
    expected = DPFineTune(0.0, np.inf, 0.5, 2, 1e-3).fit(*lm, marked, np.random.default_rng(0))
    torch.testing.assert_close(weights(found), weights(expected), rtol=0, atol=0)
    assert found.epsilon == np.inf
    assert found.noise_multiplier == 0


def test_the_same_seed_gives_the_same_texts_and_leaves_torch_alone(lm):
    state = torch.random.get_rng_state()
    first, second, other = (
        fitted(lm, seed).sample({"good": 3, "bad": 2}, np.random.default_rng(seed), 8) for seed in (0, 0, 1)
    )
    assert first == second != other
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)])
def test_another_size_of_model(lora, lm):
    found = gen(lora=lora).fit(small(), lm.tokenizer, TEXTS, LABELS, np.random.default_rng(0))
    wrote = found.sample({"bad": 2, "good": 1}, np.random.default_rng(0), 4)
    assert wrote.labels == ["bad", "bad", "good"]
    assert len(wrote.texts) == 3
    assert len(weights(found)) == sum(weight.numel() for weight in small().parameters())


def test_texts_are_of_their_label():
    """Two classes without a word in common, learnt by heart: each label calls for its own words."""
    lm = tiny_lm()
    texts = ["one one one .", "two two two ."] * 4
    found = DPGen(np.inf, 1.0, 25, 5e-3).fit(*lm, texts, ["odd", "even"] * 4, np.random.default_rng(0))
    wrote = found.sample({"even": 20, "odd": 20}, np.random.default_rng(0), 12)
    assert wrote.labels == ["even"] * 20 + ["odd"] * 20
    assert sum(text == "two two two ." for text in wrote.texts[:20]) >= 18
    assert sum(text == "one one one ." for text in wrote.texts[20:]) >= 18
    assert (
        found.losses(["one one one ."] * 2, ["odd", "even"])[1]
        > 10 * found.losses(["one one one ."], ["odd"])[0]
    )


def test_words_come_with_the_models_probabilities(lm):
    """First words after a label against the softmax of the model: whole vocabulary, temperature 1."""
    found = TextGenerator(*lm, ("good",), 0.0, 0.0, 0.0)
    prompt = token_rows(lm.tokenizer, ["good:"], 128)[0][:-1]
    with torch.no_grad():
        expected = lm.model(torch.tensor([prompt])).logits[0, -1].softmax(0).numpy()
    wrote = found.sample({"good": 4000}, np.random.default_rng(0), 1)
    shares = {text: wrote.texts.count(text) / 4000 for text in set(wrote.texts)}
    for token in np.argsort(-expected)[:8]:
        word = lm.tokenizer.decode([int(token)]).removeprefix(" ") if token else ""
        alike = sum(
            p for t, p in enumerate(expected) if lm.tokenizer.decode([t]).removeprefix(" ") == word and t
        )
        sure = expected[0] + alike if word == "" else alike
        assert abs(shares.get(word, 0) - sure) < 4 * np.sqrt(sure * (1 - sure) / 4000)


def test_losses_are_the_models_own_without_the_label(lm):
    found = TextGenerator(*lm, ("bad", "good"), 0.0, 0.0, 0.0)
    marked = [f"{label}: {text}" for text, label in zip(TEXTS, LABELS, strict=True)]
    scores = TinyLM(*lm).log_probabilities(marked)
    skipped = {label: len(lm.tokenizer(f"{label}:")["input_ids"]) for label in set(LABELS)}
    expected = [-line[skipped[label] :].mean() for line, label in zip(scores, LABELS, strict=True)]
    np.testing.assert_allclose(found.losses(TEXTS, LABELS), expected, rtol=1e-5)
    with torch.no_grad():  # with the label it is another number
        whole = text_losses(lm.model, token_rows(lm.tokenizer, marked, 128)).numpy()
    assert (np.abs(whole - expected) > 0.01).all()


def test_blank_texts_stay_and_are_counted(lm, monkeypatch):
    found = TextGenerator(*lm, ("good",), 0.0, 0.0, 0.0)
    monkeypatch.setattr(TextGenerator, "_written", lambda *rest: ["", "fine", " \n"])
    wrote = found.sample({"good": 3}, np.random.default_rng(0))
    assert wrote == (["", "fine", " \n"], ["good"] * 3, 2)


def test_many_texts_come_in_batches(lm, monkeypatch):
    monkeypatch.setattr(dp_gen, "_BATCH", 2)
    found = TextGenerator(*lm, ("bad", "good"), 0.0, 0.0, 0.0)
    wrote = found.sample({"good": 5, "bad": 1}, np.random.default_rng(0), 3)
    assert len(wrote.texts) == 6
    assert wrote.labels == ["good"] * 5 + ["bad"]
    one = replace(found).losses(TEXTS, LABELS)
    monkeypatch.setattr(dp_gen, "_BATCH", 9)
    np.testing.assert_allclose(one, found.losses(TEXTS, LABELS), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\], got 0"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0"),
        ({"delta": 1.0}, "delta must be"),
        ({"clipping_norm": np.inf}, "clipping_norm must be"),
        ({"noise_share": 1.5}, r"noise_share must be in \[0, 1\], got 1.5"),
        ({"sample_rate": 0.0}, "sample_rate must be"),
        ({"steps": 0}, "steps must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"accountant": "gdp"}, "accountant must be one of"),
    ],
)
def test_bad_settings_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        gen(**changes)


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ([], [], "texts must be a sequence of at least one text"),
        ("a text", LABELS, "texts must be a sequence"),
        (["fine", " "], ["good", "bad"], "texts must not be blank, got ' ' at index 1"),
        (TEXTS, LABELS[:4], "one label for each of the 5 texts, got 4"),
        (TEXTS, ["good"] * 5, "two classes at least, got 'good' alone"),
        (TEXTS, ["good", "bad", "bad", "bad", "bad"], "2 texts at least, got 1 for 'good'"),
        (TEXTS, [1, 1, 0, 0, 0], "labels must be a sequence of at least one text"),
        (["word " * 130, *TEXTS[1:]], LABELS, "texts must have 1 to 127 tokens"),
    ],
)
def test_bad_texts_are_named(texts, labels, named, lm):
    with pytest.raises(ValueError, match=named):
        fitted(lm, texts=texts, labels=labels, accountant="pld")


@pytest.mark.parametrize(
    ("counts", "more", "named"),
    [
        ({}, 4, "counts must name a class among bad, good, got none"),
        ({"ugly": 1}, 4, "label must be one of 'bad', 'good', got 'ugly'"),
        ({"good": 0}, 4, "count must be a whole number of at least 1"),
        ({"good": 1}, 0, "max_tokens must be a whole number"),
        ({"good": 1}, 128, r"max_tokens must be at most 12\d after 'good', got 128"),
    ],
)
def test_bad_orders_are_named(counts, more, named, lm):
    found = TextGenerator(*lm, ("bad", "good"), 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=named):
        found.sample(counts, np.random.default_rng(0), more)


def test_losses_need_known_labels(lm):
    with pytest.raises(ValueError, match="label must be one of 'good', got 'bad'"):
        TextGenerator(*lm, ("good",), 0.0, 0.0, 0.0).losses(["no"], ["bad"])
