"""The masters of the labs in notebooks/labs, as otter-grader splits them: the student's notebook and the checks.

A master is written for otter's `assign`, which cuts out solutions and hidden checks. What it cut is checked by
`labs_leaks`, which reads the masters by itself.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.paths import build_dir
from dprepro.base.store import sha256_bytes, write_atomic
from dprepro.kit.labs_leaks import leaks


@dataclass(frozen=True)
class Lab:
    """One lab as otter splits it: the student's notebook, and every check with its points, by question."""

    name: str
    student: dict[str, Any]
    checks: dict[str, dict[str, Any]]


def labs_dir() -> Path:
    """Return the folder for all that concerns labs: releases, the secret, grades."""
    return build_dir() / "labs"


def load_labs(only: str | None = None) -> dict[str, Lab]:
    """Return the labs by name; a master that changed goes through otter again (ten seconds).

    Parameters
    ----------
    only : str, optional
        One lab, such as "lab1".

    Raises
    ------
    ValueError
        No such lab, or a master that breaks a rule; the message names it and the rule.
    """
    masters = {path.stem: path for path in sorted((paths.NOTEBOOKS / "labs").glob("*.ipynb"))}
    if only is not None and only not in masters:
        raise ValueError(f"no lab {only!r}; there are: {', '.join(masters) or 'none'}")
    return {name: _split(path) for name, path in masters.items() if only in (None, name)}


def _split(master: Path) -> Lab:
    key = sha256_bytes(master.read_bytes() + version("otter-grader").encode())
    cache = labs_dir() / "assigned" / f"{master.stem}.json"
    if cache.exists():
        kept = json.loads(cache.read_bytes())
        if kept["key"] == key:
            return Lab(master.stem, kept["student"], kept["checks"])
    student, autograder = _assign(master)
    if student["metadata"]["otter"].get("assignment_name") != master.stem:
        raise ValueError(f"{master}: its ASSIGNMENT CONFIG must say `name: {master.stem}`")
    if seed_cell(student) is None:
        raise ValueError(f"{master}: no code cell tagged 'parameters' that says `student_seed = 0`")
    for question, test in autograder["metadata"]["otter"]["tests"].items():
        points, cases = test["points"], test["suites"][0]["cases"]
        if not isinstance(points, list) or len(points) != len(cases) or sum(points) <= 0:
            raise ValueError(
                f"{master}, {question}: `points` must be a list of {len(cases)}, one for each check"
            )
    if found := leaks(json.loads(master.read_bytes()), student):
        raise ValueError(f"{master}: students would see {found[0]!r}, part of a solution or a hidden check")
    lab = Lab(master.stem, student, autograder["metadata"]["otter"]["tests"])
    write_atomic(cache, json.dumps({"key": key, "student": lab.student, "checks": lab.checks}))
    return lab


def _assign(master: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the student's and the grader's notebook that otter makes of a master."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "master" / master.name
        copy.parent.mkdir()
        shutil.copyfile(master, copy)
        command = [sys.executable, "-m", "otter", "assign", str(copy), f"{folder}/out"]
        # otter leaves hidden checks in the temporary folder, which is therefore ours.
        done = subprocess.run(
            [*command, "--no-run-tests", "--no-pdfs"],
            env={**os.environ, "TMPDIR": folder, "TEMP": folder, "TMP": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ValueError(f"{master}: otter cannot read it: {done.stderr.strip().splitlines()[-1:]}")
        student, autograder = (
            json.loads(Path(folder, "out", kind, master.name).read_bytes())
            for kind in ("student", "autograder")
        )
        return student, autograder


def seed_cell(notebook: dict[str, Any]) -> dict[str, Any] | None:
    """Return the cell of a notebook that gives the student's seed, None if there is none."""
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()) and "student_seed" in "".join(cell["source"]):
            return cell
    return None
