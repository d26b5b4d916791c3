import numpy as np
import pytest

from dprepro.text.embedding_cache import EmbeddingCache


class Lengths:
    """An embedder that says what it was asked."""

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked.append(list(texts))
        return np.array([[len(text), 1.0] for text in texts]).reshape(len(texts), 2)


def test_nothing_is_embedded_twice():
    inner = Lengths()
    cache = EmbeddingCache(inner)
    np.testing.assert_array_equal(cache.encode(["a", "bb", "a"]), [[1, 1], [2, 1], [1, 1]])
    np.testing.assert_array_equal(cache.encode(["ccc", "bb"]), [[3, 1], [2, 1]])
    np.testing.assert_array_equal(cache.encode(["a"]), [[1, 1]])
    assert inner.asked == [["a", "bb"], ["ccc"]]


def test_no_texts_have_the_embedders_width():
    assert EmbeddingCache(Lengths()).encode([]).shape == (0, 2)


def test_a_change_of_the_answer_does_not_change_what_is_kept():
    cache = EmbeddingCache(Lengths())
    cache.encode(["a"])[:] = 7
    np.testing.assert_array_equal(cache.encode(["a"]), [[1, 1]])


def test_what_the_embedder_refuses_is_refused():
    class Refuses:
        def encode(self, texts):
            raise ValueError("texts must be good")

    with pytest.raises(ValueError, match="texts must be good"):
        EmbeddingCache(Refuses()).encode(["bad"])
