import numpy as np
import pytest
import torch
from scipy import stats

from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.synthesis.diffusion_net import new_weights, noised, text_losses
from dprepro.mechanisms.synthesis.diffusion_tokens import token_rows
from dprepro.mechanisms.synthesis.dp_diffusion import DiffusionGenerator, DPDiffusion, text_gradients

TEXTS = [
    "a delight from start to end .",
    "one of the best .",
    "a dull mess .",
    "no .",
    "so bad that it is good .",
]
LABELS = ["good", "good", "bad", "bad", "bad"]


def diffusion(**changes):
    settings = {"epsilon": 2.0, "sample_rate": 1.0, "steps": 2, "learning_rate": 1e-3, "delta": 1e-3}
    return DPDiffusion(**{**settings, **changes})


def fitted(seed=0, texts=TEXTS, labels=LABELS, start=None, **changes):
    return diffusion(**changes).fit(texts, labels, np.random.default_rng(seed), start=start)


def flat(weights):
    return torch.cat([weight.flatten() for weight in weights.values()])


def batch(seed=1):
    """Texts of two labels with times and noise, and weights that answer to the label."""
    weights = new_weights(2, seed)
    weights["label"] = torch.randn(2, weights["label"].shape[1]) * 0.01
    marks = torch.tensor([1, 1, 0, 0, 0])
    return weights, noised(token_rows(TEXTS), marks, torch.Generator().manual_seed(seed))


def gradients_by_hand(weights, seen):
    """Autograd, one text at a time."""
    found = []
    for number in range(len(seen[0])):
        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        text_losses(leaves, *(part[number : number + 1] for part in seen)).sum().backward()
        found.append({name: leaf.grad for name, leaf in leaves.items()})
    return found


def test_gradients_of_each_text_are_autograds():
    weights, seen = batch()
    found, expected = text_gradients(weights, *seen), gradients_by_hand(weights, seen)
    for name, value in found.items():
        wanted = torch.stack([one[name] for one in expected])
        torch.testing.assert_close(value, wanted, rtol=1e-3, atol=1e-6)
        assert wanted.abs().max() > 1e-5, name


@pytest.mark.parametrize("chunk", [2, 64])
def test_the_sum_is_of_clipped_gradients(chunk, monkeypatch):
    """Norms over all weights together: some texts below the bound, some above."""
    weights, seen = batch()
    expected = gradients_by_hand(weights, seen)
    norms = torch.tensor([float(flat(one).norm()) for one in expected])
    bound = float(norms.median())
    seeds = iter([seen] if chunk == 64 else [[p[i : i + 2] for p in seen] for i in (0, 2, 4)])
    monkeypatch.setattr(
        "dprepro.mechanisms.synthesis.dp_diffusion.noised", lambda *_: next(seeds)
    )  # the same times and noise
    total = diffusion(clipping_norm=bound, chunk=chunk)._gradient_sum(weights, seen[0], seen[1], None)
    for name, value in total.items():
        wanted = sum(one[name] * min(1.0, bound / norm) for one, norm in zip(expected, norms, strict=True))
        torch.testing.assert_close(value, wanted, rtol=1e-3, atol=1e-5)
    assert (norms > bound).any()
    assert (norms < bound).any()


def test_one_text_moves_the_sum_by_the_bound_at_most():
    weights, seen = batch()
    for number in range(len(TEXTS)):
        alone = diffusion(clipping_norm=0.05)._gradient_sum(
            weights, seen[0][number : number + 1], seen[1][number : number + 1], torch.Generator()
        )
        assert float(flat(alone).norm()) == pytest.approx(0.05, rel=1e-4)


def test_infinite_epsilon_is_neither_clipping_nor_noise(monkeypatch):
    weights, seen = batch()
    monkeypatch.setattr("dprepro.mechanisms.synthesis.dp_diffusion.noised", lambda *_: seen)
    free = diffusion(epsilon=np.inf, clipping_norm=1e-6)._gradient_sum(weights, seen[0], seen[1], None)
    expected = sum(flat(one) for one in gradients_by_hand(weights, seen))
    torch.testing.assert_close(flat(free), expected, rtol=1e-3, atol=1e-5)
    found = fitted(epsilon=np.inf, steps=1)
    assert (found.epsilon, found.noise_multiplier) == (np.inf, 0.0)


