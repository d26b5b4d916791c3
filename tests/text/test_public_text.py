"""Public text: nothing lost, nothing private, pieces of whole sentences."""

import pytest

from dprepro.text.corpora import corpus
from dprepro.text.public_text import PUBLIC, WORDS, pieces, public_hashes, public_pieces


def test_by_hand():
    text = 'One two.  Three\nfour? "Five six."\n\nSeven ' + "eight " * 58 + "nine. Ten eleven."
    assert list(pieces(text)) == [
        'One two. Three four? "Five six."',
        "Seven " + "eight " * 58 + "nine.",
        "Ten eleven.",
    ]
    assert list(pieces("word " * (2 * WORDS + 1))) == [("word " * WORDS).strip()] * 2 + ["word"]
    assert list(pieces("  \n\n ")) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_pieces_hold_every_word_in_order(name):
    texts = corpus(name).split("test").without_copies().texts
    found = public_pieces("test")[name]
    assert " ".join(found).split() == " ".join(texts).split()
    assert {len(piece.split()) for piece in found} <= set(range(1, WORDS + 1))


def test_film_reviews_are_private():
    assert "movies" not in public_pieces("train")
    assert list(public_pieces("train")) == list(PUBLIC)


def test_hashes_are_those_of_the_corpora():
    assert public_hashes() == {name: corpus(name).sha256 for name in PUBLIC}
