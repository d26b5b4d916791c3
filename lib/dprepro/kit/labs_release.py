"""Labs for students: from the masters in notebooks/labs to a folder for each student.

A master is written for otter-grader's `assign`, which cuts out solutions and hidden checks. Each student then gets
their own `student_seed`, an HMAC (RFC 2104) of the student's name under a secret of the instructor: nobody can work
out another's, and numbers copied from another student are wrong. What otter cut is checked by `labs_leaks`, which
reads the masters by itself.
"""

import csv
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.paths import build_dir
from dprepro.base.store import sha256_bytes, write_atomic
from dprepro.kit.labs_leaks import leaks

# Of dprepro, what a lab may import; the rest needs the repository around it.
ROOMS = ("base", "stats", "text", "mechanisms", "audits")
METADATA = "dprepro_lab"


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
    if _seed_cell(student) is None:
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


def _seed_cell(notebook: dict[str, Any]) -> dict[str, Any] | None:
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()) and "student_seed" in "".join(cell["source"]):
            return cell
    return None


def read_roster(path: Path) -> list[str]:
    """Return the names in the column `student` of a CSV, which become folder names.

    Raises
    ------
    ValueError
        No such column, no student, a name twice (or twice but for capitals), or one that cannot name a folder
        on every system; the message gives the line.
    """
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if "student" not in (reader.fieldnames or ()):
            raise ValueError(f"{path}: no column 'student'; it has {', '.join(reader.fieldnames or ())}")
        found: dict[str, str] = {}
        for row in reader:
            name = unicodedata.normalize("NFC", (row["student"] or "").strip())
            where = f"{path}, line {reader.line_num}: student {name!r}"
            if not name or len(name) > 64 or name[0] in ".=+-@" or name[-1] == "." or not name.isprintable():
                raise ValueError(f"{where} cannot name a folder (empty, too long, or odd at its ends)")
            if set(name) & set('<>:"/\\|?*'):
                raise ValueError(f'{where} cannot name a folder: it has one of < > : " / \\ | ? *')
            if name.casefold() in found:
                raise ValueError(f"{where} is there twice")
            found[name.casefold()] = name
    if not found:
        raise ValueError(f"{path}: no students in it")
    return [*found.values()]


def read_secret(path: Path | None = None, *, create: bool = False) -> bytes:
    """Return the instructor's secret, by default that in build/labs/secret.

    Raises
    ------
    ValueError
        There is none and `create` is off, or it has fewer than 16 bytes.
    """
    chosen = path or labs_dir() / "secret"
    if not chosen.exists():
        if not create:
            raise ValueError(f"{chosen} is missing: grading needs the secret that the release was made with")
        write_atomic(chosen, secrets.token_hex(32))
        chosen.chmod(0o600)
    secret = chosen.read_bytes().strip()
    if len(secret) < 16:
        raise ValueError(f"{chosen}: a secret needs at least 16 bytes, this has {len(secret)}")
    return secret


def student_seed(student: str, secret: bytes) -> int:
    """Return the seed of a student, from 1 to 2^31: the same for the same name and secret."""
    digest = hmac.digest(secret, unicodedata.normalize("NFC", student).encode(), "sha256")
    return int.from_bytes(digest[:4]) % 2**31 + 1


def release_mark(secret: bytes) -> str:
    """Return a short mark by which a notebook tells which secret it was released under."""
    return hashlib.sha256(b"release" + secret).hexdigest()[:8]


def known_students() -> list[str]:
    """Return the students of all releases so far."""
    path = labs_dir() / "roster.csv"
    return read_roster(path) if path.exists() else []


def release(roster: Path | None = None, only: str | None = None, secret: Path | None = None) -> list[Path]:
    """Write build/labs/release/<student>: the labs, their requirements and the part of dprepro that they import.

    Parameters
    ----------
    roster : path, optional
        CSV with a column `student`; by default there is one student, `student`.
    only : str, optional
        One lab instead of all.
    secret : path, optional
        A file of at least 16 bytes; by default build/labs/secret, made at the first release. **Keep it**: the
        grader needs it.

    Returns
    -------
    list of Path
        A folder for each student. Students of earlier releases stay on build/labs/roster.csv.

    Raises
    ------
    ValueError
        As `load_labs`, `read_roster` and `read_secret` say.
    """
    students = read_roster(roster) if roster else ["student"]
    labs = load_labs(only)
    if not labs:
        raise ValueError(f"no labs in {paths.NOTEBOOKS / 'labs'}")
    key = read_secret(secret, create=True)
    folders = [_release_to(student, [*labs.values()], key) for student in students]
    write_atomic(labs_dir() / "roster.csv", _roster_text([*known_students(), *students]))
    return folders


def _roster_text(students: Sequence[str]) -> str:
    quoted = (f'"{student}"' for student in dict.fromkeys(students))
    return "\n".join(["student", *quoted, ""])


def _requirements(labs: Sequence[Lab]) -> list[str]:
    """Return requirements.txt, and what else of this kind the labs tell a student to install."""
    text = "".join("".join(cell["source"]) for lab in labs for cell in lab.student["cells"])
    return sorted({"requirements.txt", *re.findall(r"\brequirements-\w+\.txt", text)})


def _release_to(student: str, labs: Sequence[Lab], key: bytes) -> Path:
    folder = labs_dir() / "release" / student
    for lab in labs:
        book = json.loads(json.dumps(lab.student))
        cell = _seed_cell(book)
        assert cell is not None  # _split has looked
        cell["source"] = f"student_seed = {student_seed(student, key)}"
        mark = {"lab": lab.name, "student": student, "release": release_mark(key)}
        kept = {name: book["metadata"][name] for name in ("kernelspec", "language_info", "otter")}
        book["metadata"] = {**kept, METADATA: mark}
        write_atomic(folder / f"{lab.name}.ipynb", json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    for name in _requirements(labs):
        shutil.copyfile(paths.NOTEBOOKS / "labs" / name, folder / name)
    # A folder beside the notebooks is found by `import dprepro` on every system, without building or installing.
    library = folder / "dprepro"
    shutil.rmtree(library, ignore_errors=True)
    for room in ROOMS:
        source = paths.ROOT / "lib" / "dprepro" / room
        shutil.copytree(source, library / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(paths.ROOT / "lib" / "dprepro" / "__init__.py", library / "__init__.py")
    return folder
