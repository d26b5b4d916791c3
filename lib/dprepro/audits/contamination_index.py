"""A local index of public text in which any run of words is counted exactly: what Infini-gram does for web crawls.

Infini-gram (Liu et al., arXiv 2401.17377) counts n-grams of any length with a suffix array; SynBench (arXiv
2509.14594) asks it whether a "private" text was in the public text that a model was trained on. Here the suffix array
is that of the package tokengrams, over files in a folder, so that an index is built once and may be larger than the
memory. Its manifest has the hash of the texts it was built from: an index of other texts is refused.

A token is a word or a mark of punctuation as it is written (Unicode form NFC, letter case kept); white space does not
count. Between texts stands a mark of its own, so that no run goes from one text into the next.
"""

import json
import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.base.store import sha256_file, sha256_json, write_atomic

_TOKEN = re.compile(r"\w+|[^\w\s]")
_MARK = 0  # before, between and behind texts
_FILES = ("tokens.bin", "tokens.idx", "words.json", "texts.npy")
_MANIFEST = {"name": str, "texts_sha256": str, "size": int, "files": dict}
_MAKE = "build_index(folder, texts, name) makes it"


def tokens(text: str) -> list[str]:
    """Return the words and marks of punctuation of a text, in Unicode form NFC; none for white space alone."""
    return _TOKEN.findall(unicodedata.normalize("NFC", text))


def text_list(name: str, texts: Iterable[str]) -> list[str]:
    """Return texts as a list.

    Raises
    ------
    ValueError
        A single text in place of several, or something else than texts; named by `name`.
    """
    held: list[Any] = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else [None]
    if not all(isinstance(text, str) for text in held):
        raise ValueError(f"{name} must be a sequence of texts, got {texts!r:.80}")
    return held


def texts_sha256(texts: Sequence[str]) -> str:
    """Return the SHA-256 of texts in their order: what an index of them carries. ValueError as `text_list`."""
    return sha256_json(text_list("texts", texts))


class Place(NamedTuple):
    """Where a run of tokens stands: number of the text, and of the token in it, both from 0."""

    text: int
    token: int


@dataclass(frozen=True)
class PublicIndex:
    """An opened index; `build_index` and `open_index` make one.

    Attributes
    ----------
    sha256 : str
        Of the texts (`texts_sha256`).
    name : str
        Of the texts, for people.
    words : dict of str to int
        The id of each token of the texts, from 1.
    starts : ndarray of int, shape (number of texts,)
        Place of the first token of each text in the whole row of tokens.
    size : int
        Number of tokens in all texts, without marks.
    engine : tokengrams.MemmapIndex
    """

    sha256: str
    name: str
    words: dict[str, int]
    starts: NDArray[np.int64]
    size: int
    engine: Any

    def ids(self, text: str) -> list[int]:
        """Return the ids of the tokens of a text; one that the index does not hold has an id that occurs nowhere."""
        nowhere = len(self.words) + 1
        return [self.words.get(token, nowhere) for token in tokens(text)]

    def count(self, ids: Sequence[int]) -> int:
        """Return how often a run of ids occurs, overlapping ones included; 0 for an empty run."""
        return int(self.engine.count(list(ids))) if len(ids) else 0

    def contains(self, ids: Sequence[int]) -> bool:
        """Return whether a run of ids occurs; False for an empty run."""
        return bool(len(ids)) and bool(self.engine.contains(list(ids)))

    def first_place(self, ids: Sequence[int]) -> Place | None:
        """Return the first place of a run of ids, None where it does not occur."""
        found = self.engine.positions(list(ids)) if len(ids) else []
        if not found:
            return None
        place = min(found)
        text = bisect_right(self.starts, place) - 1
        return Place(text, place - int(self.starts[text]))


