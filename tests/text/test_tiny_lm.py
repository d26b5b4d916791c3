"""The small causal model: the stored one is that of its manifest, probabilities as in transformers, samples."""

import functools
from itertools import chain

import numpy as np
import pytest
from scipy import stats

from dprepro.base.paths import DATA
from dprepro.text import tiny_lm_training as training
from dprepro.text.pretrained import load, manifest
from dprepro.text.public_text import public_pieces
from dprepro.text.tiny_lm import TinyLM, tiny_lm

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = [
    "She was happy.",
    "A",
    "the battery of this camera lasts for two days",
    "Mr. Knightley, naïve – 15 %",
]


@pytest.fixture(scope="module", autouse=True)
def encoded_once():
    """Turn the same texts into tokens once, which takes longer than the first steps of a training."""
    known = functools.cache(training.tokens_of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "tokens_of", lambda tokenizer, texts: known(tokenizer, tuple(texts)))
        yield


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


@pytest.fixture(scope="module")
def held_out(lm):
    return training.held_out_rows(lm.tokenizer.backend_tokenizer)


@pytest.fixture(scope="module")
def figures():
    return manifest("tiny-lm")["held_out"]


def test_held_out_perplexity_is_the_one_of_the_manifest(lm, held_out, figures):
    # Other processors move a mean over thousands of log-probabilities by less than 1e-5.
    assert training.perplexities(lm.model, held_out) == pytest.approx(figures["after"], rel=1e-4)


