"""Embedders: two known distances, unit rows, word vectors, and what is said when there are no weights."""

import sys

import numpy as np
import pytest

from dprepro.text import embedders
from dprepro.text.embedders import SentenceEmbedder, embedder

TEXTS = ["Yes", "No", "True", "False", "", "a much longer sentence about the price of tea in China " * 9]


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("sentence_transformers")
    return embedder(threads=1)


@pytest.fixture(scope="module")
def vectors(minilm):
    return minilm.encode(TEXTS)


def test_distances_of_single_words(vectors):
    # measured with all-MiniLM-L6-v2 through another loader
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(0.7301, abs=5e-5)
    assert np.linalg.norm(vectors[2] - vectors[3]) == pytest.approx(0.994, abs=5e-4)


def test_rows_are_of_length_one(minilm, vectors):
    assert vectors.shape == (len(TEXTS), minilm.dimension) == (6, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-12)
    assert minilm.encode([]).shape == (0, 384)


def test_batches_and_order_leave_the_vectors_alone(minilm, vectors):
    np.testing.assert_allclose(minilm.encode(TEXTS[::-1], batch_size=2)[::-1], vectors, atol=1e-6)


def test_mean_pooling_by_hand(minilm, vectors):
    """The packaged model is the mean of the last layer over a text's own tokens, scaled to length one."""
    import torch

    tokens = minilm.model.tokenizer(TEXTS[3], return_tensors="pt")
    with torch.inference_mode():
        mean = minilm.model[0].auto_model(**tokens).last_hidden_state[0].mean(dim=0).numpy()
    np.testing.assert_allclose(mean / np.linalg.norm(mean), vectors[3], atol=1e-6)


def test_whole_words_and_their_vectors(minilm):
    words, table = minilm.vocabulary, minilm.word_vectors()
    assert len(words) == len(set(words)) == 21_722
    assert table.shape == (21_722, 384)
    # every one is a single token of the tokenizer itself, and its row is what the model reads for it
    few = words[:: len(words) // 40]
    assert [minilm.model.tokenizer.tokenize(word) for word in few] == [[word] for word in few]
    first_layer = minilm.model[0].auto_model.embeddings.word_embeddings.weight
    row = minilm.model.tokenizer.convert_tokens_to_ids("river")
    assert np.array_equal(table[words.index("river")], first_layer[row].detach().numpy())


def test_threads_are_put_back(minilm, monkeypatch):
    import torch

    seen, before = [], torch.get_num_threads()
    monkeypatch.setattr(
        type(minilm.model), "encode", lambda *_, **__: seen.append(torch.get_num_threads()) or [[3.0, 4.0]]
    )
    assert np.array_equal(
        SentenceEmbedder("any", minilm.model, threads=before + 1).encode(["a"]), [[0.6, 0.8]]
    )
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


class Model:
    """Stands in for a loaded model."""

    def __init__(self, vector=None, tokens=()):
        self.vector = vector
        self.tokenizer = self
        self.tokens = tokens

    def encode(self, texts, **_):
        return [self.vector] * len(texts)

    def get_vocab(self):
        return {token: row for row, token in enumerate(self.tokens)}


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["[CLS]", "tea", "##cup", "x", "!", "cup"], ("tea", "cup")),
        (["<s>", "Ġtea", "cup", "Ġx", "Ġcup", "Ġ12"], ("tea", "cup")),
        (["▁tea", "cup", "▁", "▁cup"], ("tea", "cup")),
    ],
)
def test_whole_words_of_three_kinds_of_tokenizer(tokens, words):
    assert SentenceEmbedder("any", Model(tokens=tokens)).vocabulary == words


@pytest.mark.parametrize("texts", ["Yes", ["Yes", 1], [b"Yes"]])
def test_texts_that_are_none(texts):
    with pytest.raises(ValueError, match="texts must be a sequence of texts"):
        SentenceEmbedder("any", Model([1.0])).encode(texts)


def test_vectors_without_direction():
    with pytest.raises(ValueError, match="embeddings of any must be finite, got 2 of 4"):
        SentenceEmbedder("any", Model([np.nan, 1.0])).encode(["a", "b"])
    with pytest.raises(ValueError, match="embeddings of any must not be zero, got 0 for 'a'"):
        SentenceEmbedder("any", Model([0.0, 0.0])).encode(["a"])


def test_no_weights(tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(FileNotFoundError, match=r"'minilm': it is neither 'all-minilm-l6-v2', nor a folder"):
        embedder("minilm")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(FileNotFoundError, match=f"no weights to be read from {tmp_path}"):
        embedder(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(embedders, "weights", _missing)
        with pytest.raises(FileNotFoundError, match="python -m dprepro setup"):
            embedder()


def _missing(model):
    raise FileNotFoundError("run `python -m dprepro setup`")


def test_hub_out_of_reach(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*_, **__):
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"'someone/some-model': no weights .* no route to the hub"):
        embedder("someone/some-model")


def test_packaged_model_never_asks_the_hub(monkeypatch):
    pytest.importorskip("sentence_transformers")
    import socket

    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert embedder().dimension == 384


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install -e .\[models\]"):
        embedder()


def test_threads_must_be_positive():
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, got 0"):
        embedder(threads=0)
