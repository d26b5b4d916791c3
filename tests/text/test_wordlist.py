"""The word list: what passes, what does not, and that nobody can read it off the repository."""

import re

import pytest

from dprepro.base.paths import DATA
from dprepro.text import wordlist
from dprepro.text.wordlist import blocked, searchable


def test_what_passes():
    assert searchable(["river", "Rome", "tea", "ox", "river", "café", "it's", "x2y", "##ing"]) == (
        "river",
        "tea",
    )


@pytest.mark.parametrize("word", ["nazi", "nazis", "killing", "murdered", "drunken", "vomit"])
def test_blocked_words_and_their_forms(word):
    assert blocked(word)


@pytest.mark.parametrize("word", ["river", "table", "sing", "red", "nervous", "classes"])
def test_innocent_words(word):
    assert not blocked(word)


def test_forms_come_from_the_list_alone(monkeypatch):
    monkeypatch.setattr(wordlist, "_hashes", lambda: {wordlist.sha256(b"blorp").hexdigest()[:8]})
    assert [
        word for word in ("blorp", "blorps", "blorping", "blor", "ablorp", "blorpish") if blocked(word)
    ] == [
        "blorp",
        "blorps",
        "blorping",
    ]


def test_vocabulary_emptied_by_the_filter():
    with pytest.raises(ValueError, match="words must hold some .* got none among 3"):
        searchable(["nazi", "Rome", "x"])


def test_the_file_holds_hashes_only():
    lines = (DATA / "wordlists" / "blocked_words.txt").read_text().splitlines()
    hashes = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch("[0-9a-f]{8}", line) for line in hashes)
    assert hashes == sorted(set(hashes))
    assert len(hashes) > 2_000
    assert lines[1].count("Copyright") == 1
