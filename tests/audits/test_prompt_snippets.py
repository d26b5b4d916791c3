import pytest

from dprepro.audits import prompt_snippets
from dprepro.audits.prompt_snippets import MECHANISMS, pieces_mechanism, snippets, split_key, words_mechanism


def test_snippets_are_rated_and_come_once():
    test, train = snippets("test"), snippets("train")
    assert len(set(test.texts)) == len(test.texts) == len(test.favourable)
    assert not set(test.texts) & set(train.texts)
    assert 0.4 < sum(test.favourable) / len(test.favourable) < 0.6
    few = snippets("test", 7)
    assert few.texts == test.texts[:7]
    assert few.favourable == test.favourable[:7]


def test_baselines_over_words():
    mechanism = words_mechanism("CUSTEXT", "stop words")
    assert (mechanism.keep, len(mechanism.vocabulary)) == ("stop words", 23_511)
    with pytest.raises(ValueError, match="name must be one of 'SANTEXT', 'CUSTEXT', 'InferDPT', got 'Cape'"):
        words_mechanism("Cape", "none")


def test_all_share_one_vocabulary(monkeypatch):
    class Model:
        vocabulary = words_mechanism("SANTEXT", "none").vocabulary

    monkeypatch.setattr(prompt_snippets, "context_model", Model)
    made = {name: pieces_mechanism(name) for name in MECHANISMS}
    assert {type(mechanism).__name__ for mechanism in made.values()} == {
        "Santext",
        "Custext",
        "Rantext",
        "Cape",
        "RandomisedResponse",
    }
    assert all(mechanism.vocabulary is Model.vocabulary for mechanism in made.values())
    assert all(mechanism.keep == "both" for mechanism in made.values())
    assert isinstance(made["Cape"].context, Model)
    with pytest.raises(ValueError, match="name must be one of"):
        pieces_mechanism("SANTEXT+")


def test_keys_are_cut_at_the_first_comma():
    assert split_key("SANTEXT, stop words") == ("SANTEXT", "stop words")
