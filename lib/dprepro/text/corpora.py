"""Corpora: texts with labels, a split, a source and a hash; packaged ones, files of one's own, and those of a hub.

Every corpus is one table with a column `text`, its label columns and `split`. The split follows from the text alone
(a fifth is "test"), so that copies of a text never stand on both sides and any corpus is split alike everywhere.
"""

import hashlib
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from dprepro.base import paths
from dprepro.base.check import one_of
from dprepro.base.store import sha256_bytes, sha256_file

READERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
PACKED = (".xz", ".gz", ".bz2", ".zip")
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Corpus:
    """Texts and what belongs to them.

    Attributes
    ----------
    name : str
    table : DataFrame
        Columns text (str), the label columns, split ("train" or "test").
    labels : tuple of str
        Names of the label columns.
    source, licence : str
        Where it comes from, and on which terms.
    sha256 : str
        Of the file; for a hub corpus of its texts.
    """

    name: str
    table: pd.DataFrame
    labels: tuple[str, ...]
    source: str
    licence: str
    sha256: str

    @property
    def texts(self) -> list[str]:
        """Return the texts, in the order of the table."""
        return list(self.table["text"])

    @property
    def duplicates(self) -> int:
        """Return how many texts are copies of an earlier one."""
        return int(self.table["text"].duplicated().sum())

    def split(self, side: str) -> "Corpus":
        """Return the texts of one side, "train" or "test"; ValueError for another."""
        one_of("side", side, ("train", "test"))
        return replace(self, table=self.table[self.table["split"] == side].reset_index(drop=True))

    def without_copies(self) -> "Corpus":
        """Return each text once, the first of its copies."""
        return replace(self, table=self.table.drop_duplicates("text", ignore_index=True))

    def __len__(self) -> int:
        return len(self.table)


def names() -> list[str]:
    """Return the names that `corpus` knows."""
    return sorted(_catalog())


def corpus(name: str) -> Corpus:
    """Return a packaged corpus, or one that ``python -m dprepro fetch NAME`` has fetched.

    Raises
    ------
    ValueError
        For an unknown name; the message lists those there are.
    FileNotFoundError
        It is not shipped and has not been fetched; the message has the command.
    """
    entry = _catalog()[one_of("name", name, names())]
    path = paths.DATA / "corpora" / entry["file"] if "file" in entry else fetched(entry["fetched"])
    if not path.is_file():
        raise FileNotFoundError(
            f"the corpus {name} is not shipped ({entry['licence']}): run `python -m dprepro fetch {name}`"
        )
    found = read_corpus(path, {"text": "text", "labels": entry["labels"]}, name=name)
    return replace(found, source=entry["source"], licence=entry["licence"])


def read_corpus(
    path: str | os.PathLike[str], columns: str | Mapping[str, Any], name: str | None = None
) -> Corpus:
    """Return a corpus from a file of one's own, or from all files of a folder.

    Parameters
    ----------
    path : path
        A CSV, TSV, JSONL or Parquet file (CSV and JSONL may be packed with gzip or xz), UTF-8; or a folder of such.
    columns : str or mapping
        Which column holds what: ``{"text": "review", "labels": ["stars"]}`` or the name of a map in
        data/corpora/maps.toml, such as "psytar" (its columns are assumed until somebody has seen the file).
    name : str, optional
        By default the stem of the path.

    Raises
    ------
    FileNotFoundError
        Nothing lies at `path`.
    ValueError
        An unknown map or kind of file, a missing column (with those found), no rows, an empty text (with its
        row), a file that is not UTF-8 (with the place of the first bad byte).
    """
    where = Path(path)
    wanted = named_map(columns) if isinstance(columns, str) else dict(columns)
    if where.is_dir():
        files = sorted(file for file in where.iterdir() if _kind(file) in READERS.values())
        if not files:
            raise ValueError(f"{where} must hold a {', '.join(READERS)} file, got none")
    else:
        files = [where]
    table = pd.concat([_read(file, wanted) for file in files], ignore_index=True)
    digest = (
        sha256_file(where) if where.is_file() else sha256_bytes("".join(map(sha256_file, files)).encode())
    )
    return _corpus(
        name or where.name.partition(".")[0], table, wanted, f"file {where.name}", "as its owner says", digest
    )


