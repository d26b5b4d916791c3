"""The end of `remote` that is in a Dask worker: a checkout of its own for the tasks, and processes to run them.

The checkout is a copy of this worker's dprepro, which was found to be the client's, and of the client's data,
below the folder that Dask gives the worker and deletes with it. Tasks run in child processes, one for each of
the worker's threads at most, kept from task to task: with one BLAS thread each as in a local batch, their paths
all in the checkout, and ended as soon as nobody waits for the answer any more.
"""

import os
import pickle
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from distributed import get_worker
from distributed.core import Status

from dprepro.base import paths
from dprepro.base.cluster import ONE_THREAD
from dprepro.base.environment import LOCKS
from dprepro.base.store import sha256_file

_making = threading.Lock()
_idle: list["_Child"] = []
_LAST_WORDS = 500


def carry_out(place: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run one task of `remote` and return {"value": ...}, {"error": text} or {"missing": names of files}.

    Parameters
    ----------
    place : str
        The checkout for requests of this kind; made here if it is the first.
    request : mapping
        data (hash by name), shipped (content by name), function (dotted name), arguments.
    """
    worker = get_worker()
    key = worker.get_current_task()
    with _making:
        missing = _make(Path(place), request["data"], request["shipped"])
    if missing:
        return {"missing": missing}
    child = _child(Path(place))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(child.ask, request["function"], dict(request["arguments"]))
        while not asked.done():
            with suppress(TimeoutError):
                asked.result(timeout=1)
            state = worker.state.tasks.get(key)
            if worker.status != Status.running or state is None or state.state != "executing":
                child.end()
    reply = asked.result()
    if child.process.poll() is None:
        _idle.append(child)
    return reply


def _make(place: Path, data: Mapping[str, str], shipped: Mapping[str, bytes]) -> list[str]:
    """Make the checkout if there is none yet; return the names of the files that it would need and nobody has."""
    if place.is_dir():
        return []
    known = [paths.DATA, *(earlier / "data" for earlier in place.parent.glob("dprepro-*"))]
    found = {
        name: next((folder / name for folder in known if _is(folder / name, digest)), None)
        for name, digest in data.items()
        if name not in shipped
    }
    missing = [name for name, file in found.items() if file is None]
    if missing:
        return missing
    partial = place.with_name(f"making-{secrets.token_hex(4)}")
    try:
        shutil.copytree(paths.ROOT / "lib" / "dprepro", partial / "lib" / "dprepro")
        for name in LOCKS:
            shutil.copy2(paths.ROOT / name, partial / name)
        for name in data:
            target = partial / "data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            file = found.get(name)
            target.write_bytes(shipped[name] if file is None else file.read_bytes())
        os.replace(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return []


def _is(file: Path, digest: str) -> bool:
    return file.is_file() and sha256_file(file) == digest


def _child(place: Path) -> "_Child":
    """Return a process that works in `place`: one that waits, or a new one. Those of other places are ended."""
    while True:
        try:
            child = _idle.pop()
        except IndexError:
            return _Child(place)
        if child.place == place and child.process.poll() is None:
            return child
        child.end()


class _Child:
    """A process of `remote_child` that imports dprepro from a checkout and builds in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.build = Path(tempfile.mkdtemp(prefix="build-", dir=place.parent))
        # Dask fixes the hash seed of its workers; what depends on the order of a set must not look stable.
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONHASHSEED", "DPREPRO_OUT")}
        library = [str(place / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {"PYTHONPATH": os.pathsep.join(library), "DPREPRO_BUILD": str(self.build)}
        with (self.build / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dprepro.base.remote_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.build,
                env={**inherited, **ONE_THREAD, **own},
            )

    def ask(self, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call the function there; a process that ends instead is an error like another."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            pickle.dump((function, arguments), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            words = ""
            with suppress(OSError):
                words = (self.build / "stderr").read_text(errors="replace")[-_LAST_WORDS:]
            self.end()
            said = f" (its last output: {' '.join(words.split())})" if words else ""
            return {"error": f"its process ended with status {self.process.returncode}{said}"}

    def end(self) -> None:
        """End the process and all that it started, and delete what it built."""
        with suppress(psutil.Error):
            family = [self.process, *psutil.Process(self.process.pid).children(recursive=True)]
            for member in family:
                with suppress(psutil.Error):
                    member.kill()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.build, ignore_errors=True)
