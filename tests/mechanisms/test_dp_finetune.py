import numpy as np
import pytest
import torch
from scipy import stats

from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA, text_losses, token_rows
from dprepro.text.tiny_lm import TinyLM, tiny_lm

TEXTS = [
    "a delight from start to end .",
    "a dull and lifeless mess , which i left before its end .",
    "one of the best films of the year .",
    "so bad that it is good .",
    "no .",
]


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


def tune(**changes):
    settings = {
        "noise_multiplier": 1.0,
        "clipping_norm": 0.5,
        "sample_rate": 1.0,
        "steps": 1,
        "learning_rate": 1e-3,
        "lora": LoRA(rank=4),
    }
    return DPFineTune(**{**settings, **changes})


def by_hand(lm, optimizer, clipping_norm, steps):
    """DP-SGD without noise at full participation: one text at a time through autograd."""
    model = tiny_lm().model
    weights = list(model.parameters())
    step = optimizer(weights)
    for _ in range(steps):
        total = [torch.zeros_like(weight) for weight in weights]
        for row in token_rows(lm.tokenizer, TEXTS, 128):
            model.zero_grad()
            text_losses(model, [row]).sum().backward()
            norm = torch.sqrt(sum((weight.grad**2).sum() for weight in weights))
            for whole, weight in zip(total, weights, strict=True):
                whole += weight.grad * min(1.0, clipping_norm / norm.item())
        for whole, weight in zip(total, weights, strict=True):
            weight.grad = whole / len(TEXTS)
        step.step()
    return model


@pytest.mark.parametrize("chunk", [2, 32])
@pytest.mark.parametrize("clipping_norm", [0.3, 2.0])
def test_without_noise_it_is_clipped_descent(lm, chunk, clipping_norm, monkeypatch):
    # Descent in place of Adam, which would blow up differences in gradients near zero.
    def descent(weights):
        return torch.optim.SGD([w for w in weights if w.requires_grad], 0.5)

    monkeypatch.setattr(DPFineTune, "_adam", lambda self, model: descent(model.parameters()))
    settings = tune(noise_multiplier=0, clipping_norm=clipping_norm, steps=2, lora=None, chunk=chunk)
    found = settings.fit(*lm, TEXTS, np.random.default_rng(0)).model
    expected = by_hand(lm, descent, clipping_norm, 2)
    start = lm.model.state_dict()
    for name, weight in expected.state_dict().items():
        moved, wanted = found.state_dict()[name] - start[name], weight - start[name]
        torch.testing.assert_close(moved, wanted, rtol=1e-3, atol=3e-6)
        assert wanted.abs().max() > 1e-4 or name.endswith("attn.c_attn.bias")


