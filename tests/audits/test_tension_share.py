import numpy as np
import pytest
import torch

from dprepro.audits.canary_new_tokens import new_token_canaries, with_new_tokens
from dprepro.audits.tension_share import expected_area, shares
from dprepro.mechanisms.dp_finetune import DPFineTune, text_losses, token_rows
from dprepro.stats.tradeoff import auc
from dprepro.text.tiny_lm import tiny_lm


@pytest.fixture(scope="module")
def extended():
    return with_new_tokens(*tiny_lm(), 3, np.random.default_rng(0), spread=0.0)


def canary(extended, prefix):
    return new_token_canaries([prefix], extended.tokens[:1], extended.tokenizer)[0]


def test_gradient_by_small_steps(extended):
    """The gradients on the own row by central differences."""
    text, token = canary(extended, "the film"), extended.tokens[0]
    found = shares(extended.model, extended.tokenizer, text, token)
    model = with_new_tokens(*tiny_lm(), 3, np.random.default_rng(0), spread=0.0).model.double()
    table, row = model.get_input_embeddings().weight, token_rows(extended.tokenizer, [text], 128)

    def slope(of):
        """Gradient on the own row by central differences."""
        values = np.empty(128)
        for i in range(128):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    table[2048, i] += sign * 1e-5
                    ends.append(of())
                    table[2048, i] -= sign * 1e-5
            values[i] = (ends[0] - ends[1]) / 2e-5
        return values

    def loss():
        return text_losses(model, row).item()

    def score():
        return -model(input_ids=torch.tensor([row[0][:-2]])).logits[0, -1].log_softmax(-1)[2048].item()

    with torch.no_grad():
        own, by_score = slope(loss), slope(score)
    assert found.own * found.norm == pytest.approx(np.linalg.norm(own), rel=1e-4)
    seen = own @ by_score / np.linalg.norm(by_score)
    assert found.seen * found.norm == pytest.approx(seen, rel=1e-4)


def test_a_token_that_stands_alone_is_seen_best(extended):
    token = extended.tokens[0]
    found = [
        shares(extended.model, extended.tokenizer, canary(extended, prefix), token)
        for prefix in ("the film", "the", token * 5)
    ]
    assert all(0 < one.seen <= one.own < 1 for one in found)
    assert found[0].seen < found[1].seen < 0.3 < 0.6 < found[2].seen


def test_token_elsewhere(extended):
    with pytest.raises(ValueError, match="token must be in the canary, got '<canary 1>'"):
        shares(extended.model, extended.tokenizer, canary(extended, "the"), extended.tokens[1])


def test_area_of_gaussian_scores():
    rng = np.random.default_rng(1)
    distance = 0.6 * 0.25 * 32**0.5 / 1.1
    found = auc(rng.standard_normal(4000) + distance, rng.standard_normal(4000))
    # sd of the area at 4,000 a side: below sqrt(1 / (12 * 4000) * 2)
    assert expected_area(0.6, 1.1, 0.25, 32) == pytest.approx(found, abs=4 * (2 / 48_000) ** 0.5)
    assert expected_area(0.0, 1.0, 1.0, 10) == 0.5


def test_area_of_descent_on_one_row(extended, monkeypatch):
    """DP-SGD by descent, few steps: canaries with a token of their own come out as the share predicts."""
    monkeypatch.setattr(DPFineTune, "_adam", lambda self, model: torch.optim.SGD(model.parameters(), lr=1e-4))
    larger = with_new_tokens(*tiny_lm(), 120, np.random.default_rng(2), spread=0.0)
    texts = new_token_canaries([t * 5 for t in larger.tokens], larger.tokens, larger.tokenizer)
    share = shares(larger.model, larger.tokenizer, texts[0], larger.tokens[0]).seen
    sigma = share / 2.0  # scores two standard deviations apart
    coins = np.arange(120) % 2 == 0
    data = [text for text, coin in zip(texts, coins, strict=True) if coin]
    tuned = DPFineTune(sigma, 1.0, 1.0, 1, 1.0).fit(*larger[:2], data, np.random.default_rng(3), records=120)
    with torch.no_grad():
        rows = torch.tensor(token_rows(larger.tokenizer, texts, 128))
        logits = tuned.model.double()(input_ids=rows[:, :6]).logits.log_softmax(-1)
        scores = logits.gather(2, rows[:, 1:7, None])[..., 0].mean(1).numpy()
    area = auc(scores[coins], scores[~coins])
    wanted = expected_area(share, sigma, 1.0, 1)
    # sd of the area with 60 a side, at the wanted one (Hanley and McNeil)
    error = (
        wanted * (1 - wanted) * (1 + 59 * ((1 - wanted) / (2 - wanted) + wanted / (1 + wanted))) / 3600
    ) ** 0.5
    assert abs(area - wanted) < 4 * error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.1, 1.0, 1.0, 1), "share"),
        ((0.5, 0.0, 1.0, 1), "noise_multiplier"),
        ((0.5, 1.0, 0.0, 1), "sample_rate"),
        ((0.5, 1.0, 1.0, 0), "steps"),
        ((0.5, 1.0, 1.0, 1.5), "steps must be a whole number of at least 1, got 1.5"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_area(*arguments)
