"""Training of the diffusion model's network: its text, and that settings alone decide."""

import torch

from dprepro.mechanisms.synthesis import diffusion_training
from dprepro.mechanisms.synthesis.diffusion_training import SETTINGS, sentences, train


def test_sentences_are_those_of_the_public_text():
    found = sentences("test")
    assert all(sentence.strip() for sentence in found)
    assert any(sentence.endswith("?") for sentence in found)


def test_training_is_a_function_of_the_settings(monkeypatch):
    lines = {"train": ["it was a fine day .", "she was not there ."] * 4, "test": ["it was not a fine day ."]}
    monkeypatch.setattr(diffusion_training, "sentences", lines.__getitem__)
    monkeypatch.setattr(diffusion_training, "SETTINGS", {**SETTINGS, "batch": 4})
    state = torch.random.get_rng_state()
    (first, facts), (second, _) = train(8), train(8)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(state, torch.random.get_rng_state())
    assert facts["held_out"]["after"] < facts["held_out"]["before"]
    assert facts["sentences"] == 8
    assert torch.equal(first["label"], torch.zeros_like(first["label"]))
