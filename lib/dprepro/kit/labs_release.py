"""What a student gets of the labs: a folder with the notebooks, a seed and the part of dprepro that they need."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from dprepro.base import paths
from dprepro.base.store import write_atomic
from dprepro.kit.labs_masters import Lab, labs_dir, load_labs, seed_cell
from dprepro.kit.labs_students import read_roster, read_secret, release_mark, remember, student_seed

# Of dprepro, what a lab may import; the rest needs the repository around it.
ROOMS = ("base", "stats", "text", "mechanisms", "audits")
METADATA = "dprepro_lab"


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
        As `load_labs`, `read_roster`, `read_secret` and `remember` say.
    """
    students = read_roster(roster) if roster else ["student"]
    labs = load_labs(only)
    if not labs:
        raise ValueError(f"no labs in {paths.NOTEBOOKS / 'labs'}")
    key = read_secret(secret, create=True)
    remember(students)
    return [_release_to(student, [*labs.values()], key) for student in students]


def _requirements(labs: Sequence[Lab]) -> list[str]:
    """Return requirements.txt, and what else of this kind the labs tell a student to install."""
    text = "".join("".join(cell["source"]) for lab in labs for cell in lab.student["cells"])
    return sorted({"requirements.txt", *re.findall(r"\brequirements-\w+\.txt", text)})


def _release_to(student: str, labs: Sequence[Lab], key: bytes) -> Path:
    folder = labs_dir() / "release" / student
    for lab in labs:
        book = json.loads(json.dumps(lab.student))
        cell = seed_cell(book)
        assert cell is not None  # load_labs has looked
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