def build_index(folder: str | os.PathLike[str], texts: Sequence[str], name: str) -> PublicIndex:
    """Write the index of texts into a folder and open it.

    Parameters
    ----------
    folder : path
        Made if it is missing; files of an index that was there are replaced.
    texts : sequence of str
        Public texts; there may be none, and then nothing occurs in it.
    name : str
        What messages call the texts.

    Raises
    ------
    ValueError
        `texts` is a single text or holds something else; a name that is no text.
    ImportError
        tokengrams is not installed; the message has the command.
    """
    if not isinstance(name, str):
        raise ValueError(f"name must be a text, got {name!r:.80}")
    held = text_list("texts", texts)
    engines = _engines()
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    digest = texts_sha256(held)
    (where / "manifest.json").unlink(missing_ok=True)  # written last: an interrupted build leaves no index
    words: dict[str, int] = {}
    row, starts = [_MARK], []
    for text in held:
        starts.append(len(row))
        row += [words.setdefault(token, len(words) + 1) for token in tokens(text)]
        row.append(_MARK)
    # tokengrams takes ids modulo 65,536 without a word where its files have two bytes a token.
    np.array(row, dtype=_width(len(words))).tofile(where / "tokens.bin")
    built = engines.InMemoryIndex.from_token_file(str(where / "tokens.bin"), None, _limit(len(words)))
    built.save_index(str(where / "tokens.idx"))
    write_atomic(where / "words.json", json.dumps(list(words)))
    np.save(where / "texts.npy", np.array(starts, dtype=np.int64))
    manifest = {
        "name": name,
        "texts_sha256": digest,
        "size": len(row) - len(starts) - 1,
        "files": {file: sha256_file(where / file) for file in _FILES},
    }
    write_atomic(where / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    return open_index(where, digest)


def open_index(folder: str | os.PathLike[str], sha256: str) -> PublicIndex:
    """Open an index, provided that it is one of the texts that are meant.

    Parameters
    ----------
    folder : path
    sha256 : str
        `texts_sha256` of the texts.

    Raises
    ------
    FileNotFoundError
        No index lies there, or one of its files is missing.
    ValueError
        It is an index of other texts (both hashes are named), its manifest is cut or is none, or one of its files was
        changed. The message names the file and says how the index is made again.
    ImportError
        tokengrams is not installed.
    """
    where = Path(folder)
    manifest = _manifest(where)
    if manifest["texts_sha256"] != sha256:
        raise ValueError(
            f"sha256 must be that of the texts of the index, {manifest['name']} "
            f"({manifest['texts_sha256']}), got {sha256}"
        )
    missing = [file for file in _FILES if not (where / file).is_file()]
    if missing:
        raise FileNotFoundError(
            f"the index {manifest['name']} in {where} lacks {', '.join(missing)}: {_MAKE} again"
        )
    changed = [file for file in _FILES if sha256_file(where / file) != manifest["files"][file]]
    if changed:
        raise ValueError(
            f"the index {manifest['name']} in {where} is damaged, {', '.join(changed)} changed since it was "
            f"built: {_MAKE} again"
        )
    words = {
        word: i for i, word in enumerate(json.loads((where / "words.json").read_text(encoding="utf-8")), 1)
    }
    engine = _engines().MemmapIndex(str(where / "tokens.bin"), str(where / "tokens.idx"), _limit(len(words)))
    return PublicIndex(
        sha256, manifest["name"], words, np.load(where / "texts.npy"), manifest["size"], engine
    )


def _limit(words: int) -> int:
    return words + 2  # ids from 0, the mark, to that of a token that occurs nowhere


def _width(words: int) -> str:
    return "<u2" if _limit(words) <= 2**16 else "<u4"


def _manifest(where: Path) -> dict[str, Any]:
    file = where / "manifest.json"
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"no index in {where}, {file.name} is missing: {_MAKE}") from None
    except ValueError as error:
        raise ValueError(f"{file} is cut or damaged ({error}): {_MAKE} again") from error
    kinds = {name: type(value) for name, value in held.items()} if isinstance(held, dict) else {}
    if kinds != _MANIFEST or set(held["files"]) != set(_FILES):
        raise ValueError(f"{file} is not the manifest of an index: {_MAKE} again")
    return held


def _engines() -> Any:
    try:
        import tokengrams
    except ImportError as error:
        raise ImportError(
            f"an index of public text needs tokengrams ({error}): run `pip install -e .[models]` "
            "or `python -m dprepro setup`"
        ) from error
    return tokengrams
