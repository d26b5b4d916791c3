"""Which notebooks were handed in, by whom, for which lab.

A submission folder holds a folder for each student, named as on the roster. Notebooks that lie in it directly are
also taken; their student is the one that their metadata name. Whatever is wrong with a file becomes a remark or a
problem of that file; nothing here stops the others. Files are read as JSON, never executed, and links are not
followed.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dprepro.kit.labs_release import METADATA

LARGEST = 64 << 20  # bytes of one notebook; its outputs are not needed, but come with it


@dataclass(frozen=True)
class Submission:
    """One notebook, or a `problem` because of which there is nothing to run.

    `cells` are the sources of its code cells; `remarks` what the instructor should know.
    """

    student: str
    lab: str = ""
    path: Path | None = None
    cells: tuple[str, ...] = ()
    seed: int | None = None
    release: str = ""
    remarks: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class _Found:
    path: Path
    lab: str = ""
    student: str = ""
    release: str = ""
    cells: tuple[str, ...] = ()
    remarks: list[str] = field(default_factory=list)
    problem: str = ""


def find(folder: Path, labs: Collection[str], roster: Sequence[str]) -> list[Submission]:
    """Return all submissions in a folder, by student.

    Parameters
    ----------
    folder : path
    labs : collection of str
        Names of the labs.
    roster : sequence of str
        Names of the students; each without a submission has a row that says so.

    Raises
    ------
    ValueError
        `folder` is no folder, or has nothing in it.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
    if not entries:
        raise ValueError(f"{folder} is empty")
    by_student: dict[str, list[_Found]] = {}
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            name = unicodedata.normalize("NFC", entry.name)
            by_student.setdefault(name, []).extend(_read(path, labs) for path in _notebooks(entry))
        elif entry.suffix == ".ipynb":
            found = _read(entry, labs)
            found.remarks.append("it lay outside a student's folder; its metadata name the student")
            by_student.setdefault(found.student or entry.stem, []).append(found)
    submissions = [
        submission
        for student, notebooks in sorted(by_student.items())
        for submission in _of_student(student, notebooks, roster)
    ]
    absent = [student for student in roster if student not in by_student]
    return submissions + [Submission(student, problem="nothing was handed in") for student in absent]


def _notebooks(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.ipynb")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _of_student(student: str, notebooks: Sequence[_Found], roster: Sequence[str]) -> Iterator[Submission]:
    if student not in roster:
        yield Submission(student, problem="this student is not on the roster")
        return
    if not notebooks:
        yield Submission(student, problem="there is no notebook in the folder")
    by_lab: dict[str, list[_Found]] = {}
    for found in notebooks:
        if found.problem:
            yield Submission(student, found.lab, found.path, problem=f"{found.path.name}: {found.problem}")
        else:
            by_lab.setdefault(found.lab, []).append(found)
    for lab, several in sorted(by_lab.items()):
        # The file that kept its name counts; failing that, the one that was changed last.
        chosen = max(several, key=lambda f: (f.path.stem == lab, f.path.stat().st_mtime, f.path.name))
        remarks = chosen.remarks
        if others := [found.path.name for found in several if found is not chosen]:
            remarks = [*remarks, f"{chosen.path.name} was graded, not {', '.join(others)}"]
        if chosen.student not in ("", student):
            remarks = [*remarks, f"its metadata name another student, {chosen.student!r}"]
        seed = _seed(chosen.cells)
        yield Submission(student, lab, chosen.path, chosen.cells, seed, chosen.release, tuple(remarks))


def _seed(cells: Sequence[str]) -> int | None:
    for cell in cells:
        if match := re.match(r"\s*student_seed *= *(\d{1,12})\s*$", cell):
            return int(match[1])
    return None


def _read(path: Path, labs: Collection[str]) -> _Found:
    found = _Found(path)
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("it is a link or no ordinary file, and was not opened")
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has over {LARGEST >> 20} MiB; clear its outputs")
        book = json.loads(path.read_bytes())
        if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
            raise ValueError("it is not a Jupyter notebook of format 4")
        found.cells = tuple(_sources(book["cells"]))
        _match(found, book.get("metadata"), labs)
    except RecursionError:
        found.problem = "it is not a notebook (nested without end)"
    except (json.JSONDecodeError, UnicodeDecodeError):
        found.problem = "it is not a notebook (not JSON)"
    except OSError as error:
        found.problem = f"it cannot be read ({error.strerror})"
    except ValueError as error:
        found.problem = str(error)
    return found


def _sources(cells: Sequence[Any]) -> Iterator[str]:
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source")
            lines = source if isinstance(source, list) else [source]
            yield "".join(line for line in lines if isinstance(line, str))


def _match(found: _Found, metadata: Any, labs: Collection[str]) -> None:
    """Set lab and student: by the release's metadata, else by otter's, else by the file's name."""
    mark, otter = _part(metadata, METADATA), _part(metadata, "otter")
    student = mark.get("student")
    found.student = student[:64] if isinstance(student, str) and student.isprintable() else ""
    found.release = str(mark.get("release", ""))[:8]
    stem = found.path.stem
    named = next((name for name in (mark.get("lab"), otter.get("assignment_name")) if name in [*labs]), None)
    if named is not None:
        found.lab = str(named)
        if stem != named:
            found.remarks.append(f"{found.path.name} is {named} by its metadata")
    else:
        # The longest, so that lab10 is not taken for lab1.
        inside = [
            lab for lab in labs if re.search(rf"(?<![a-z0-9]){re.escape(lab)}(?![a-z0-9])", stem.lower())
        ]
        if not inside:
            raise ValueError("neither its metadata nor its name tell which lab it is")
        found.lab = max(inside, key=len)
        found.remarks.append(f"its metadata are gone; it is {found.lab} by its name")


def _part(metadata: Any, name: str) -> dict[str, Any]:
    part = metadata.get(name) if isinstance(metadata, dict) else None
    return part if isinstance(part, dict) else {}