def test_the_text_interface_gives_the_same(lm, figures):
    texts = public_pieces("test")["products"]
    few = [texts[i * len(texts) // training.HELD_OUT] for i in range(training.HELD_OUT)]
    assert lm.perplexity(few) == pytest.approx(figures["after"]["products"], rel=1e-4)


def test_better_than_untrained_and_than_frequencies(lm, held_out, figures):
    untrained = training.perplexities(training.new_model(), held_out)
    assert untrained == pytest.approx(figures["before"], rel=1e-4)
    frequencies = training.unigram(lm.tokenizer.backend_tokenizer, held_out)
    assert frequencies == pytest.approx(figures["unigram"], rel=1e-9)
    after = figures["after"]
    assert after.keys() == {"novels", "editorials", "products", "all"}
    for name, value in after.items():
        assert value < 0.3 * frequencies[name]
        assert value < 0.1 * untrained[name]


def test_unigram_by_hand(lm, monkeypatch):
    monkeypatch.setattr(training, "public_pieces", lambda side: {"one": ["aa"], "two": ["ab", "a"]})
    backend = lm.tokenizer.backend_tokenizer
    a, b, end = (backend.token_to_id(text) for text in ("a", "b", training.END))
    # 4 a, 1 b and 3 ends, and one more of each of the 2,048
    monkeypatch.setattr(
        training, "tokens_of", lambda _, texts: [[{"a": a, "b": b}[c] for c in t] for t in texts]
    )
    found = training.unigram(backend, {"x": [[a]], "y": [[b, a]]})
    share = {a: 5 / 2056, b: 2 / 2056, end: 4 / 2056}
    assert found["x"] == pytest.approx((share[a] * share[end]) ** (-1 / 2))
    assert found["y"] == pytest.approx((share[b] * share[a] * share[end]) ** (-1 / 3))
    assert found["all"] == pytest.approx((share[a] ** 2 * share[b] * share[end] ** 2) ** (-1 / 5))


def test_training_begins_as_it_did(lm):
    tokenizer = lm.tokenizer.backend_tokenizer
    _, losses = training.fit(tokenizer, steps=5)
    assert losses == pytest.approx(manifest("tiny-lm")["first_losses"], abs=1e-3)
    _, again = training.fit(tokenizer, steps=3)
    assert again == losses[:3]  # to the last bit on one machine


def test_the_tokenizer_comes_out_again():
    again = training.new_tokenizer(chain.from_iterable(public_pieces("train").values()))
    assert (again.to_str(pretty=True) + "\n").encode() == load("tiny-lm")["tokenizer.json"]


def test_a_model_of_transformers(lm):
    model, tokenizer = lm
    assert isinstance(model, transformers.GPT2LMHeadModel)
    assert not model.training
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.lm_head.weight is model.transformer.wte.weight
    assert sum(weight.numel() for weight in model.parameters()) == 1_071_872
    assert len(tokenizer) == model.config.vocab_size == 2048
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 0, 1)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_its_folder_loads_through_transformers(lm):
    again = transformers.AutoModelForCausalLM.from_pretrained(DATA / "models" / "tiny-lm", dtype="float32")
    inputs = lm.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.inference_mode():
        assert torch.equal(again(**inputs).logits, lm.model(**inputs).logits)


def test_loading_gives_a_model_of_its_own(lm):
    state = torch.get_rng_state()
    other = tiny_lm()
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        other.model.transformer.wte.weight.zero_()
    assert lm.model.transformer.wte.weight.abs().sum() > 0


def test_log_probabilities_against_the_loss_of_transformers(lm):
    found = lm.log_probabilities(TEXTS)
    for text, scores in zip(TEXTS, found, strict=True):
        tokens = torch.tensor([[0, *lm.tokenizer(text)["input_ids"], 0]])
        with torch.inference_mode():
            loss = lm.model(input_ids=tokens, labels=tokens).loss.item()
        assert scores.shape == (tokens.shape[1] - 1,)
        assert -scores.mean() == pytest.approx(loss, rel=1e-5)
    assert lm.perplexity(TEXTS) == pytest.approx(np.exp(-np.concatenate(found).mean()))


def test_batches_and_order_leave_the_scores_alone(lm):
    long = "word " * 100
    found = lm.log_probabilities([*TEXTS, long])
    for size, texts in ((1, [*TEXTS, long]), (2, [long, *TEXTS[::-1]])):
        again = lm.log_probabilities(texts, batch_size=size)
        for one, other in zip(found, again if size == 1 else again[::-1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
    assert lm.log_probabilities([]) == []


def test_samples_repeat_and_leave_torch_alone(lm):
    state = torch.get_rng_state()
    texts = lm.sample(5, np.random.default_rng(1), "She was", max_tokens=12, batch_size=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert lm.sample(5, np.random.default_rng(1), "She was", max_tokens=12, batch_size=2) == texts
    assert lm.sample(5, np.random.default_rng(2), "She was", max_tokens=12, batch_size=2) != texts
    assert all(text.startswith("She was") for text in texts)
    assert len(set(texts)) == 5
    assert "<|" not in "".join(texts)


def test_samples_come_with_the_probabilities_stated(lm):
    """First tokens against the model's own distribution, rare ones taken together."""
    n = 1500
    with torch.inference_mode():
        share = lm.model(torch.tensor([[0]])).logits[0, -1].double().softmax(dim=0).numpy()
    common = np.flatnonzero(share > 0.01)
    drawn = lm.sample(n, np.random.default_rng(3), max_tokens=1, batch_size=n)
    texts = [lm.tokenizer.decode([token]) for token in common]
    counts = [drawn.count(text) for text in texts]
    expected = n * np.append(share[common], 1 - share[common].sum())
    assert len(common) > 10
    assert stats.chisquare([*counts, n - sum(counts)], expected).pvalue > 1e-4


def test_cold_samples_are_greedy(lm):
    drawn = lm.sample(2, np.random.default_rng(4), "She was", max_tokens=6, temperature=1e-4)
    begin = torch.tensor([[0, *lm.tokenizer("She was")["input_ids"]]])
    greedy = lm.model.generate(
        begin, attention_mask=torch.ones_like(begin), max_new_tokens=6, do_sample=False
    )
    assert drawn == [lm.tokenizer.decode(greedy[0], skip_special_tokens=True)] * 2


def test_texts_that_are_none(lm):
    for texts in ("She", ["She", 1], [None]):
        with pytest.raises(ValueError, match="texts must be a sequence of texts"):
            lm.log_probabilities(texts)
    with pytest.raises(ValueError, match="texts must not be empty, got '' at index 1"):
        lm.log_probabilities(["She", ""])
    with pytest.raises(ValueError, match="texts must hold a text at least, got none"):
        lm.perplexity([])


def test_texts_longer_than_the_window(lm):
    longest, longer = "{" * 127, "{" * 128  # no token has two of them
    assert len(lm.log_probabilities([longest])[0]) == 128
    with pytest.raises(ValueError, match=r"texts must have at most 127 tokens .* got 128 at index 1"):
        lm.log_probabilities(["She", longer])
    with pytest.raises(ValueError, match=r"prompt must have at most 7 tokens .* got 128"):
        lm.sample(1, np.random.default_rng(0), longer, max_tokens=120)
    with pytest.raises(ValueError, match="max_tokens must be at most 127, got 128"):
        lm.sample(1, np.random.default_rng(0), max_tokens=128)


@pytest.mark.parametrize(
    ("argument", "value"), [("n", 0), ("max_tokens", 0), ("temperature", 0), ("batch_size", 0.5)]
)
def test_numbers_outside_their_domain(argument, value):
    arguments = {"n": 1, "rng": np.random.default_rng(0), argument: value}
    with pytest.raises(ValueError, match=f"{argument} must be"):
        TinyLM(None, None).sample(**arguments)
