"""Training of the diffusion model's network on public text, with ordinary Adam and without any privacy.

The text is what `text.tiny_lm` has read: novels, editorials and products of the training side and no film review,
sentence by sentence, cut to the window. ``diffusion_start`` keeps the weights and refuses them once this module, the
text or a setting has changed.
"""

import re
from typing import Any

import numpy as np
from tqdm import tqdm

from dprepro.base import paths
from dprepro.base.store import sha256_file
from dprepro.mechanisms.synthesis.diffusion_net import Weights, new_weights, noised, text_losses
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window, token_rows
from dprepro.text.public_text import public_hashes, public_pieces

HELD_OUT = 300  # sentences of the test side, evenly spaced
SETTINGS: dict[str, Any] = {
    "seed": 20250915,
    "steps": 2000,
    "batch": 64,
    "learning_rate": 2e-3,  # of Adam, after `warmup` steps; falls linearly from there
    "warmup": 100,
    "clip": 1.0,
}


def train(steps: int) -> tuple[Weights, dict[str, Any]]:
    """Train new weights.

    Parameters
    ----------
    steps : int
        The learning rate has fallen to 0 by the last one.

    Returns
    -------
    weights : dict of str to tensor
    facts : dict
        weights, sentences: how many; held_out: mean loss of sentences of the test side before and after, in nats a
        place; first_losses: of the first five batches.
    """
    import torch

    rows = token_rows(cut_to_window(sentences("train")))
    held_out = token_rows(cut_to_window(sentences("test")))
    held_out = held_out[:: max(1, len(held_out) // HELD_OUT)][:HELD_OUT]
    weights = new_weights(1, SETTINGS["seed"])
    before = held_out_loss(weights, held_out)
    trained = [weight.requires_grad_() for name, weight in weights.items() if name != "label"]
    adam = torch.optim.Adam(trained, SETTINGS["learning_rate"], (0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min((step + 1) / SETTINGS["warmup"], 1 - step / steps)
    )
    rng = np.random.default_rng(SETTINGS["seed"])
    generator = torch.Generator().manual_seed(SETTINGS["seed"])
    losses = []
    for _ in tqdm(range(steps), desc="tiny-diffusion", unit="batch", disable=None):
        batch = rows[rng.integers(len(rows), size=SETTINGS["batch"])]
        seen = noised(batch, torch.zeros(len(batch), dtype=torch.long), generator)
        loss = text_losses(weights, *seen).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, SETTINGS["clip"])
        adam.step()
        schedule.step()
        losses.append(loss.item())
    weights = {name: weight.detach() for name, weight in weights.items()}
    facts = {
        "weights": sum(weight.numel() for name, weight in weights.items() if name != "label"),
        "sentences": len(rows),
        "held_out": {"before": before, "after": held_out_loss(weights, held_out)},
        "first_losses": losses[:5],
    }
    return weights, facts


def sentences(side: str) -> list[str]:
    """Return the sentences of the public text of one side, "train" or "test"."""
    pieces = (piece for texts in public_pieces(side).values() for piece in texts)
    return [
        sentence for piece in pieces for sentence in re.split(r"(?<=[.!?])\s+", piece) if sentence.strip()
    ]


def sources() -> dict[str, str]:
    """Return hashes of the public text, and of the model whose tokens and vectors the network has."""
    models = paths.DATA / "models" / "tiny-lm"
    return {
        **public_hashes(),
        **{name: sha256_file(models / name) for name in ("model.safetensors", "tokenizer.json")},
    }


def held_out_loss(weights: Weights, rows: Any) -> float:
    """Mean loss of rows of tokens, in nats a place, at times and noise that are the same for any weights."""
    import torch

    generator, found = torch.Generator().manual_seed(0), []
    with torch.inference_mode():
        for part in rows.split(100):
            seen = noised(part, torch.zeros(len(part), dtype=torch.long), generator)
            found.append(text_losses(weights, *seen))
    return float(torch.cat(found).mean())
