"""The public start of the diffusion model: its network trained on public text, with its provenance.

As `text.tiny_lm` it has seen novels, editorials and products of the training side and no film review, sentence by
sentence, cut to the window. ``python -m dprepro rebuild tiny-diffusion`` trains it anew and writes data/models/
tiny-diffusion: the weights (float16) and a manifest, by which `public_start` refuses weights that other code or other
text has made (as `text.pretrained` does for the models that it knows).
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dprepro.base import paths
from dprepro.base.environment import package_versions
from dprepro.base.results import code_hashes
from dprepro.base.store import locked, sha256_bytes, sha256_file, write_atomic
from dprepro.mechanisms.synthesis.diffusion_net import Weights, new_weights, noised, text_losses
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window, token_rows
from dprepro.text.embedders import _torch_threads
from dprepro.text.public_text import public_hashes, public_pieces

NAME = "tiny-diffusion"
HELD_OUT = 300  # sentences of the test side, evenly spaced
SETTINGS: dict[str, Any] = {
    "seed": 20250915,
    "steps": 2000,
    "batch": 64,
    "learning_rate": 2e-3,  # of Adam, after `warmup` steps; falls linearly from there
    "warmup": 100,
    "clip": 1.0,
}
_COMMAND = f"run `python -m dprepro rebuild {NAME}`"
_FILE, _MANIFEST = "denoiser.safetensors", "manifest.json"


def public_start() -> Weights:
    """Load the weights: a new dictionary each time.

    Raises
    ------
    FileNotFoundError
        They are missing.
    ValueError
        They are not those that were written, or code, settings or text differ from those that they were trained with.
        Every message has the command that makes them anew.
    """
    from safetensors.torch import load

    try:
        saved = json.loads((_folder() / _MANIFEST).read_bytes())
        content = (_folder() / _FILE).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the model {NAME} is not complete ({error.filename} is missing): {_COMMAND}"
        ) from None
    changed = [part for part, now in _origin().items() if saved["origin"].get(part) != now]
    changed += [_FILE] if sha256_bytes(content) != saved["files"][_FILE] else []
    if changed:
        raise ValueError(f"the model {NAME} does not fit any more, changed: {', '.join(changed)}; {_COMMAND}")
    return {name: tensor.float() for name, tensor in load(content).items()}


def rebuild() -> Path:
    """Train the model anew, on one core (minutes), and write its files; return their folder.

    Raises
    ------
    ValueError
        Code or text changed during the training.
    BlockingIOError
        Another process is training it.
    """
    from safetensors.torch import save

    lock = paths.build_dir() / "models" / f".{NAME}.lock"
    with locked(lock, f"another process is training {NAME}"), _torch_threads(1):
        origin = _origin()
        weights, facts = train(SETTINGS["steps"])
        if _origin() != origin:
            raise ValueError(f"code or text of {NAME} changed during its training: {_COMMAND} again")
        content = save({name: weight.half() for name, weight in weights.items()}, {"format": "pt"})
        written = {
            "name": NAME,
            "origin": origin,
            "versions": package_versions(),
            "files": {_FILE: sha256_bytes(content)},
            **facts,
        }
        write_atomic(_folder() / _FILE, content)
        write_atomic(_folder() / _MANIFEST, json.dumps(written, indent=1, allow_nan=False) + "\n")
    return _folder()


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
    before = _loss(weights, held_out)
    trained = [weight.requires_grad_() for name, weight in weights.items() if name != "label"]
    adam = torch.optim.Adam(trained, SETTINGS["learning_rate"], (0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min((step + 1) / SETTINGS["warmup"], 1 - step / steps)
    )
    rng = np.random.default_rng(SETTINGS["seed"])
    generator = torch.Generator().manual_seed(SETTINGS["seed"])
    losses = []
    for _ in tqdm(range(steps), desc=NAME, unit="batch", disable=None):
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
        "held_out": {"before": before, "after": _loss(weights, held_out)},
        "first_losses": losses[:5],
    }
    return weights, facts


def sentences(side: str) -> list[str]:
    """Return the sentences of the public text of one side, "train" or "test"."""
    pieces = (piece for texts in public_pieces(side).values() for piece in texts)
    return [
        sentence for piece in pieces for sentence in re.split(r"(?<=[.!?])\s+", piece) if sentence.strip()
    ]


def _loss(weights: Weights, rows: Any) -> float:
    import torch

    generator, found = torch.Generator().manual_seed(0), []
    with torch.inference_mode():
        for part in rows.split(100):
            seen = noised(part, torch.zeros(len(part), dtype=torch.long), generator)
            found.append(text_losses(weights, *seen))
    return float(torch.cat(found).mean())


def _origin() -> dict[str, Any]:
    models = paths.DATA / "models" / "tiny-lm"
    return {
        "settings": dict(SETTINGS),
        "code": code_hashes(__name__),
        "sources": {
            **public_hashes(),
            **{name: sha256_file(models / name) for name in ("model.safetensors", "tokenizer.json")},
        },
    }


def _folder() -> Path:
    return paths.DATA / "models" / NAME
