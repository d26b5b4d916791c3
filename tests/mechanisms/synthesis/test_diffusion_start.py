import json

import numpy as np
import pytest
import torch

from dprepro.base import paths
from dprepro.kit import cli
from dprepro.mechanisms.synthesis import diffusion_start, diffusion_training
from dprepro.mechanisms.synthesis.diffusion_net import new_weights
from dprepro.mechanisms.synthesis.diffusion_start import public_start, rebuild
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window, token_rows
from dprepro.mechanisms.synthesis.diffusion_training import HELD_OUT, SETTINGS, held_out_loss, sentences
from dprepro.mechanisms.synthesis.dp_diffusion import DPDiffusion
from dprepro.text.corpora import corpus

FOLDER = paths.DATA / "models" / "tiny-diffusion"


@pytest.fixture
def short(monkeypatch, tmp_path):
    """A few sentences, few steps, and a folder of its own."""
    lines = {"train": ["it was a fine day .", "she was not there ."] * 4, "test": ["it was not a fine day ."]}
    monkeypatch.setattr(diffusion_training, "sentences", lines.__getitem__)
    monkeypatch.setattr(diffusion_training, "SETTINGS", {**SETTINGS, "steps": 8, "batch": 4})
    monkeypatch.setattr(diffusion_start, "_folder", lambda: tmp_path)


def test_it_has_read_no_film_review():
    text = (FOLDER / "manifest.json").read_text()
    found = json.loads(text)
    for public in ("novels", "editorials", "products"):
        assert found["origin"]["sources"][public] == corpus(public).sha256
    assert "movies" not in text
    assert found["weights"] < 300_000


def test_it_is_the_network_trained():
    """The held-out loss that the manifest states, on the stored weights."""
    start, drawn = public_start(), new_weights(1, 0)
    assert {name: weight.shape for name, weight in start.items()} == {n: w.shape for n, w in drawn.items()}
    stated = json.loads((FOLDER / "manifest.json").read_text())["held_out"]
    rows = token_rows(cut_to_window(sentences("test")))
    rows = rows[:: len(rows) // HELD_OUT][:HELD_OUT]
    assert held_out_loss(start, rows) == pytest.approx(stated["after"], rel=1e-3)
    assert stated["after"] < 0.5 * stated["before"]


def test_what_was_written_is_read_and_refused_once_it_changed(short, tmp_path, monkeypatch):
    assert rebuild() == tmp_path
    weights = public_start()
    assert set(weights) == set(new_weights(1, 0))
    found = DPDiffusion(np.inf, 1.0, 1, 1e-9).fit(
        ["no .", "yes ."] * 2, ["a", "b"] * 2, np.random.default_rng(0), start=weights
    )
    torch.testing.assert_close(found.weights["0.up"], weights["0.up"], rtol=0, atol=1e-8)
    monkeypatch.setattr(diffusion_training, "SETTINGS", {**SETTINGS, "clip": 2.0})
    with pytest.raises(ValueError, match="changed: settings; run `python -m dprepro rebuild tiny-diffusion`"):
        public_start()
    monkeypatch.undo()
    monkeypatch.setattr(diffusion_start, "_folder", lambda: tmp_path)
    (tmp_path / "denoiser.safetensors").write_bytes(b"other")
    with pytest.raises(ValueError, match="changed: settings, denoiser.safetensors"):
        public_start()


@pytest.mark.parametrize(
    ("manifest", "named"),
    [
        ("", "is not readable"),
        ('{"name": "tiny-diffusion", "origin": {"settings": {"see', "is not readable"),
        (b"\xff\xfe", "is not readable"),
        ("[]", "is no manifest"),
        ("{}", "is no manifest"),
        ('{"origin": {}, "files": "denoiser.safetensors"}', "is no manifest"),
        ('{"origin": {}, "files": {}}', "changed: settings, code, sources, denoiser.safetensors"),
    ],
)
def test_a_cut_manifest_is_named_with_the_command(manifest, named, monkeypatch, tmp_path):
    monkeypatch.setattr(diffusion_start, "_folder", lambda: tmp_path)
    (tmp_path / "denoiser.safetensors").write_bytes(b"any")
    (tmp_path / "manifest.json").write_bytes(manifest if isinstance(manifest, bytes) else manifest.encode())
    with pytest.raises(ValueError, match=f"{named}.*run `python -m dprepro rebuild tiny-diffusion`"):
        public_start()


def test_a_missing_model_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(diffusion_start, "_folder", lambda: tmp_path)
    with pytest.raises(FileNotFoundError, match="run `python -m dprepro rebuild tiny-diffusion`"):
        public_start()


def test_the_command_line_knows_it(monkeypatch, capsys):
    called = []
    monkeypatch.setattr(diffusion_start, "rebuild", lambda: called.append(True))
    assert cli.main(["list"]) == 0
    assert "   tiny-diffusion\n" in capsys.readouterr().out
    assert cli.main(["rebuild", "tiny-diffusion"]) == 0
    assert called == [True]
