"""A small repository of its own for tests of what writes files or starts processes, and workers for them."""

import gc
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from dprepro.base import paths

# What the modules of all tests and torch leave in memory stays; looking through it time and again takes a fifth of
# collection.
gc.set_threshold(1_000_000, 20, 20)
GATE = "assert True"
REPOSITORY = paths.ROOT


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_sessionfinish() -> None:
    """Look for garbage once; pytest does so five times more and Python at its end, four seconds a process."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a module together, as loadscope does, but for the long ones whose cases have nothing in common."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            lab = re.search(r"test_labs\.py::.*\[(lab\d)", nodeid)
            if lab:
                return f"test_labs.py, {lab[1]}"
            return nodeid if "test_saved_results.py" in nodeid else super()._split_scope(nodeid)

    return Scheduling(config, log)


@dataclass
class House:
    """A repository in a temporary folder."""

    root: Path

    def notebook(
        self,
        name: str,
        *cells: str,
        parameters: str | None = "seed = 1",
        gate: str | None = GATE,
        **metadata: Any,
    ) -> Path:
        """Write notebooks/<name>.ipynb: a parameters cell, the given code cells, a gate."""
        book = nbformat.v4.new_notebook(metadata=metadata)
        if parameters is not None:
            book.cells.append(nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
        book.cells += [nbformat.v4.new_code_cell(source) for source in cells]
        if gate is not None:
            book.cells.append(nbformat.v4.new_code_cell(gate, metadata={"tags": ["gate"]}))
        path = self.root / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(book, path)
        return path

    def profiles(self, text: str) -> None:
        (self.root / "notebooks" / "profiles.toml").write_text(text)

    def built(self, name: str, ending: str, profile: str = "laptop") -> Path:
        return self.root / "build" / profile / f"{name}{ending}"

    def manifest(self, name: str, ending: str = ".manifest.json", profile: str = "laptop") -> dict[str, Any]:
        return json.loads(self.built(name, ending, profile).read_text())

    def executed(self, name: str, ending: str = ".ipynb", profile: str = "laptop") -> nbformat.NotebookNode:
        return nbformat.read(self.built(name, ending, profile), as_version=4)

    def leftovers(self) -> list[str]:
        """Return temporary files and folders in build/."""
        return [str(p) for p in (self.root / "build").rglob("*") if "tmp" in p.name]


def make_house(root: Path) -> House:
    for folder in ("lib/dprepro", "data/reported", "notebooks/toy"):
        (root / folder).mkdir(parents=True)
    (root / "lib/dprepro/code.py").write_text("x = 1\n")
    (root / "data/reported/toy.csv").write_text("value\n1\n")
    for lock in ("requirements.lock", "models.lock"):
        (root / lock).write_text("numpy==1\n")
    return House(root)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Point the library at an empty repository in `tmp_path`."""
    made = make_house(tmp_path / "house")
    for name, folder in {"ROOT": "", "DATA": "data", "NOTEBOOKS": "notebooks"}.items():
        monkeypatch.setattr(paths, name, made.root / folder)
    monkeypatch.setenv("DPREPRO_BUILD", str(made.root / "build"))
    monkeypatch.delenv("DPREPRO_OUT", raising=False)
    return made


@pytest.fixture(scope="session")
def workers() -> Iterator[Any]:
    """Two worker processes for all tests of the session."""
    import dask  # takes half a second, which most tests need not wait for

    from dprepro.base.cluster import local_client
    from dprepro.kit.batch import UNWATCHED

    with dask.config.set(UNWATCHED), local_client(2) as client:
        yield client


@pytest.fixture(scope="session")
def new_house() -> Callable[[Path], House]:
    """Return the maker of such a repository, for fixtures that outlive one test."""
    return make_house


END_WITH_PARENT = """
import os, runpy, sys, threading
threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class TcpCluster:
    """A Dask scheduler and workers as processes of their own, over TCP on this machine.

    Each worker has a folder of its own with a checkout of its own: the library, the locks, no data. `toys` is a
    folder on the path of their Python. All copy the library as it was at the beginning (`source`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.toys = folder / "toys"
        self.toys.mkdir(parents=True)
        self.source = folder / "source"
        shutil.copytree(REPOSITORY / "lib" / "dprepro", self.source / "lib" / "dprepro")
        for name in ("requirements.lock", "models.lock", "pyproject.toml"):
            shutil.copy2(REPOSITORY / name, self.source / name)
        (self.source / "data" / "reported").mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def start_scheduler(self) -> None:
        self.scheduler = self._start("scheduler", "scheduler", "--port", str(self.port), where=self.folder)
        limit = time.monotonic() + 120
        while time.monotonic() < limit and self.scheduler.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10):
                return
            time.sleep(0.05)
        raise RuntimeError(f"no scheduler: {self.log('scheduler')}")

    def stop_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()

    def start_worker(self, name: str, **changed: str) -> Path:
        """Start a worker in <folder>/<name>; `changed` has new contents of modules of its dprepro, by name."""
        root = self.folder / name
        if not root.exists():
            shutil.copytree(self.source, root)
        for module, content in changed.items():
            (root / "lib" / "dprepro" / f"{module}.py").write_text(content)
        options = ("--no-nanny", "--nthreads", "1", "--local-directory", str(root / "dask"))
        self.workers[name] = self._start(name, "worker", self.address, *options, where=root)
        return root

    def stop_worker(self, name: str) -> list[psutil.Process]:
        """Kill a worker alone, as a power cut does; return the processes that it had started."""
        process = self.workers.pop(name)
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        return family

    def close(self) -> None:
        for process in [*self.workers.values(), *([self.scheduler] if self.scheduler else [])]:
            with suppress(psutil.Error):
                for member in [*psutil.Process(process.pid).children(recursive=True), process]:
                    with suppress(psutil.Error):
                        member.kill()
            process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _start(self, name: str, program: str, *options: str, where: Path) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(map(str, [where / "lib", self.toys]))
        command = [sys.executable, "-c", END_WITH_PARENT, f"distributed.cli.dask_{program}", *options]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--no-dashboard"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=where,
                env={**os.environ, "PYTHONPATH": path},
            )


@pytest.fixture(scope="module")
def tcp_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpCluster]:
    """A cluster without any process yet; what a module's tests start is ended after them."""
    cluster = TcpCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcp_cluster: TcpCluster) -> House:
    """A house with the library itself, as a client of such a cluster needs it."""
    made = House(Path(shutil.copytree(tcp_cluster.source, tmp_path / "client")))
    (made.root / "data" / "reported" / "toy.csv").write_text("value\n1\n")
    for name, folder in {"ROOT": "", "DATA": "data", "NOTEBOOKS": "notebooks"}.items():
        monkeypatch.setattr(paths, name, made.root / folder)
    monkeypatch.setenv("DPREPRO_BUILD", str(made.root / "build"))
    monkeypatch.delenv("DPREPRO_OUT", raising=False)
    return made
