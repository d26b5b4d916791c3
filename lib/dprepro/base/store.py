"""Hashes of content, files that are either whole or absent, and one writer at a time.

A hash here depends on content and relative names only: not on dates, on the place of the checkout, or on the
order in which a file system lists a folder.
"""

import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

# Written by tools beside the sources; they change without the content changing.
_BYPRODUCTS = {"__pycache__", ".ipynb_checkpoints", ".DS_Store"}
_PROBE_BYTES = 1 << 20


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits; OSError if it cannot be read."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_json(obj: Any) -> str:
    """Return the SHA-256 of a JSON value: the same for any order of keys.

    Raises
    ------
    ValueError
        For NaN or infinity, which JSON cannot hold.
    TypeError
        For a value that is not JSON (an array, a Path).
    """
    return sha256_bytes(json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def sha256_tree(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return one SHA-256 over files and folders.

    Parameters
    ----------
    paths : iterable of path
        Files, and folders taken whole (without caches such as `__pycache__`). Their order does not matter.

    Returns
    -------
    str
        Changes when a file's content or its name below the given path changes, or when a file is added or
        removed; the same wherever the given paths lie.

    Raises
    ------
    FileNotFoundError
        If a path does not exist: a missing input must never hash like an empty one.
    """
    entries = sorted((name, sha256_file(file)) for path in paths for name, file in _walk(Path(path)))
    return sha256_json(entries)


def _walk(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        return
    for folder, subfolders, files in os.walk(path):
        subfolders[:] = [name for name in subfolders if name not in _BYPRODUCTS]
        for file in (Path(folder, name) for name in files if name not in _BYPRODUCTS):
            yield f"{path.name}/{file.relative_to(path).as_posix()}", file


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a file so that a reader, or a kill at any moment, meets the old content or the new, never a part.

    Parameters
    ----------
    path : path
        Its folder is created if missing.
    data : bytes or str
        Text is written as UTF-8 with the line ends it has.

    Raises
    ------
    OSError
        If the folder cannot be written (read-only, full disk): the message names it and how to choose
        another. The old file is untouched and no temporary file is left.
    """
    target = Path(path)
    # Same folder as the target: os.replace is atomic only inside one file system.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{cannot_write(target.parent)} ({error.strerror})") from error
        raise


def cannot_write(folder: str | os.PathLike[str]) -> str:
    """Return the sentence that tells a user what to do about a folder that cannot be written."""
    where = os.fspath(folder)
    return (
        f"cannot write in {where}: make it writable, free some space, or set DPREPRO_BUILD to another folder"
    )


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file, without waiting for it; the system lets go of it when its process ends, however it ends.

    Parameters
    ----------
    path : Path
        The lock file; who holds it stands beside it, in `<path>.json`.
    busy : str
        How the message begins, such as "another batch is writing build/laptop".

    Raises
    ------
    BlockingIOError
        Another process holds it; the message says which, and since when.
    OSError
        The folder cannot be written or is full, found out by writing a megabyte; as `write_atomic`.
    """
    holder, probe = (path.with_name(f"{path.name}.{ending}") for ending in ("json", "probe"))
    write_atomic(probe, bytes(_PROBE_BYTES))
    probe.unlink(missing_ok=True)
    now = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    try:
        with FileLock(path, timeout=0):
            write_atomic(holder, json.dumps(now))
            yield
            holder.unlink(missing_ok=True)
    except Timeout as error:
        raise BlockingIOError(f"{busy}: {_described(holder)}; wait for it or stop it") from error


def _described(holder: Path) -> str:
    try:
        found = json.loads(holder.read_bytes())
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError):
        return "a process that has just started"
