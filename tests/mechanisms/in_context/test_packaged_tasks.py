"""Packaged tasks against the corpora they are made from."""

import pytest

from dprepro.mechanisms.in_context.packaged_tasks import continuations, domains, replies, sentiment
from dprepro.text.corpora import corpus


def test_sentiment_follows_the_ratings():
    table = corpus("movies").table
    rating = {
        " ".join(text.split()): value for text, value in zip(table["text"], table["sentiment"], strict=True)
    }
    found = sentiment()
    assert len(found) > 2000
    assert len({item.text for item in found}) == len(found)
    assert {item.answer for item in found} == {"positive", "negative"}
    assert all((rating[item.text] > 0) == (item.answer == "positive") for item in found)
    assert min(abs(rating[item.text]) for item in found) >= 1
    assert max(len(item.text.split()) for item in found) == 12


def test_domains_have_their_three_corpora():
    found = domains(10)
    for name, label in (("movies", "film"), ("editorials", "news"), ("products", "product")):
        texts = {" ".join(text.split()) for text in corpus(name).texts}
        mine = [item for item in found if item.answer == label]
        assert len(mine) > 300
        assert {item.text for item in mine} <= texts


def test_generation():
    said = set(corpus("dialogue").texts)
    for item in replies():
        assert item.answer
        assert len(item.text.split()) + len(item.answer.split()) <= 21
    assert any(f"{item.text}\n{item.answer}" in said for item in replies())
    whole = {" ".join(text.split()) for text in corpus("editorials").texts}
    found = continuations()
    assert len(found) > 1000
    assert {f"{item.text} {item.answer}" for item in found} <= whole
    assert all(0 <= len(i.answer.split()) - len(i.text.split()) <= 1 for i in found)


def test_bad_length():
    with pytest.raises(ValueError, match="most_words must be a whole number of at least 4, got 3"):
        sentiment(3)