def test_losses_are_the_models_own(lm):
    rows = token_rows(lm.tokenizer, TEXTS, 128)
    with torch.no_grad():
        losses = text_losses(lm.model, rows).numpy()
    expected = [-scores.mean() for scores in lm.log_probabilities(TEXTS)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def noise_of_empty_steps(lm, monkeypatch, **settings):
    monkeypatch.setattr(
        DPFineTune,
        "_adam",
        lambda self, model: torch.optim.SGD([w for w in model.parameters() if w.requires_grad], 1.0),
    )
    mechanism = tune(lora=None, sample_rate=1e-6, **settings)
    tuned = mechanism.fit(*lm, TEXTS, np.random.default_rng(3))
    assert tuned.empty_batches == mechanism.steps
    name = "transformer.h.0.mlp.c_fc.weight"
    return (tuned.model.state_dict()[name] - lm.model.state_dict()[name]).double().numpy().ravel()


@pytest.mark.parametrize("steps", [1, 4])
def test_an_empty_batch_is_a_step_of_noise(lm, monkeypatch, steps):
    noise = noise_of_empty_steps(lm, monkeypatch, steps=steps, noise_multiplier=2.0, clipping_norm=0.5)
    sd = 2.0 * 0.5 / (1e-6 * len(TEXTS)) * steps**0.5
    # chi-square limits at 1e-6 a side for 65,536 weights
    low, high = np.sqrt(stats.chi2.ppf([1e-6, 1 - 1e-6], len(noise)) / len(noise))
    assert low < noise.std() / sd < high
    assert abs(noise.mean()) < 5 * sd / len(noise) ** 0.5


def test_the_number_to_divide_by_may_be_given(lm, monkeypatch):
    monkeypatch.setattr(
        DPFineTune,
        "_adam",
        lambda self, model: torch.optim.SGD([w for w in model.parameters() if w.requires_grad], 1.0),
    )
    name, mechanism = "transformer.h.0.mlp.c_fc.weight", tune(lora=None)
    moved = {}
    for records in (None, len(TEXTS), 4 * len(TEXTS)):
        tuned = mechanism.fit(*lm, TEXTS, np.random.default_rng(3), records=records)
        moved[records] = tuned.model.state_dict()[name] - lm.model.state_dict()[name]
    assert torch.equal(moved[None], moved[len(TEXTS)])
    torch.testing.assert_close(4 * moved[4 * len(TEXTS)], moved[None], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="records"):
        mechanism.fit(*lm, TEXTS, np.random.default_rng(3), records=0)


def test_texts_are_sampled_at_the_rate(lm, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        DPFineTune, "_private_step", lambda self, *_: lambda chunks: sizes.append(sum(map(len, chunks)))
    )
    tuned = tune(sample_rate=0.3, steps=2000).fit(*lm, TEXTS, np.random.default_rng(4))
    counts = np.bincount(sizes, minlength=6)
    expected = stats.binom.pmf(np.arange(6), 5, 0.3) * 2000
    assert (
        stats.chisquare(np.r_[counts[:4], counts[4:].sum()], np.r_[expected[:4], expected[4:].sum()]).pvalue
        > 1e-6
    )
    assert tuned.empty_batches == counts[0]


def test_lora_moves_its_targets_alone(lm):
    tuned = tune(lora=LoRA(rank=4, target_modules=("c_attn", "c_fc")), learning_rate=0.01)
    found = tuned.fit(*lm, TEXTS, np.random.default_rng(5))
    before, after = lm.model.state_dict(), found.model.state_dict()
    assert before.keys() == after.keys()
    for name in before:
        target = name.endswith(("c_attn.weight", "c_fc.weight"))
        assert torch.equal(before[name], after[name]) != target, name
    assert found.trained == 4 * 4 * ((128 + 384) + (128 + 512))  # layers, rank, in + out
    whole = tune(lora=None).fit(*lm, TEXTS, np.random.default_rng(5))
    assert whole.trained == sum(weight.numel() for weight in lm.model.parameters())


def test_lora_starts_as_the_base(lm):
    adapted = LoRA().adapt(tiny_lm().model, np.random.default_rng(0))
    rows = token_rows(lm.tokenizer, TEXTS, 128)
    with torch.no_grad():
        torch.testing.assert_close(text_losses(adapted, rows), text_losses(lm.model, rows))


@pytest.mark.parametrize("lora", [None, LoRA()])
def test_it_learns_and_repeats(lm, lora):
    before = {name: weight.clone() for name, weight in lm.model.state_dict().items()}
    plain = tune(
        noise_multiplier=0,
        clipping_norm=np.inf,
        steps=8,
        learning_rate=3e-3 if lora is None else 3e-2,
        lora=lora,
    )
    first, second = (plain.fit(*lm, TEXTS, np.random.default_rng(6)).model for _ in range(2))
    assert TinyLM(first, lm.tokenizer).perplexity(TEXTS) < 0.7 * lm.perplexity(TEXTS)
    for name, weight in before.items():
        assert torch.equal(weight, lm.model.state_dict()[name])  # a copy was tuned
        assert torch.equal(first.state_dict()[name], second.state_dict()[name])
    noisy = [tune(steps=2, lora=lora).fit(*lm, TEXTS, np.random.default_rng(s)).model for s in (7, 7, 8)]
    name = "transformer.h.1.attn.c_attn.weight"
    assert torch.equal(noisy[0].state_dict()[name], noisy[1].state_dict()[name])
    assert not torch.equal(noisy[0].state_dict()[name], noisy[2].state_dict()[name])


def test_random_state_of_torch_stays(lm):
    torch.manual_seed(9)
    state = torch.get_rng_state()
    tune().fit(*lm, TEXTS, np.random.default_rng(0))
    assert torch.equal(state, torch.get_rng_state())


def test_epsilon_is_the_accountants():
    mechanism = tune(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    assert mechanism.epsilon(1e-5) == dp_sgd_epsilon(1.0, 0.01, 1000, 1e-5)
    assert mechanism.epsilon(1e-5, "rdp") == pytest.approx(2.101366525, rel=1e-6)
    assert tune(noise_multiplier=0).epsilon(1e-5) == np.inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": -1}, "noise_multiplier"),
        ({"clipping_norm": 0}, "clipping_norm"),
        ({"clipping_norm": np.inf}, "clipping_norm must be finite where there is noise"),
        ({"sample_rate": 0}, "sample_rate"),
        ({"sample_rate": 1.1}, "sample_rate"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"chunk": 0}, "chunk"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        tune(**changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank"),
        ({"alpha": 0}, "alpha"),
        ({"target_modules": "c_attn"}, "target_modules must be a tuple"),
        ({"target_modules": ()}, "target_modules must be a tuple"),
    ],
)
def test_bad_adapters(settings, message):
    with pytest.raises(ValueError, match=message):
        LoRA(**settings)


def test_modules_that_the_model_lacks(lm):
    with pytest.raises(ValueError, match=r"among c_attn, c_fc, c_proj, lm_head, got q_proj, attn"):
        tune(lora=LoRA(target_modules=("q_proj", "c_attn", "attn"))).fit(*lm, TEXTS, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "at least one text"),
        ("a text", "sequence"),
        (["fine .", 3], "sequence"),
        (["fine .", ""], "got 0 at index 1"),
        (["fine .", "fine " * 200], "1 to 127 tokens .* at index 1: 'fine"),
    ],
)
def test_bad_texts(lm, texts, message):
    with pytest.raises(ValueError, match=message):
        tune().fit(*lm, texts, np.random.default_rng(0))


def test_one_step_on_the_packaged_model():
    """135 million weights: their gradients text by text do not fit, those of adapters do."""
    from dprepro.text.local_model import LocalModel

    source = LocalModel()
    model, tokenizer = source.model, source.tokenizer
    tuned = tune(lora=LoRA(target_modules=("q_proj", "v_proj"))).fit(
        model, tokenizer, TEXTS[:2], np.random.default_rng(0)
    )
    assert tuned.trained == 30 * 8 * ((576 + 576) + (576 + 192))
    before, after = model.state_dict(), tuned.model.state_dict()
    moved = {name.rsplit(".", 2)[1] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"q_proj", "v_proj"}