@pytest.mark.parametrize("steps", [1, 3])
def test_an_empty_batch_is_a_step_of_noise(steps, monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", lambda weights, rate: torch.optim.SGD(weights, 1.0))
    start = new_weights(2, 5)
    found = fitted(3, start=start, sample_rate=1e-9, steps=steps, clipping_norm=0.5, accountant="rdp")
    moved = {name: (found.weights[name] - start[name]).double().numpy().ravel() for name in start}
    sd = found.noise_multiplier * 0.5 / (1e-9 * len(TEXTS)) * steps**0.5
    for name in ("bias", "0.up", "label"):
        noise = moved[name]
        low, high = np.sqrt(stats.chi2.ppf([1e-6, 1 - 1e-6], noise.size) / noise.size)
        assert low < noise.std() / sd < high, name
        assert abs(noise.mean()) < 5 * sd / noise.size**0.5


def test_texts_are_sampled_at_the_rate(monkeypatch):
    sizes = []

    def counted(self, weights, tokens, marks, generator):
        sizes.append(len(tokens))
        return {name: torch.zeros_like(weight) for name, weight in weights.items()}

    monkeypatch.setattr(DPDiffusion, "_gradient_sum", counted)
    monkeypatch.setattr(torch.optim, "Adam", lambda weights, rate: torch.optim.SGD([torch.zeros(1)], 1.0))
    fitted(4, sample_rate=0.3, steps=400, epsilon=np.inf)
    counts = np.bincount(sizes, minlength=6)
    expected = stats.binom.pmf(np.arange(6), 5, 0.3) * 400
    joined = np.r_[counts[:3], counts[3:].sum()], np.r_[expected[:3], expected[3:].sum()]
    assert stats.chisquare(*joined).pvalue > 1e-6


def test_the_sum_is_divided_by_the_expected_size(monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", lambda weights, rate: torch.optim.SGD(weights, 1.0))
    start = new_weights(2, 5)
    moved = []
    for records in (len(TEXTS), 4 * len(TEXTS)):
        found = diffusion(steps=1, epsilon=np.inf).fit(
            TEXTS, LABELS, np.random.default_rng(0), records=records, start=start
        )
        moved.append(found.weights["output"] - start["output"])
    torch.testing.assert_close(4 * moved[1], moved[0], rtol=1e-3, atol=1e-6)


def test_the_epsilon_spent_is_that_of_its_steps():
    found = fitted(epsilon=1.0, sample_rate=0.25, steps=3)
    assert found.epsilon == dp_sgd_epsilon(found.noise_multiplier, 0.25, 3, 1e-3, "prv")
    assert 0.95 < found.epsilon <= 1
    # Another account of the same noise: both are upper bounds, PLD the tighter one.
    assert 0.95 < dp_sgd_epsilon(found.noise_multiplier, 0.25, 3, 1e-3, "pld") < found.epsilon


@pytest.mark.parametrize(("records", "delta"), [(None, 1 / 5), (40, 1 / 40)])
def test_delta_is_one_over_the_records_unless_given(records, delta):
    found = diffusion(delta=None, accountant="pld", steps=1).fit(
        TEXTS, LABELS, np.random.default_rng(0), records=records
    )
    assert found.delta == delta
    assert found.epsilon == dp_sgd_epsilon(found.noise_multiplier, 1.0, 1, delta)


def test_the_same_seed_gives_the_same_texts_and_leaves_torch_alone():
    state = torch.random.get_rng_state()
    first, second, other = (
        fitted(seed, steps=1).sample({"good": 2, "bad": 1}, np.random.default_rng(seed), 3)
        for seed in (0, 0, 1)
    )
    assert first == second != other
    assert first.labels == ["good", "good", "bad"]
    assert torch.equal(state, torch.random.get_rng_state())


def test_texts_are_of_their_label():
    """Two texts, learnt by heart from scratch: each label calls for its own."""
    texts, labels = ["one one one ."] * 4 + ["two two two ."] * 4, ["odd"] * 4 + ["even"] * 4
    found = DPDiffusion(np.inf, 0.5, 120, 4e-3).fit(texts, labels, np.random.default_rng(0))
    wrote = found.sample({"even": 20, "odd": 20}, np.random.default_rng(0), 16)
    assert wrote.labels == ["even"] * 20 + ["odd"] * 20
    assert sum(text == "two two two ." for text in wrote.texts[:20]) >= 16
    assert sum(text == "one one one ." for text in wrote.texts[20:]) >= 16
    assert wrote.blanks == 0


def test_a_start_is_left_as_it_was_and_its_labels_are_not_used():
    start = new_weights(7, 3)
    start["label"] += 1.0
    before = {name: weight.clone() for name, weight in start.items()}
    found = fitted(start=start, learning_rate=1e-6, steps=1)
    assert all(torch.equal(start[name], before[name]) for name in start)
    assert found.weights["label"].shape[0] == 2
    assert float(found.weights["label"].abs().max()) <= 1.1e-6
    assert float((found.weights["0.up"] - start["0.up"]).abs().max()) <= 1.1e-6


def test_blank_texts_stay_and_are_counted():
    weights = new_weights(2, 0)
    weights["bias"][0] = 1e4  # the end mark everywhere
    found = DiffusionGenerator(weights, ("bad", "good"), 1.0, 1e-3, 1.0)
    wrote = found.sample({"good": 3}, np.random.default_rng(0), 2)
    assert wrote == ([""] * 3, ["good"] * 3, 3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\], got 0"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got 1"),
        ({"clipping_norm": np.inf}, "clipping_norm must be"),
        ({"sample_rate": 0.0}, "sample_rate must be"),
        ({"sample_rate": 1.5}, "sample_rate must be"),
        ({"steps": 0}, "steps must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"accountant": "gdp"}, "accountant must be one of"),
        ({"chunk": 0}, "chunk must be"),
    ],
)
def test_bad_settings_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        diffusion(**changes)


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ([], [], "texts must be a sequence of at least one text"),
        (["fine", " "], ["good", "bad"], "texts must not be blank, got ' ' at index 1"),
        (TEXTS, LABELS[:4], "one label for each of the 5 texts, got 4"),
        (TEXTS, ["good"] * 5, "two classes at least, got 'good' alone"),
        (TEXTS, ["good", "bad", "bad", "bad", "bad"], "2 texts at least, got 1 for 'good'"),
        ([*TEXTS[:4], "half \ud83d"], LABELS, r"texts must be Unicode, got '\\ud83d' at index 4"),
        ([*TEXTS[:4], "word " * 40], LABELS, r"at most 31 tokens .*, got \d+ at index 4"),
    ],
)
def test_bad_texts_are_named(texts, labels, named):
    with pytest.raises(ValueError, match=named):
        fitted(texts=texts, labels=labels, accountant="pld")


