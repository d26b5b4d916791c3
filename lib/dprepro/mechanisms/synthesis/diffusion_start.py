"""The public start of the diffusion model: its network trained on public text, with its provenance.

``python -m dprepro rebuild tiny-diffusion`` trains it anew (``diffusion_training``) and writes data/models/
tiny-diffusion: the weights (float16) and a manifest, by which `public_start` refuses weights that other code or other
text has made. As in `text.pretrained`, which keeps the other models, the hash is of the code that trains: how weights
are read may change freely.
"""

import json
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.environment import package_versions
from dprepro.base.results import code_hashes
from dprepro.base.store import locked, sha256_bytes, write_atomic
from dprepro.mechanisms.synthesis import diffusion_training
from dprepro.mechanisms.synthesis.diffusion_net import Weights
from dprepro.text.embedders import _torch_threads

NAME = "tiny-diffusion"
_COMMAND = f"run `python -m dprepro rebuild {NAME}`"
_FILE, _MANIFEST = "denoiser.safetensors", "manifest.json"


def public_start() -> Weights:
    """Load the weights: a new dictionary each time.

    Raises
    ------
    FileNotFoundError
        They are missing.
    ValueError
        They are not those that were written, or code, settings or text differ from those that they were trained with,
        or the manifest is cut or no manifest. Every message has the command that makes them anew.
    """
    from safetensors.torch import load

    try:
        saved = json.loads((_folder() / _MANIFEST).read_bytes())
        content = (_folder() / _FILE).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the model {NAME} is not complete ({error.filename} is missing): {_COMMAND}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{_folder() / _MANIFEST} is not readable ({error}): {_COMMAND}") from None
    if not isinstance(saved, dict) or not all(
        isinstance(saved.get(part), dict) for part in ("origin", "files")
    ):
        raise ValueError(f"{_folder() / _MANIFEST} is no manifest (origin and files are missing): {_COMMAND}")
    changed = [part for part, now in _origin().items() if saved["origin"].get(part) != now]
    changed += [_FILE] if sha256_bytes(content) != saved["files"].get(_FILE) else []
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
        weights, facts = diffusion_training.train(diffusion_training.SETTINGS["steps"])
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


def _origin() -> dict[str, Any]:
    return {
        "settings": dict(diffusion_training.SETTINGS),
        "code": code_hashes(diffusion_training.__name__),
        "sources": diffusion_training.sources(),
    }


def _folder() -> Path:
    return paths.DATA / "models" / NAME
