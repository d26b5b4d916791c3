"""The answers of language models on disk, each under the hash of what it depends on.

A diskcache in the build folder: key, the SHA-256 of model, revision, prompt and decoding; value, a record that holds
all of these and the answer, compressed with a checksum. A batch is written in one transaction, so a kill at any
moment leaves whole batches only. Several processes may read and write at once, on a disk of the machine itself:
SQLite's locks do not hold on every network disk.
"""

import json
import sqlite3
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diskcache import Cache, JSONDisk

from dprepro.base.paths import build_dir
from dprepro.base.store import cannot_write, sha256_json, write_atomic

Record = dict[str, Any]
_ABSENT = object()
_DAMAGE = (zlib.error, ValueError, TypeError)


class AnswerStore:
    """Answers on disk.

    Parameters
    ----------
    folder : path, optional
        Made if missing. By default ``answers`` in the build folder, which `dprepro clean` deletes: give answers
        that cost money a folder elsewhere, or export them.

    Raises
    ------
    OSError
        The folder cannot be written, or its database cannot be read.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = build_dir() / "answers" if folder is None else Path(folder).expanduser()
        self._warned = False
        with self._clear_errors():
            # Nothing is ever thrown out: the default policy would drop the oldest beyond one gigabyte.
            self._cache = Cache(str(self.folder), disk=JSONDisk, eviction_policy="none", cull_limit=0)

    def get(self, request: Record) -> Any:
        """Return the answer to a request, or None if there is none.

        An entry that cannot be read, or that is another request's, is dropped: a warning says so, once.

        Parameters
        ----------
        request : dict of JSON values
            All that the answer depends on.
        """
        record = self._record(sha256_json(request))
        return None if record is None else record["answer"]

    def put(self, answers: Iterable[tuple[Record, Any]]) -> None:
        """Write answers in one transaction: all of them or, if it is cut short, none.

        Parameters
        ----------
        answers : iterable of (request, answer)
            JSON values both.
        """
        with self._clear_errors(), self._cache.transact(retry=True):
            for request, answer in answers:
                self._cache.set(sha256_json(request), {**request, "answer": answer})

    def records(self) -> Iterator[Record]:
        """Yield every record: the request's values and ``answer``, in the order of the keys."""
        with self._clear_errors():
            keys = sorted(self._cache)
        for key in keys:
            record = self._record(key)
            if record is not None:
                yield record

    def export(self, path: str | Path, **only: Any) -> int:
        """Write records as JSON lines, whole or not at all, for `replay.Replay` or for another machine.

        Parameters
        ----------
        path : path
        **only
            Values that a record must have, such as ``model="smollm2-135m-instruct"``.

        Returns
        -------
        int
            Records written; the same store gives the same file.
        """
        chosen = [record for record in self.records() if only.items() <= record.items()]
        write_atomic(path, "".join(json.dumps(record, sort_keys=True) + "\n" for record in chosen))
        return len(chosen)

    def _record(self, key: str) -> Record | None:
        with self._clear_errors():
            try:
                record = self._cache.get(key, default=_ABSENT, retry=True)
                if record is _ABSENT:
                    return None
                # The content has to hash to its own key: a record under a wrong key is as bad as a damaged one.
                if "answer" in record and key == sha256_json(
                    {name: value for name, value in record.items() if name != "answer"}
                ):
                    return record
            except _DAMAGE:
                pass
            self._cache.delete(key, retry=True)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"an answer in {self.folder} was damaged; it is dropped and asked for again "
                "(any others too, without a further warning)",
                stacklevel=2,
            )
        return None

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{cannot_write(self.folder)} ({error})") from error
        except sqlite3.DatabaseError as error:
            raise OSError(
                f"the answers in {self.folder} cannot be read ({error}): move that folder away, "
                "and they are asked for again"
            ) from error
