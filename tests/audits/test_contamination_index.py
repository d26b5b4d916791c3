"""The index of public text: counts and places against a search by hand, and indexes that must not be used."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprepro.audits.contamination_index import build_index, open_index, texts_sha256, tokens
from dprepro.text.corpora import corpus

WORDS = st.sampled_from(["a", "b", "A", "é", "e\u0301", ".", "日本", "🙂", "a.b", " \n"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=5)


def occurrences(run, texts):
    """All places of a run of tokens, text by text: the definition."""
    found = []
    for number, text in enumerate(texts):
        row = tokens(text)
        found += [(number, i) for i in range(len(row) - len(run) + 1) if run and row[i : i + len(run)] == run]
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, query=st.lists(WORDS, max_size=4).map(" ".join))
def test_counts_and_places_are_those_of_a_search_by_hand(texts, query, tmp_path):
    index = build_index(tmp_path / "index", texts, "drawn")
    for text in (query, *texts):
        ids, places = index.ids(text), occurrences(tokens(text), texts)
        assert index.count(ids) == len(places)
        assert index.contains(ids) == bool(places)
        assert index.first_place(ids) == (min(places) if places else None)
    assert index.size == sum(len(tokens(text)) for text in texts)


def test_tokens_are_words_and_marks_as_they_are_written():
    assert tokens("It's  a\nfilm... Über_gut, no?") == [
        "It",
        "'",
        "s",
        "a",
        "film",
        ".",
        ".",
        ".",
        "Über_gut",
        ",",
        "no",
        "?",
    ]
    assert tokens("cafe\u0301") == tokens("caf\u00e9") == ["caf\u00e9"]
    assert tokens(" \n\t") == []


def test_a_word_count_agrees_with_the_text_itself(tmp_path):
    texts = corpus("products").texts
    index = build_index(tmp_path, texts, "products")
    for word in ("the", "camera", "."):
        assert index.count(index.ids(word)) == sum(tokens(text).count(word) for text in texts) > 10


def test_more_words_than_two_bytes_can_number(tmp_path):
    """Token 70,001 taken modulo 65,536 would be token 4,465."""
    texts = [" ".join(f"w{i}" for i in range(start, start + 100)) for start in range(0, 70_100, 100)]
    index = build_index(tmp_path, texts, "many words")
    assert index.words["w70000"] == 70_001
    for word in ("w70000", "w4464", "w65535", "w0"):
        assert index.count(index.ids(word)) == 1
    assert index.first_place(index.ids("w70000 w70001")) == (700, 0)
    assert index.count(index.ids("w70000 w4465")) == 0
    assert index.count(index.ids("unseen")) == 0


def test_one_word_below_and_above_the_border_of_two_bytes(tmp_path):
    for size in (2**16 - 2, 2**16 - 1):  # the id of a word that occurs nowhere is the largest
        index = build_index(tmp_path, [" ".join(map(str, range(size)))], "border")
        assert (tmp_path / "tokens.bin").stat().st_size == (size + 2) * (2 if size == 2**16 - 2 else 4)
        assert index.count(index.ids(str(size - 1))) == 1
        assert index.count(index.ids("unseen")) == 0


def test_an_empty_index_holds_nothing(tmp_path):
    index = build_index(tmp_path, [], "nothing")
    assert index.size == 0
    assert index.count(index.ids("a")) == 0
    assert index.first_place(index.ids("a")) is None


def test_an_index_of_other_texts_is_refused_naming_both(tmp_path):
    mine, other = ["one text"], ["another text"]
    build_index(tmp_path, mine, "mine")
    assert open_index(tmp_path, texts_sha256(mine)).count([1, 2]) == 1
    with pytest.raises(ValueError) as error:
        open_index(tmp_path, texts_sha256(other))
    assert texts_sha256(mine) in str(error.value)
    assert texts_sha256(other) in str(error.value)
    assert "mine" in str(error.value)


def test_what_is_no_sequence_of_texts_is_refused(tmp_path):
    for texts in ("one text", ["a", 3], b"ab", None, [None]):
        with pytest.raises(ValueError, match="texts must be a sequence of texts"):
            build_index(tmp_path / "none", texts, "mine")
        assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="name must be a text, got 3"):
        build_index(tmp_path / "none", ["a"], 3)
    once = build_index(tmp_path / "once", iter(["a b", "a"]), "read once")
    assert once.count(once.ids("a")) == 2
    assert once.sha256 == texts_sha256(["a b", "a"])


def test_the_hash_sees_order_and_borders_of_texts():
    hashes = {texts_sha256(texts) for texts in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], [])}
    assert len(hashes) == 5
    with pytest.raises(ValueError, match="texts must be a sequence of texts"):
        texts_sha256("one text")
    with pytest.raises(ValueError, match="texts must be a sequence of texts"):
        texts_sha256(["a", 3])


def test_a_damaged_or_missing_index_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="build_index"):
        open_index(tmp_path / "none", "0" * 64)
    texts = ["one text"]
    build_index(tmp_path, texts, "mine")
    with pytest.raises(FileNotFoundError, match="manifest.json is missing: build_index"):
        open_index(tmp_path / "words.json", texts_sha256(texts))  # a file in place of a folder
    words = json.loads((tmp_path / "words.json").read_text())
    (tmp_path / "words.json").write_text(json.dumps(words[::-1]))
    with pytest.raises(ValueError, match="is damaged, words.json changed .* build_index"):
        open_index(tmp_path, texts_sha256(texts))


def test_a_manifest_that_is_cut_or_none_is_named(tmp_path):
    texts = ["one text"]
    build_index(tmp_path, texts, "mine")
    file = tmp_path / "manifest.json"
    whole = file.read_text()
    sound = json.loads(whole)
    for length in (0, 1, len(whole) // 2, len(whole.rstrip()) - 1):
        file.write_text(whole[:length])
        with pytest.raises(ValueError, match="manifest.json is cut or damaged .* build_index"):
            open_index(tmp_path, texts_sha256(texts))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="manifest.json is cut or damaged .* build_index"):
        open_index(tmp_path, texts_sha256(texts))
    for other in (
        [],
        {},
        {**sound, "size": "2"},
        {**sound, "files": {}},
        {name: value for name, value in sound.items() if name != "texts_sha256"},
    ):
        file.write_text(json.dumps(other))
        with pytest.raises(ValueError, match="manifest.json is not the manifest of an index: build_index"):
            open_index(tmp_path, texts_sha256(texts))
    file.write_text(whole)
    assert open_index(tmp_path, texts_sha256(texts)).size == 2


@pytest.mark.parametrize("file", ["tokens.bin", "tokens.idx", "words.json", "texts.npy"])
def test_a_missing_file_is_named(file, tmp_path):
    texts = ["one text"]
    build_index(tmp_path, texts, "mine")
    (tmp_path / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"the index mine in .* lacks {file}: build_index"):
        open_index(tmp_path, texts_sha256(texts))


def test_an_interrupted_build_leaves_no_index(tmp_path, monkeypatch):
    texts = ["one text"]
    build_index(tmp_path, texts, "mine")
    monkeypatch.setattr("numpy.save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build_index(tmp_path, ["one other"], "mine")
    with pytest.raises(FileNotFoundError):
        open_index(tmp_path, texts_sha256(texts))


def test_without_the_package_the_message_has_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokengrams", None)
    with pytest.raises(ImportError, match="pip install"):
        build_index(tmp_path, ["a"], "mine")
