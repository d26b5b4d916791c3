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
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.paths import build_dir
from dprepro.base.store import sha256_bytes, write_atomic
from dprepro.kit.labs_leaks import leaks

# What `python -m otter assign MASTER RESULT --no-run-tests --no-pdfs` does, for several masters: otter takes a second
# to be imported.
ASSIGN = """
import pathlib, sys
from otter.assign import main
for master in map(pathlib.Path, sys.argv[1:]):
    main(str(master), str(master.parent / "out"), no_run_tests=True, no_pdfs=True)
    (master.parent / "done").touch()
"""


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
    """Return the labs by name; masters that changed go through otter again (seconds).

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
    wanted = {name: path for name, path in masters.items() if only in (None, name)}
    otter = version("otter-grader").encode()
    keys = {name: sha256_bytes(path.read_bytes() + otter) for name, path in wanted.items()}
    cache = labs_dir() / "assigned"
    labs = {name: _read_kept(cache / f"{name}.json", key) for name, key in keys.items()}
    if new := [name for name, lab in labs.items() if lab is None]:
        for name, made in zip(new, _assign([wanted[name] for name in new]), strict=True):
            lab = labs[name] = _checked(wanted[name], *made)
            kept = {"key": keys[name], "student": lab.student, "checks": lab.checks}
            write_atomic(cache / f"{name}.json", json.dumps(kept))
    return {name: lab for name, lab in labs.items() if lab is not None}


def _read_kept(path: Path, key: str) -> Lab | None:
    if path.exists():
        kept = json.loads(path.read_bytes())
        if kept["key"] == key:
            return Lab(path.stem, kept["student"], kept["checks"])
    return None


def _checked(master: Path, student: dict[str, Any], autograder: dict[str, Any]) -> Lab:
    """Return the lab that otter made of a master; ValueError if the master breaks a rule."""
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
    return Lab(master.stem, student, autograder["metadata"]["otter"]["tests"])


def _assign(masters: Sequence[Path]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the student's and the grader's notebook that otter makes of each master, all in one process."""
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / master.stem / master.name for master in masters]
        for master, copy in zip(masters, copies, strict=True):
            copy.parent.mkdir()
            shutil.copyfile(master, copy)
        # otter leaves hidden checks in the temporary folder, which is therefore ours.
        done = subprocess.run(
            [sys.executable, "-c", ASSIGN, *map(str, copies)],
            env={**os.environ, "TMPDIR": folder, "TEMP": folder, "TMP": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            first = next(
                m for m, copy in zip(masters, copies, strict=True) if not (copy.parent / "done").exists()
            )
            raise ValueError(f"{first}: otter cannot read it: {done.stderr.strip().splitlines()[-1:]}")
        return [
            (
                json.loads((copy.parent / "out" / "student" / copy.name).read_bytes()),
                json.loads((copy.parent / "out" / "autograder" / copy.name).read_bytes()),
            )
            for copy in copies
        ]


def seed_cell(notebook: dict[str, Any]) -> dict[str, Any] | None:
    """Return the cell of a notebook that gives the student's seed, None if there is none."""
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()) and "student_seed" in "".join(cell["source"]):
            return cell
    return None