def hub_corpus(name: str, split: str = "train", revision: str | None = None) -> Corpus:
    """Return a corpus of the Hugging Face hub through `datasets`; this is the one function here that may download.

    Parameters
    ----------
    name : str
        A map with a hub id in data/corpora/maps.toml: ag_news, trec, sst2, samsum, xsum.
    split : str
        Of the hub's own splits.
    revision : str, optional
        A commit, to pin what is read.

    Raises
    ------
    ValueError
        An unknown name.
    ConnectionError
        The hub cannot be reached and the corpus is not in its cache.
    """
    hubs = [key for key, entry in _maps().items() if "hub" in entry]
    wanted = _maps()[one_of("name", name, hubs)]
    import datasets

    try:
        loaded = datasets.load_dataset(wanted["hub"], split=split, revision=revision)
    except Exception as error:  # the library and those below it raise a dozen kinds when offline
        raise ConnectionError(
            f"the corpus {name} ({wanted['hub']}) is not in the cache and the hub gave none: "
            f"{type(error).__name__}. Without a hub, use one of {', '.join(names())}, or read_corpus(file)"
        ) from error
    table = loaded.to_pandas()
    _check_columns(table, wanted, f"{wanted['hub']}, split {split}")
    digest = sha256_bytes("\n".join(map(str, table[wanted["text"]])).encode())
    return _corpus(
        name, table, wanted, f"hub {wanted['hub']}@{revision or 'main'}", "as the hub says", digest
    )


def named_map(name: str) -> dict[str, Any]:
    """Return a column map of data/corpora/maps.toml: text, labels, about and, where nobody checked it, assumed.

    Raises
    ------
    ValueError
        An unknown name; the message lists those there are.
    """
    return dict(_maps()[one_of("columns", name, sorted(_maps()))])


def fetched(file: str) -> Path:
    """Return where `python -m dprepro fetch` puts a file: below the build folder, which git ignores."""
    return paths.build_dir() / "fetched" / file


@cache
def _catalog() -> dict[str, dict[str, Any]]:
    return tomllib.loads((paths.DATA / "corpora" / "catalog.toml").read_text(encoding="utf-8"))


@cache
def _maps() -> dict[str, dict[str, Any]]:
    return tomllib.loads((paths.DATA / "corpora" / "maps.toml").read_text(encoding="utf-8"))


def _kind(file: Path) -> str | None:
    suffixes = [suffix for suffix in file.suffixes if suffix not in PACKED]
    return READERS.get(suffixes[-1]) if suffixes else None


def _read(file: Path, wanted: Mapping[str, Any]) -> pd.DataFrame:
    if not file.is_file():
        raise FileNotFoundError(f"no corpus at {file}")
    kind = _kind(file)
    try:
        if kind == "csv":
            separator = "\t" if ".tsv" in file.suffixes else ","
            table = pd.read_csv(file, dtype=str, keep_default_na=False, sep=separator, encoding="utf-8")
            for column in _label_names(wanted):
                with suppress(ValueError, KeyError):  # not all numbers; a missing column is named below
                    table[column] = pd.to_numeric(table[column])
        elif kind == "jsonl":
            table = pd.read_json(file, lines=True, dtype=False, encoding="utf-8")
        elif kind == "parquet":
            table = pd.read_parquet(file)
        else:
            raise ValueError(f"{file.name} must end in {', '.join(READERS)}, got {file.suffix!r}")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file.name} must be UTF-8, got {_bad_byte(file, error)}: "
            "convert it first (latin-1 is the usual suspect)"
        ) from error
    except pd.errors.EmptyDataError:
        raise ValueError(f"{file.name} must hold texts, got an empty file") from None
    _check_columns(table, wanted, file.name)
    return table


def _bad_byte(file: Path, error: UnicodeDecodeError) -> str:
    # A reader that decodes block by block counts from the block: look in the whole file, if it is not packed.
    try:
        file.read_bytes().decode()
    except UnicodeDecodeError as whole:
        if file.suffix not in PACKED:
            return f"byte 0x{whole.object[whole.start]:02x} at position {whole.start}"
    return f"byte 0x{error.object[error.start]:02x}"


def _check_columns(table: pd.DataFrame, wanted: Mapping[str, Any], where: str) -> None:
    for column in (wanted["text"], *_label_names(wanted)):
        if column not in table:
            assumed = f" ({wanted['assumed']}: copy the map and correct it)" if "assumed" in wanted else ""
            found = ", ".join(map(str, table.columns)) or "none"
            raise ValueError(f"{where} must have a column {column!r}{assumed}, got {found}")


def _label_names(wanted: Mapping[str, Any]) -> Sequence[str]:
    return list(wanted.get("labels", []))


def _corpus(
    name: str, table: pd.DataFrame, wanted: Mapping[str, Any], source: str, licence: str, digest: str
) -> Corpus:
    if len(table) == 0:
        raise ValueError(f"{name} must hold texts, got none ({source})")
    labels = _label_names(wanted)
    frame = table[[wanted["text"], *labels]].rename(columns={wanted["text"]: "text"})
    blank = frame["text"].map(lambda text: not isinstance(text, str) or not text.strip())
    if blank.any():
        row = int(blank.to_numpy().argmax())
        raise ValueError(
            f"{name} must have a text in each row, got {frame['text'].iloc[row]!r} in row {row + 1}"
        )
    frame = frame.assign(split=[_side(text) for text in frame["text"]])
    return Corpus(name, frame.reset_index(drop=True), tuple(labels), source, licence, digest)


def _side(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
    return "test" if number < TEST_SHARE else "train"
