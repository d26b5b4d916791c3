"""The repository is found from the package, whatever the working directory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dprepro.base import paths

REPOSITORY = Path(__file__).resolve().parents[2]


def test_constants_name_the_repository() -> None:
    assert paths.ROOT == REPOSITORY
    assert paths.DATA == REPOSITORY / "data"
    assert paths.NOTEBOOKS == REPOSITORY / "notebooks"
    assert paths.FIGURES == REPOSITORY / "figures"


def test_found_from_another_working_directory(tmp_path: Path) -> None:
    code = "from dprepro.base import paths; print(paths.DATA)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(run.stdout.strip()) == REPOSITORY / "data"


@pytest.mark.parametrize("value", [None, ""])
def test_defaults(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    for name in ("DPREPRO_BUILD", "DPREPRO_OUT"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert paths.build_dir() == REPOSITORY / "build"
    assert paths.output_dir() == REPOSITORY / "build" / "interactive"


def test_environment_moves_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "b"))
    monkeypatch.delenv("DPREPRO_OUT", raising=False)
    assert paths.build_dir() == tmp_path / "b"
    assert paths.output_dir() == tmp_path / "b" / "interactive"
    monkeypatch.setenv("DPREPRO_OUT", str(tmp_path / "o"))
    assert paths.output_dir() == tmp_path / "o"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPREPRO_BUILD", "relative")
    assert paths.build_dir() == tmp_path / "relative"


def test_package_without_the_repository_says_what_to_do(tmp_path: Path) -> None:
    base = tmp_path / "site-packages" / "dprepro" / "base"
    base.mkdir(parents=True)
    (base.parent / "__init__.py").touch()
    (base / "__init__.py").touch()
    shutil.copy(REPOSITORY / "lib" / "dprepro" / "base" / "paths.py", base)
    run = subprocess.run(
        [sys.executable, "-c", "import dprepro.base.paths"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site-packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "no folder data/reported" in run.stderr
    assert "pip install -e ." in run.stderr
