import math

import pytest
import torch

from dprepro.mechanisms.synthesis.diffusion_net import (
    LABEL_SCALE,
    new_weights,
    noised,
    text_losses,
    token_logits,
)
from dprepro.mechanisms.synthesis.diffusion_tokens import (
    DIMENSION,
    WINDOW,
    cut_to_window,
    text_of,
    token_rows,
    token_vectors,
)

LONG = "it is a film of rare and unhurried beauty , " * 6


@pytest.fixture(scope="module")
def weights():
    found = new_weights(3, 0)
    found["label"] = torch.randn(found["label"].shape, generator=torch.Generator().manual_seed(1))
    return found


def test_it_is_small():
    assert sum(weight.numel() for weight in new_weights(10, 0).values()) < 300_000


def test_vectors_are_those_of_the_public_model():
    """Their directions: inner products of whitened embeddings, by another decomposition."""
    from dprepro.text.tiny_lm import tiny_lm

    rows = tiny_lm().model.transformer.wte.weight.detach().double()
    rows = rows - rows.mean(0)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    white = rows @ vectors[:, -DIMENSION:] / values[-DIMENSION:].sqrt()
    cosines = torch.nn.functional.normalize(white, dim=1)
    found = token_vectors().double() / math.sqrt(DIMENSION)
    torch.testing.assert_close(found @ found.T, cosines @ cosines.T, rtol=0, atol=1e-4)


def test_the_transformer_is_torchs(weights):
    """The same layers by torch.nn, weights copied."""
    width = weights["place"].shape[1]
    noisy, time = torch.randn(2, WINDOW, DIMENSION), torch.tensor([0.3, 0.9])
    label = torch.tensor([2, 0])
    angles = torch.stack([time * k * math.pi / 2 for k in range(1, 9)], dim=1)
    known = torch.cat([angles.sin(), angles.cos()], dim=1) @ weights["time"].T
    state = noisy @ weights["input"].T + weights["place"]
    state = state + (known + LABEL_SCALE * weights["label"][label])[:, None]
    norm = torch.nn.LayerNorm(width, elementwise_affine=False)
    for layer in range(2):
        part = {name[2:]: weight for name, weight in weights.items() if name.startswith(f"{layer}.")}
        attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        attention.load_state_dict(
            {
                "in_proj_weight": part["attend"],
                "in_proj_bias": part["attend.bias"],
                "out_proj.weight": part["mix"],
                "out_proj.bias": part["mix.bias"],
            }
        )
        seen = norm(state)
        state = state + attention(seen, seen, seen)[0]
        hidden = torch.nn.GELU("tanh")(norm(state) @ part["up"].T + part["up.bias"])
        state = state + hidden @ part["down"].T + part["down.bias"]
    expected = norm(state) @ weights["output"].T @ token_vectors().T + weights["bias"]
    torch.testing.assert_close(token_logits(weights, noisy, time, label), expected, rtol=1e-3, atol=1e-4)


def test_the_loss_is_the_cross_entropy_of_the_noisy_text(weights):
    tokens = token_rows(["a dull mess .", "no ."])
    label, time = torch.tensor([0, 1]), torch.tensor([0.2, 0.7])
    noise = torch.randn(2, WINDOW, DIMENSION)
    found = text_losses(weights, tokens, label, time, noise)
    for i, angle in enumerate(math.pi / 2 * value for value in (0.2, 0.7)):
        noisy = math.cos(angle) * token_vectors()[tokens[i]] + math.sin(angle) * noise[i]
        scores = token_logits(weights, noisy[None], time[i : i + 1], label[i : i + 1])[0].log_softmax(-1)
        wanted = -sum(float(scores[place, token]) for place, token in enumerate(tokens[i])) / WINDOW
        assert float(found[i]) == pytest.approx(wanted, rel=1e-4)


def test_noise_is_drawn_for_each_text():
    tokens, marks = torch.zeros(50, WINDOW, dtype=torch.long), torch.arange(50)
    _, same, time, noise = noised(tokens, marks, torch.Generator().manual_seed(0))
    assert torch.equal(same, marks)
    assert len(time.unique()) == 50
    assert time.min() >= 0
    assert time.max() < 1
    # 51,200 standard normals: five standard errors
    assert abs(float(noise.mean())) < 5 / 51_200**0.5
    assert abs(float(noise.square().mean()) - 1) < 5 * (2 / 51_200) ** 0.5


@pytest.mark.parametrize(
    "text", ["no .", "a dull mess .", LONG, "x" * 400, "no space-" * 30, "é" * 80 + " end"]
)
def test_texts_come_back(text):
    (cut,) = cut_to_window([text])
    assert text.startswith(cut)
    assert cut
    assert cut_to_window([cut]) == [cut]
    assert text_of(token_rows([cut])[0].tolist()) == cut.strip()


def test_a_cut_text_has_the_tokens_that_it_had():
    from dprepro.text.tiny_lm import tiny_lm

    whole = tiny_lm().tokenizer(LONG)["input_ids"]
    row = token_rows(cut_to_window([LONG]))[0].tolist()
    kept = row.index(0)
    assert WINDOW - 8 < kept < WINDOW
    assert row[:kept] == whole[:kept]
    assert set(row[kept:]) == {0}


def test_a_long_text_is_named():
    with pytest.raises(ValueError, match=r"texts must have at most 31 tokens .*, got \d+ at index 1"):
        token_rows(["no .", LONG])
