"""Small models of our own with their provenance: trained once, refused as soon as code or text behind them changed.

data/models/NAME holds a model's files and manifest.json: what it was trained on, with which settings and code, and
what it reached on held-out text. ``python -m dprepro rebuild NAME`` trains it anew. As for saved results
(`dprepro.base.results`), the hash is of code alone, and of the modules that training imports; how a model is used
afterwards may change freely.
"""

import importlib
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.check import one_of
from dprepro.base.environment import package_versions
from dprepro.base.results import code_hashes
from dprepro.base.store import locked, sha256_bytes, write_atomic
from dprepro.text.embedders import _torch_threads

MANIFEST = "manifest.json"
# Modules with SETTINGS, sources() -> hashes of files, train() -> files, facts; imported when asked for.
_TRAINING = {
    "minilm-mlm-head": "dprepro.text.masked_lm_training",
    "tiny-lm": "dprepro.text.tiny_lm_training",
}


def names() -> list[str]:
    """Return the names of all pre-trained models, sorted."""
    return sorted(_TRAINING)


def manifest(name: str) -> dict[str, Any]:
    """Return a model's manifest, unchecked.

    Returns
    -------
    dict
        name; origin (settings, code, sources: the last two by hash); versions; files (by hash); what training found:
        held_out and first_losses.

    Raises
    ------
    ValueError
        Unknown name, or a manifest that is no JSON object.
    FileNotFoundError
        There is none; the message has the command that makes it.
    """
    file = _folder(name) / MANIFEST
    try:
        found = json.loads(file.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return found
    except FileNotFoundError:
        raise FileNotFoundError(f"the model {name} is missing ({file}): {_command(name)}") from None
    except ValueError as error:
        raise ValueError(f"{file} is not readable ({error}): {_command(name)}") from error


def load(name: str) -> dict[str, bytes]:
    """Return a model's files, checked against its manifest and against the code and the text here.

    Returns
    -------
    dict of str to bytes
        Contents by file name.

    Raises
    ------
    FileNotFoundError
        The model or one of its files is missing, or the packaged weights that it belongs to.
    ValueError
        A file is not the one that was written, or code, settings or text differ from those that it was trained with.
        Every message has the command that makes the model anew.
    """
    saved = manifest(name)
    folder = _folder(name)
    try:
        files = {file: (folder / file).read_bytes() for file in saved.get("files", {})}
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the model {name} is not complete ({error.filename} is missing): {_command(name)}"
        ) from None
    changed = [file for file, content in files.items() if sha256_bytes(content) != saved["files"][file]]
    changed += _differences(saved.get("origin", {}), _origin(name))
    if changed:
        raise ValueError(
            f"the model {name} does not fit any more, changed: {', '.join(changed)}; {_command(name)}"
        )
    return files


def rebuild(name: str) -> Path:
    """Train a model anew, on one core, and replace its files once it is finished.

    Returns
    -------
    Path
        Its folder. data/README.md states the hashes of the files in it and is left to whoever commits them: another
        processor rounds otherwise, so the files differ a little each time.

    Raises
    ------
    ValueError
        Unknown name; code or text changed during the training.
    BlockingIOError
        Another process is training it.
    """
    folder = _folder(name)
    lock = paths.build_dir() / "models" / f".{name}.lock"
    with locked(lock, f"another process is training {name}"):
        origin = _origin(name)
        with _torch_threads(1):
            files, facts = _training(name).train()
        if _origin(name) != origin:
            raise ValueError(f"code or text of {name} changed during its training: {_command(name)} again")
        written = {
            "name": name,
            "origin": origin,
            "versions": {
                **package_versions(),
                **{library: version(library) for library in ("tokenizers", "safetensors")},
            },
            "files": {file: sha256_bytes(content) for file, content in files.items()},
            **facts,
        }
        for file, content in files.items():
            write_atomic(folder / file, content)
        # Last: a kill before this line leaves files that the old manifest refuses.
        write_atomic(folder / MANIFEST, json.dumps(written, indent=1, allow_nan=False) + "\n")
    return folder


def _training(name: str) -> Any:
    return importlib.import_module(_TRAINING[one_of("name", name, names())])


def _origin(name: str) -> dict[str, dict[str, Any]]:
    training = _training(name)
    return {
        "settings": dict(training.SETTINGS),
        "code": code_hashes(training.__name__),
        "sources": training.sources(),
    }


def _differences(
    saved: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for part, entries in now.items():
        then = saved.get(part, {})
        yield from (f"{part} {key}" for key in sorted({*entries, *then}) if entries.get(key) != then.get(key))


def _folder(name: str) -> Path:
    return paths.DATA / "models" / one_of("name", name, names())


def _command(name: str) -> str:
    return f"run `python -m dprepro rebuild {name}`"
