"""A small repository of its own for tests of what writes files or starts processes, and workers for them."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from dprepro.base import paths

GATE = "assert True"


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
    from dprepro.base.cluster import (
        local_client,  # Dask takes half a second, which most tests need not wait for
    )

    with local_client(2) as client:
        yield client


@pytest.fixture(scope="session")
def new_house() -> Callable[[Path], House]:
    """Return the maker of such a repository, for fixtures that outlive one test."""
    return make_house
