"""Word vectors: packaged ones, fetched ones, neighbours."""

import numpy as np
import pytest

from dprepro.text.corpora import fetched
from dprepro.text.fetch import pack_vectors
from dprepro.text.word_vectors import WordVectors, word_vectors


@pytest.fixture(scope="module")
def minilm():
    return word_vectors()


def test_minilm_has_whole_words(minilm):
    assert minilm.vectors.shape == (len(minilm.words), 384)
    assert len(minilm.words) > 20_000
    assert "cat" in minilm
    assert not any(word.startswith(("##", "[")) for word in minilm.words)
    assert len(set(minilm.words)) == len(minilm.words)


def test_vectors_are_those_of_the_model(minilm):
    torch = pytest.importorskip("torch")
    from dprepro.text.embedders import embedder

    model = embedder().model
    transformer = model[0].model if hasattr(model[0], "model") else model[0].auto_model
    number = model.tokenizer.convert_tokens_to_ids("cat")
    with torch.no_grad():
        expected = transformer.get_input_embeddings().weight[number].numpy()
    np.testing.assert_array_equal(minilm["cat"], expected)


def test_nearest_against_all_distances(minilm):
    some = minilm.restricted(["cat", "dog", "car", "truck", "no such word", "cat"])
    assert some.words == ("cat", "dog", "car", "truck")
    found = some.nearest("cat", 3)
    expected = sorted((float(np.linalg.norm(some["cat"] - some[w])), w) for w in ("dog", "car", "truck"))
    assert [word for word, _ in found] == [word for _, word in expected]
    assert found[0][0] == "dog"
    assert [d for _, d in found] == pytest.approx([d for d, _ in expected], rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v.nearest("xyzzyx", 1), "got 'xyzzyx'"),
        (lambda v: v.nearest("a", 2), "k must be below"),
        (lambda v: v.nearest("a", 0), "k must be a whole number"),
        (lambda v: word_vectors("word2vec"), "name must be one of 'minilm', 'glove-100d'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(WordVectors(("a", "b"), np.eye(2, dtype=np.float32)))


def test_fetched_vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="dprepro fetch vectors"):
        word_vectors("glove-100d")
    content = pack_vectors({"the": [0.5] * 102, "naïve": [0.25] * 102, "two words": [0.0] * 102})
    fetched("glove-100d.npz").parent.mkdir(parents=True)
    fetched("glove-100d.npz").write_bytes(content)
    glove = word_vectors("glove-100d")
    assert glove.words == ("the", "naïve")
    assert glove.vectors.shape == (2, 100)
    assert glove["naïve"][99] == 0.25
