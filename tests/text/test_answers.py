"""The store of answers: content-addressed, damaged entries, processes side by side, what a kill leaves."""

import json
import random
import sqlite3
import subprocess
import sys
import warnings
import zlib

import pytest

from dprepro.base.store import sha256_json
from dprepro.text.answers import AnswerStore

REQUEST = {"model": "m", "revision": "r", "prompt": "Why?", "max_tokens": 8}


@pytest.fixture
def store(tmp_path):
    return AnswerStore(tmp_path / "answers")


def database(store):
    return sqlite3.connect(store.folder / "cache.db")


def overwrite(store, value):
    with database(store) as connection:
        connection.execute("UPDATE Cache SET value = ?", (value,))
    connection.close()


def test_answers_come_back_from_disk(store):
    assert store.get(REQUEST) is None
    store.put([(REQUEST, "Because."), ({**REQUEST, "prompt": "Wo?"}, [-0.1, -1e-300, -123.456789012345678])])
    again = AnswerStore(store.folder)
    assert again.get(dict(reversed(REQUEST.items()))) == "Because."
    assert again.get({**REQUEST, "prompt": "Wo?"}) == [-0.1, -1e-300, -123.456789012345678]


@pytest.mark.parametrize(
    "change", [{"model": "n"}, {"revision": "s"}, {"prompt": "Why? "}, {"max_tokens": 9}]
)
def test_all_of_a_request_counts(store, change):
    store.put([(REQUEST, "Because.")])
    assert store.get({**REQUEST, **change}) is None


@pytest.mark.parametrize("text", ["", "\u2028 \x00 é 日本 \U0001f600", "x" * 200_000])
def test_any_text(store, text):
    store.put([(REQUEST, text)])
    assert AnswerStore(store.folder).get(REQUEST) == text


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\x00" * 40,
        "a text",
        7,
        zlib.compress(b"{half a rec"),
        zlib.compress(json.dumps({**REQUEST, "answer": "Because!"}).encode())[:-3],
        zlib.compress(json.dumps({**REQUEST, "prompt": "Wo?", "answer": "There."}).encode()),
        zlib.compress(json.dumps(REQUEST).encode()),
        zlib.compress(b"[1, 2]"),
        zlib.compress(b"null"),
    ],
)
def test_a_damaged_entry_is_dropped_and_said_once(store, damage):
    other = {**REQUEST, "prompt": "When?"}
    store.put([(REQUEST, "Because."), (other, "Now.")])
    overwrite(store, damage)
    with pytest.warns(UserWarning, match=f"an answer in {store.folder} was damaged; it is dropped"):
        assert store.get(REQUEST) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get(other) is None
        assert store.get(REQUEST) is None
        assert not list(store.records())
    store.put([(REQUEST, "Because.")])
    assert store.get(REQUEST) == "Because."


def test_a_bit_flipped_anywhere_in_an_entry(store):
    store.put([(REQUEST, "Because of the weather, they said.")])
    with database(store) as connection:
        ((value,),) = connection.execute("SELECT value FROM Cache").fetchall()
    for place in range(0, len(value), 5):
        overwrite(store, value[:place] + bytes([value[place] ^ 4]) + value[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert store.get(REQUEST) is None
        store.put([(REQUEST, "Because of the weather, they said.")])


def test_a_large_answer_whose_file_is_cut(store):
    store.put([(REQUEST, random.Random(1).randbytes(40_000).hex())])
    (file,) = store.folder.rglob("*.val")
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="damaged"):
        assert store.get(REQUEST) is None


def test_a_database_that_is_none(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(OSError, match=f"answers in {tmp_path} cannot be read .*move that folder away"):
        AnswerStore(tmp_path)


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        AnswerStore(tmp_path / "file" / "answers")


def test_by_default_in_the_build_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "b"))
    assert AnswerStore().folder == tmp_path / "b" / "answers"


def test_a_batch_that_is_cut_short_leaves_nothing(store):
    def interrupted():
        yield REQUEST, "Because."
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put(interrupted())
    assert AnswerStore(store.folder).get(REQUEST) is None


def test_nothing_is_thrown_out(store):
    cache = store._cache
    assert (cache.eviction_policy, cache.cull_limit) == ("none", 0)
    cache.reset("size_limit", 1)  # far below what follows
    store.put(({**REQUEST, "n": n}, "x" * 100) for n in range(50))
    assert len(list(store.records())) == 50


WRITER = """
import sys
from dprepro.text.answers import AnswerStore
store = AnswerStore(sys.argv[1])
for batch in range(30):
    store.put(({"n": n}, f"answer {n}") for n in range(batch * 10, batch * 10 + 10))
    assert store.get({"n": batch * 10}) == f"answer {batch * 10}"
"""


def test_processes_side_by_side(store):
    """Four write the same answers at once, from the making of the folder on; one of them is killed."""
    folder = store.folder.with_name("shared")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder)]) for _ in range(4)]
    writers[3].kill()
    assert [writer.wait() for writer in writers[:3]] == [0, 0, 0]
    assert {record["n"]: record["answer"] for record in AnswerStore(folder).records()} == {
        n: f"answer {n}" for n in range(300)
    }


def test_export(store, tmp_path):
    other = {**REQUEST, "model": "n"}
    store.put([(other, "So."), (REQUEST, "Because.")])
    assert store.export(tmp_path / "all.jsonl") == 2
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    keys = [sha256_json({k: v for k, v in line.items() if k != "answer"}) for line in lines]
    assert keys == sorted(keys)
    assert store.export(tmp_path / "one.jsonl", model="n") == 1
    assert json.loads((tmp_path / "one.jsonl").read_text()) == {**other, "answer": "So."}
    assert store.export(tmp_path / "none.jsonl", model="z") == 0