def test_a_bad_start_is_named():
    start = new_weights(2, 0)
    with pytest.raises(ValueError, match="other names: 0.up"):
        fitted(start={name: weight for name, weight in start.items() if name != "0.up"})
    with pytest.raises(ValueError, match=r"start must have shape \(2048,\) for 'bias', got \(7,\)"):
        fitted(start={**start, "bias": torch.zeros(7)})
    for bad in (torch.nan, torch.inf):
        spoilt = start["0.up"].clone()
        spoilt[3, 4] = bad
        with pytest.raises(ValueError, match="start must be finite, got NaN or infinity in '0.up'"):
            fitted(start={**start, "0.up": spoilt})


@pytest.mark.parametrize(
    ("counts", "steps", "named"),
    [
        ({}, 4, "counts must name a class among bad, good, got none"),
        ({"ugly": 1}, 4, "label must be one of 'bad', 'good', got 'ugly'"),
        ({"good": 0}, 4, "count must be a whole number of at least 1"),
        ({"good": 1}, 0, "denoising must be a whole number"),
    ],
)
def test_bad_orders_are_named(counts, steps, named):
    found = DiffusionGenerator(new_weights(2, 0), ("bad", "good"), 1.0, 1e-3, 1.0)
    with pytest.raises(ValueError, match=named):
        found.sample(counts, np.random.default_rng(0), steps)
