"""Where a causal language model's files lie, and which exactly they are.

The packaged model is a GGUF file, which transformers reads in a quarter of a minute or more. It is converted once,
into safetensors in the build folder that load in less than a second and give the same logits. A folder is taken as it
is. A hub id is looked up in the hub's own cache; the hub itself is asked only if that is allowed.
"""

import copy
import io
import json
import re
import shutil
import tempfile
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from dprepro.base.paths import build_dir
from dprepro.base.store import cannot_write, sha256_file, sha256_json, sha256_tree
from dprepro.text.embedders import _no_bar
from dprepro.text.packaged import weights

PACKAGED = "smollm2-135m-instruct"
# What transformers reads: weights that cannot carry code, configuration, tokenizer.
_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
_SIZES = "conversion.json"


@dataclass(frozen=True)
class ModelFiles:
    """A model's files.

    Attributes
    ----------
    name : str
        For messages and for the key of its answers: the packaged model, a hub id, the last part of a folder.
    revision : str
        The hub's commit, or the SHA-256 of the files.
    path : Path
        The GGUF file, or the folder.
    """

    name: str
    revision: str
    path: Path

    def folder(self) -> Path:
        """Return a folder that transformers can load, converting a GGUF file where that was not done yet."""
        return self.path if self.path.is_dir() else converted(self.path, self.revision)


def find_model(name: str, revision: str | None = None, allow_hub: bool = False) -> ModelFiles:
    """Find a model's files; nothing is loaded.

    Parameters
    ----------
    name : str
        ``"smollm2-135m-instruct"``, a folder, or a hub id (owner/name).
    revision : str, optional
        Commit, tag or branch of a hub id.
    allow_hub : bool
        Whether a hub id that is not in the hub's cache may be fetched.

    Raises
    ------
    ValueError
        A revision of something else than a hub id.
    FileNotFoundError
        The wheel is not installed, a folder holds no model, a hub id cannot be had, or `name` is none of the three.
    """
    is_folder = name != "" and Path(name).expanduser().is_dir()
    if name != PACKAGED and not is_folder and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        folder = _hub_folder(name, revision, allow_hub)
        return ModelFiles(name, folder.name, folder)
    if revision is not None:
        raise ValueError(f"revision must be None but for a hub id, got {revision!r} for {name!r}")
    if name == PACKAGED:
        gguf = weights(PACKAGED)
        return ModelFiles(name, _sha256(gguf), gguf)
    if is_folder:
        folder = Path(name).expanduser().resolve()
        _need_weights(name, folder)
        return ModelFiles(folder.name, sha256_tree(_files(folder)), folder)
    raise FileNotFoundError(
        f"no model {name!r}: it is neither {PACKAGED!r}, nor a folder, nor a hub id (owner/name)"
    )


def converted(gguf: Path, sha256: str) -> Path:
    """Return a folder of safetensors and tokenizer with a GGUF file's model, made at the first call.

    Parameters
    ----------
    gguf : Path
    sha256 : str
        Its SHA-256. Together with the version of transformers, which does the conversion, it names the folder.

    Raises
    ------
    OSError
        The build folder cannot be written.
    """
    made_of = {"gguf": sha256, "transformers": version("transformers"), "gguf_reader": version("gguf")}
    target = build_dir() / "models" / f"{gguf.stem}-{sha256_json(made_of)[:16]}"
    if _complete(target):
        return target
    from safetensors import SafetensorError

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # One process converts, the others wait for it.
        with FileLock(target.with_name(f"{target.name}.lock")):
            if not _complete(target):
                for broken in (target, *target.parent.glob(f".{target.name}.*")):
                    shutil.rmtree(broken, ignore_errors=True)
                with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
                    _convert(gguf, Path(temporary, "model"))
                    Path(temporary, "model").rename(target)
    except (OSError, SafetensorError) as error:
        raise OSError(
            f"{gguf.name} could not be converted ({error}); that takes 0.6 GB: {cannot_write(target.parent)}"
        ) from error
    return target


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # The reader's own bar cannot be turned off otherwise; it would stay in a notebook for good.
    with _no_bar(), redirect_stderr(io.StringIO()):
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # transformers will not save a model that it takes for a quantised one; its weights are plain by now.
        configuration = copy.deepcopy(read.config)
        del configuration.quantization_config
        with torch.device("meta"):
            plain = type(read)(configuration)
        plain.load_state_dict(read.state_dict(), assign=True)
        plain.tie_weights()
        plain.generation_config = read.generation_config
        plain.save_pretrained(folder)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    (folder / _SIZES).write_text(json.dumps(sizes))


def _complete(folder: Path) -> bool:
    """Return whether a conversion holds what it held when it was done; a power cut may leave files short."""
    try:
        sizes = json.loads((folder / _SIZES).read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


@lru_cache
def _sha256(gguf: Path) -> str:
    return sha256_file(gguf)


def _files(folder: Path) -> list[Path]:
    return sorted({file for pattern in _PATTERNS for file in folder.glob(pattern)})


def _need_weights(name: str, folder: Path) -> None:
    for needed in ("config.json", "*.safetensors"):
        if not any(folder.glob(needed)):
            raise FileNotFoundError(f"model {name!r}: {folder} holds no {needed}, so no model to be loaded")


def _hub_folder(name: str, revision: str | None, allow_hub: bool) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    # Which error a missing file or hub ends in depends on the release of the hub's library: any is taken for that.
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        _need_weights(name, folder)
        return folder
    except Exception as error:
        if not allow_hub:
            raise FileNotFoundError(
                f"model {name!r} is not in the hub's cache on this machine, and the hub is not asked unless "
                "allow_hub=True (with HF_HUB_OFFLINE unset)"
            ) from error
    try:
        # Asked first: this fails at once where the download would try again for a minute.
        HfApi().model_info(name, revision=revision, timeout=10)
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(_PATTERNS)))
    except Exception as error:
        raise FileNotFoundError(f"model {name!r} cannot be had from the hub: {error}") from error
    _need_weights(name, folder)
    return folder
