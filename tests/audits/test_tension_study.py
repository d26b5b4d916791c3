import numpy as np
import pytest
import torch

from dprepro.audits import tension_study
from dprepro.audits.canary_new_tokens import last_token_losses
from dprepro.audits.extraction import extract
from dprepro.audits.tension_study import attacked, mechanism, training
from dprepro.audits.tension_texts import DESIGNS, material
from dprepro.mechanisms.dp_finetune import DPFineTune, text_losses, token_rows

GAIN = (0.1, 3.0, -1.0, 2.0, 1.0, 1.5)
SIZES = {"data_seed": 22, "records": 3, "copies": [3, 0], "each": 4, "new_tokens": [4, 4], "controls": 3}
SETTINGS = {
    "delta": 1e-4,
    "clipping_norm": 1.0,
    "sample_rate": 1.0,
    "steps": 3,
    "learning_rate": 3e-3,
}


@pytest.fixture(autouse=True)
def candidates(monkeypatch):
    monkeypatch.setattr(tension_study.results, "load", lambda name: {"shadow": {"gain": list(GAIN)}})


@pytest.fixture(scope="module")
def texts():
    return material(GAIN, 22, 3, 2, 4, (4, 4), 3)


@pytest.fixture(scope="module")
def base(texts):
    return attacked(texts, texts.lm)


def test_settings():
    plain = mechanism("plain", **SETTINGS)
    assert (plain.noise_multiplier, plain.clipping_norm) == (0, np.inf)
    private = mechanism("8", **SETTINGS)
    assert 7.9 < private.epsilon(1e-4) <= 8
    assert (private.clipping_norm, private.learning_rate) == (1.0, 3e-3)
    assert mechanism("2", **SETTINGS).noise_multiplier > private.noise_multiplier


@pytest.mark.parametrize(
    ("setting", "message"),
    [("none", "setting must be 'plain' or an epsilon, got 'none'"), ("0", "epsilon"), ("-1", "epsilon")],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        mechanism(setting, **SETTINGS)


def test_what_is_seen_of_a_model(texts, base):
    lm = texts.lm
    with torch.no_grad():
        rows = token_rows(lm.tokenizer, texts.canaries["arbitrary"], 128)
        np.testing.assert_allclose(base["arbitrary, loss"], text_losses(lm.model, rows), rtol=1e-5)
        # Six times one token, then the end, which is not counted.
        rows = token_rows(lm.tokenizer, texts.canaries["new token alone"], 128)
        logits = lm.model(input_ids=torch.tensor(rows)[:, :6]).logits.log_softmax(-1)
        own = [-line[range(6), row[1]].mean().item() for line, row in zip(logits, rows, strict=True)]
    np.testing.assert_allclose(base["new token alone, loss"], own, rtol=1e-5)
    last = last_token_losses(*lm, texts.canaries["word and new token"])
    np.testing.assert_allclose(base["word and new token, loss"], last, rtol=1e-5)
    assert base["perplexity"] == pytest.approx(lm.perplexity(texts.held_out), rel=1e-6)
    found = extract(*lm, texts.controls, 8, 8)
    assert base["controls, matched"] == found.matched.tolist()
    np.testing.assert_allclose(base["controls, log-probability"], found.log_probability, rtol=1e-6)


def test_the_base_is_an_item(base):
    assert training("base", np.random.default_rng(0), **SIZES, **SETTINGS) == base


def test_training_data(texts, monkeypatch):
    """Records, repeated texts as often as said, canaries whose coins fell in; a public number to divide by."""
    seen = []

    def fit(self, model, tokenizer, data, rng, *, records):
        seen.append((data, records, next(model.parameters()).dtype))
        return original(self, model, tokenizer, data[:2], rng, records=records)

    original = DPFineTune.fit
    monkeypatch.setattr(DPFineTune, "fit", fit)
    short = {**SETTINGS, "steps": 1}
    for key, seed in (("plain, 0", 1), ("8, 0", 2), ("8, 1", 3)):
        item = training(key, np.random.default_rng(seed), **SIZES, **short)
        data, records, _ = seen[-1]
        coins = {design: np.array(item[f"{design}, included"], dtype=bool) for design in DESIGNS}
        wanted = texts.records + [texts.repeated[int(np.argmax(item["repeated, copies"]))]] * 3
        wanted += [t for d in DESIGNS for t, coin in zip(texts.canaries[d], coins[d], strict=True) if coin]
        assert sorted(data) == sorted(wanted)
        assert records == 3 + 3 + 16
        assert sorted(item["repeated, copies"]) == [0, 3]
        assert (item["noise_multiplier"] == 0) == key.startswith("plain")
    assert [dtype for _, _, dtype in seen] == [torch.float64, torch.float32, torch.float32]
    assert len({tuple(data) for data, _, _ in seen}) == 3


def test_without_noise_everything_shows(base):
    item = training("plain, 0", np.random.default_rng(6), **SIZES, **{**SETTINGS, "steps": 6})
    for design in DESIGNS:
        coins = np.array(item[f"{design}, included"], dtype=bool)
        drop = np.array(base[f"{design}, loss"]) - np.array(item[f"{design}, loss"])
        assert drop[coins].mean() > drop[~coins].mean() + 0.3, design
    gain = np.array(item["repeated, log-probability"]) - base["repeated, log-probability"]
    assert gain[np.argmax(item["repeated, copies"])] > gain[np.argmin(item["repeated, copies"])] + 5


def test_a_private_run_repeats():
    first, second = (training("2, 0", np.random.default_rng(6), **SIZES, **SETTINGS) for _ in range(2))
    assert first == second
    assert all(isinstance(value, int | float | list) for value in first.values())
