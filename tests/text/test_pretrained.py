"""Pre-trained models: stored ones fit, changed ones are refused, training replaces files at its end only."""

import importlib
import json
import subprocess
import sys

import pytest

from dprepro.base import paths
from dprepro.base.store import locked, sha256_bytes
from dprepro.kit import cli
from dprepro.text import pretrained
from dprepro.text.corpora import corpus

NAMES = ["minilm-mlm-head", "tiny-lm"]
CODE = '''
SETTINGS = {"seed": 1, "steps": 2}

def sources():
    return {"text": "abc"}

def train():
    """Return what was trained."""
    return {"a.bin": b"weights", "b.json": b"{}"}, {"held_out": {"after": 2.0}, "first_losses": [7.0]}
'''


@pytest.fixture
def toy(house, monkeypatch):
    """A model that trains at once, in a small repository; returns its training module."""
    package = house.root / "code" / "toymodels"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "training.py").write_text(CODE)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(pretrained, "_TRAINING", {"toy": "toymodels.training"})
    importlib.invalidate_caches()
    yield importlib.import_module("toymodels.training")
    for name in ("toymodels", "toymodels.training"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(toy):
    return pretrained.rebuild("toy")


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_trained_stored_and_loaded(toy, folder):
    assert folder == paths.DATA / "models" / "toy"
    assert pretrained.load("toy") == toy.train()[0]
    found = pretrained.manifest("toy")
    assert found["name"] == "toy"
    assert found["origin"]["settings"] == toy.SETTINGS
    assert found["origin"]["sources"] == toy.sources()
    assert list(found["origin"]["code"]) == ["toymodels", "toymodels.training"]
    assert found["files"] == {name: sha256_bytes(content) for name, content in toy.train()[0].items()}
    assert found["held_out"] == {"after": 2.0}
    assert found["first_losses"] == [7.0]
    assert {"python", "torch", "transformers", "tokenizers", "safetensors"} <= set(found["versions"])
    assert sorted(files_in(folder)) == ["a.bin", "b.json", "manifest.json"]


def test_a_changed_byte(folder):
    (folder / "a.bin").write_bytes(b"weightz")
    with pytest.raises(ValueError, match=r"toy does not fit any more, changed: a.bin; run `.*rebuild toy`"):
        pretrained.load("toy")


def test_changed_code_but_not_a_comment(folder):
    code = paths.ROOT / "code" / "toymodels" / "training.py"
    code.write_text("# a comment\n" + CODE.replace("what was trained", "files and facts"))
    assert pretrained.load("toy")
    code.write_text(CODE.replace("return {", "return {**{}, ", 1))
    with pytest.raises(ValueError, match=r"changed: code toymodels.training; run `python -m dprepro rebuild"):
        pretrained.load("toy")


def test_changed_settings_and_text(toy, folder, monkeypatch):
    monkeypatch.setitem(toy.SETTINGS, "steps", 3)
    monkeypatch.setattr(toy, "sources", lambda: {"text": "abd"})
    with pytest.raises(ValueError, match=r"changed: settings steps, sources text; run `.* rebuild toy`"):
        pretrained.load("toy")


def test_missing(toy):
    with pytest.raises(
        FileNotFoundError, match=r"toy is missing .*toy/manifest.json\): run `.* rebuild toy`"
    ):
        pretrained.load("toy")
    (pretrained.rebuild("toy") / "b.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"toy is not complete .*b.json is missing\): run `"):
        pretrained.load("toy")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"name"', "is not readable .*run `python -m dprepro rebuild toy`"),
        ("[]", "is not readable .not a JSON object.: run `"),
        ("{}", "changed: settings seed, settings steps, code toymodels, .*run `"),
        ('{"files": []}', "changed: settings seed, .*run `"),
    ],
)
def test_a_broken_manifest(folder, text, says):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=says):
        pretrained.load("toy")


def test_unknown_name():
    for call in (pretrained.load, pretrained.manifest, pretrained.rebuild):
        with pytest.raises(ValueError, match="name must be one of 'minilm-mlm-head', 'tiny-lm', got '../x'"):
            call("../x")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_training_that_ends_early_leaves_the_old_files(toy, folder, monkeypatch, error):
    before = files_in(folder)

    def fail():
        raise error

    monkeypatch.setattr(toy, "train", fail)
    with pytest.raises(error):
        pretrained.rebuild("toy")
    assert files_in(folder) == before
    assert pretrained.load("toy")


def test_code_that_changes_meanwhile(toy, folder, monkeypatch):
    before = files_in(folder)
    trained = toy.train()

    def train():
        (paths.ROOT / "code" / "toymodels" / "training.py").write_text(CODE + "x = 1\n")
        return trained

    monkeypatch.setattr(toy, "train", train)
    with pytest.raises(ValueError, match="code or text of toy changed during its training: run `.*` again"):
        pretrained.rebuild("toy")
    assert files_in(folder) == before


def test_one_at_a_time(toy):
    with (
        locked(paths.build_dir() / "models" / ".toy.lock", "busy"),
        pytest.raises(BlockingIOError, match="another process is training toy: process"),
    ):
        pretrained.rebuild("toy")


def test_one_thread_while_training(toy, monkeypatch):
    torch = pytest.importorskip("torch")
    seen, trained, before = [], toy.train(), torch.get_num_threads()
    monkeypatch.setattr(toy, "train", lambda: seen.append(torch.get_num_threads()) or trained)
    pretrained.rebuild("toy")
    assert (seen, torch.get_num_threads()) == ([1], before)


def test_rebuilt_by_the_command_line(toy):
    assert cli.main(["rebuild", "toy"]) == 0
    assert pretrained.load("toy")
    assert cli.main(["rebuild", "toys"]) == 2


def test_listed_by_the_command_line(capsys):
    assert cli.main(["list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"   {name}\n" in printed for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_stored(name):
    files = pretrained.load(name)
    found = pretrained.manifest(name)
    for public in ("novels", "editorials", "products"):
        assert found["origin"]["sources"][public] == corpus(public).sha256
    assert "movies" not in json.dumps(found)
    assert set(files_in(paths.DATA / "models" / name)) == {*files, "manifest.json"}
    assert len(found["first_losses"]) == 5


def test_all_together():
    assert pretrained.names() == NAMES
    sizes = [path.stat().st_size for path in (paths.DATA / "models").rglob("*") if path.is_file()]
    assert sum(sizes) < 3.5e6


def test_importing_stays_light():
    modules = ", ".join(f"dprepro.text.{name}" for name in ("tiny_lm", "masked_lm", "pretrained"))
    heavy = "{'torch', 'transformers', 'tokenizers', 'sentence_transformers'}"
    code = f"import sys, {modules}; sys.exit(str({heavy} & set(sys.modules) or ''))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip() == ""
