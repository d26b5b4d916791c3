import numpy as np
import pytest
import torch

from dprepro.audits.canary_new_tokens import last_token_losses, new_token_canaries, with_new_tokens
from dprepro.mechanisms.dp_finetune import DPFineTune
from dprepro.text.tiny_lm import TinyLM, tiny_lm

PREFIXES = ["the film was about a", "she said that the", "there is no reason for", "i never saw a better"]


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


@pytest.fixture(scope="module")
def extended(lm):
    return with_new_tokens(*lm, 4, np.random.default_rng(0))


def test_the_model_given_stays_and_old_tokens_keep_their_weights(lm, extended):
    assert len(lm.tokenizer) == 2048
    assert len(extended.tokenizer) == 2052
    before, after = lm.model.get_input_embeddings().weight, extended.model.get_input_embeddings().weight
    assert before.shape == (2048, 128)
    assert torch.equal(before, after[:2048])
    assert extended.model.get_output_embeddings().weight is after
    new = after[2048:]
    assert torch.unique(new, dim=0).shape == (4, 128)
    assert 0.5 < (new.std() / before.std()).item() < 2
    again = with_new_tokens(*lm, 4, np.random.default_rng(0))
    assert torch.equal(again.model.get_input_embeddings().weight, after)


def test_a_canary_is_its_prefix_and_one_token(lm, extended):
    texts = new_token_canaries(PREFIXES, extended.tokens, extended.tokenizer)
    for number, (text, prefix) in enumerate(zip(texts, PREFIXES, strict=True)):
        tokens = extended.tokenizer(text)["input_ids"]
        # Nothing between them: a token for the space would take its part of the gradient.
        assert tokens == [*extended.tokenizer(prefix)["input_ids"], 2048 + number]
    alone = new_token_canaries([""] * 4, extended.tokens, extended.tokenizer)
    assert extended.tokenizer(alone)["input_ids"] == [[2048 + number] for number in range(4)]
    # Its own token may be the beginning, too.
    often = new_token_canaries([f"{t} {t}" for t in extended.tokens], extended.tokens, extended.tokenizer)
    assert extended.tokenizer(often)["input_ids"] == [[2048 + number] * 3 for number in range(4)]


def test_without_spread_all_new_tokens_start_alike(lm):
    found = with_new_tokens(*lm, 3, np.random.default_rng(0), spread=0.0)
    weights = found.model.get_input_embeddings().weight
    torch.testing.assert_close(weights[2048:], weights[:2048].mean(0).expand(3, -1))
    same = last_token_losses(*found[:2], new_token_canaries(["so"] * 3, found.tokens, found.tokenizer))
    np.testing.assert_allclose(same, same[0], rtol=1e-6)
    half = with_new_tokens(*lm, 3, np.random.default_rng(0), spread=0.5).model.get_input_embeddings().weight
    whole = with_new_tokens(*lm, 3, np.random.default_rng(0)).model.get_input_embeddings().weight
    torch.testing.assert_close(half[2048:] - weights[2048:], 0.5 * (whole[2048:] - weights[2048:]))


def test_the_loss_is_that_of_the_last_token(extended):
    texts = new_token_canaries(PREFIXES, extended.tokens, extended.tokenizer)
    expected = [-s[-2] for s in TinyLM(extended.model, extended.tokenizer).log_probabilities(texts)]
    np.testing.assert_allclose(
        last_token_losses(extended.model, extended.tokenizer, texts, 3), expected, rtol=1e-5
    )


def test_training_shows_on_the_inserted_ones(extended):
    texts = new_token_canaries(PREFIXES, extended.tokens, extended.tokenizer)
    plain = DPFineTune(0, np.inf, 1.0, 6, 3e-3)
    tuned = plain.fit(extended.model, extended.tokenizer, texts[:2], np.random.default_rng(1)).model
    drop = last_token_losses(extended.model, extended.tokenizer, texts) - last_token_losses(
        tuned, extended.tokenizer, texts
    )
    assert drop[:2].min() > drop[2:].max() + 1


def test_tokens_that_are_there_already(extended):
    with pytest.raises(ValueError, match="must not have tokens such as '<canary 0>'"):
        with_new_tokens(extended.model, extended.tokenizer, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["<canary 0>"], "tokens must be 2 different"),
        (["<canary 0>", "<canary 0>"], "tokens must be 2 different"),
        (["<canary 0>", "zyzzyva"], r"got 'zyzzyva', which it splits into \["),
    ],
)
def test_bad_tokens(extended, tokens, message):
    with pytest.raises(ValueError, match=message):
        new_token_canaries(PREFIXES[:2], tokens, extended.tokenizer)


@pytest.mark.parametrize(("count", "spread", "message"), [(0, 1.0, "count"), (2, -0.1, "spread")])
def test_bad_extensions(lm, count, spread, message):
    with pytest.raises(ValueError, match=message):
        with_new_tokens(*lm, count, np.random.default_rng(0), spread)
