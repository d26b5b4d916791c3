import string

import numpy as np
import pytest

from dprepro.mechanisms.prompt.vocabulary import (
    KEEP,
    OUTSIDE,
    PUNCTUATION,
    STOP_WORDS,
    BytePairTokenizer,
    PieceTokenizer,
    Vocabulary,
    WordTokenizer,
)

WORDS = ("a", "film", "the", "good", ".", "don", "'", "t", "over", "##see")


class Cutter:
    """A stand-in for a tokenizer of transformers: what it says is fixed."""

    def __init__(self, tokens):
        self.tokens = tokens

    def tokenize(self, text):
        return self.tokens

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens).replace("Ġ", " ")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32))


def test_keep_lists_have_the_published_sizes():
    assert len(STOP_WORDS) == 179
    assert set(string.punctuation) == PUNCTUATION
    assert len(PUNCTUATION) == 32


@pytest.mark.parametrize(("keep", "kept"), list(zip(KEEP, ([], [5], [0, 3], [0, 3, 5]), strict=True)))
def test_one_argument_says_what_is_kept(vocabulary, keep, kept):
    cut = vocabulary.cut("The good film over Paris.", keep)
    assert cut.tokens == ("the", "good", "film", "over", "paris", ".")
    assert cut.rows.tolist() == [2, 3, 1, 8, OUTSIDE, 4]
    assert np.flatnonzero(cut.kept).tolist() == kept
    assert sorted([*kept, *cut.sensitive]) == list(range(6))


def test_contractions_are_stop_words_in_parts(vocabulary):
    cut = vocabulary.cut("I don't", "both")
    assert cut.tokens == ("i", "don", "'", "t")
    assert cut.kept.all()


def test_a_piece_of_a_longer_word_is_no_stop_word():
    vectors = np.zeros((len(WORDS), 1), np.float32)
    pieces = Vocabulary(WORDS, vectors, PieceTokenizer(Cutter(["over", "##see", "the", "over"])))
    assert pieces.cut("oversee the over", "stop words").kept.tolist() == [False, False, True, True]
    assert pieces.join(["over", "##see", "the", "", "film"]) == "oversee the film"
    bytes_ = Vocabulary(WORDS, vectors, BytePairTokenizer(Cutter(["Over", "see", "Ġthe", "Ġfilm", "."])))
    assert bytes_.cut("Oversee the film.", "both").kept.tolist() == [False, False, True, False, True]
    assert bytes_.join(["Over", "see", "Ġthe", "Ġfilm", "."]) == "Oversee the film."


def test_empty_text_other_script_and_punctuation_in_other_scripts(vocabulary):
    assert vocabulary.cut("", "both").tokens == ()
    assert vocabulary.cut("", "both").sensitive.tolist() == []
    cut = vocabulary.cut("фильм 電影。", "both")
    assert cut.rows.tolist() == [OUTSIDE] * 3
    assert not cut.kept.any()  # the list is English and ASCII


def test_distances_against_differences(vocabulary):
    rows = np.array([3, 0])
    wanted = np.linalg.norm(vocabulary.vectors[rows][:, None] - vocabulary.vectors, axis=2)
    np.testing.assert_allclose(vocabulary.distances(rows), wanted, atol=1e-5)
    assert vocabulary.distances(rows)[[0, 1], rows].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (("a", "b", "a"), np.zeros((3, 2)), "different from each other, got 'a' twice"),
        (("a",), np.zeros((1, 2)), "two at least"),
        (("a", "b"), np.zeros((3, 2)), r"vectors must have shape \(2, d\)"),
        (("a", "b"), np.zeros(2), "shape"),
        (("a", "b"), np.array([[0.0], [np.nan]]), "vectors must be finite"),
    ],
)
def test_vocabularies_refused(words, vectors, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(words, vectors)


def test_bad_calls(vocabulary):
    with pytest.raises(ValueError, match="keep must be one of"):
        vocabulary.cut("a", "some")
    with pytest.raises(ValueError, match="text must be a text"):
        vocabulary.cut(b"a")


def test_word_tokenizer_cuts_and_joins():
    words = WordTokenizer()
    assert words.join(words.tokenize("It's ''Conan''!")) == "it ' s ' ' conan ' ' !"


def test_distances_in_double_precision(vocabulary):
    rows, table = np.array([3, 0]), vocabulary.vectors.astype(float)
    wanted = np.linalg.norm(table[rows][:, None] - table, axis=2)
    np.testing.assert_allclose(vocabulary.distances(rows, double=True), wanted, atol=1e-12)
