"""A course in a temporary folder: labs released to students, and submissions made from them."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from dprepro.base import paths
from dprepro.kit import labs_grade, labs_release
from dprepro.kit.labs_masters import load_labs
from dprepro.kit.labs_sandbox import Limits

REQUIREMENTS = sorted((paths.NOTEBOOKS / "labs").glob("requirements*.txt"))
FIXTURES = Path(__file__).parent / "fixtures"
MASTERS = [FIXTURES / "lab0.ipynb", *sorted((paths.NOTEBOOKS / "labs").glob("*.ipynb"))]
# Generous, since the cores may be shared; what runs without end gets a shorter limit in its test.
LIMITS = Limits(wall=120, cpu=60)


def answer_cells(master: Mapping[str, Any]) -> dict[str, str]:
    """Return the source of each solution cell of a master, without otter's marks, by cell id."""
    return {
        cell["id"]: "".join(cell["source"])
        for cell in master["cells"]
        if cell["cell_type"] == "code" and "SOLUTION" in "".join(cell["source"])
    }


@dataclass
class Course:
    """Labs released to `students`, whose submissions are written by `hand_in`."""

    build: Path
    submissions: Path
    notebooks: Path

    def released(self, student: str, lab: str = "lab0") -> dict[str, Any]:
        return json.loads((self.build / "labs" / "release" / student / f"{lab}.ipynb").read_bytes())

    def solved(self, student: str, lab: str = "lab0", **wrong: str) -> dict[str, Any]:
        """Return a student's notebook with the master's solutions, then `wrong` answers assigned at the end."""
        book = self.released(student, lab)
        solutions = answer_cells(json.loads((self.notebooks / "labs" / f"{lab}.ipynb").read_bytes()))
        for cell in book["cells"]:
            cell["source"] = solutions.get(cell["id"], cell["source"])
        for name, expression in wrong.items():
            book["cells"].append(code(f"{name} = {expression}"))
        return book

    def hand_in(self, student: str, book: Any, name: str = "lab0.ipynb") -> Path:
        path = self.submissions / student / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(book if isinstance(book, str) else json.dumps(book), encoding="utf-8")
        return path

    def grade(self, **options: Any) -> dict[str, Any]:
        """Grade what is handed in; return the grades that have a lab, or a line, by student."""
        options = {"limits": LIMITS, "cell_seconds": 20.0, **options}
        return {one.student: one for one in labs_grade.grade(self.submissions, **options)}

    def csv(self) -> str:
        return (self.build / "labs" / "grades.csv").read_text()

    def feedback(self, student: str) -> str:
        return (self.build / "labs" / "feedback" / f"{student}.txt").read_text()


def code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "more",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": source,
    }


@pytest.fixture(scope="session")
def assigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What otter makes of the labs, once for all tests, also for those in other processes (seconds)."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "labs"
    (folder / "notebooks" / "labs").mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"), pytest.MonkeyPatch.context() as patch:
        for master in MASTERS:
            shutil.copy(master, folder / "notebooks" / "labs")
        patch.setattr(paths, "NOTEBOOKS", folder / "notebooks")
        patch.setenv("DPREPRO_BUILD", str(folder / "build"))
        load_labs()
    return folder / "build" / "labs" / "assigned"


@pytest.fixture
def new_course(tmp_path: Path, assigned: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Course]:
    """Return the maker of a course from masters and students."""
    return partial(make_course, tmp_path, assigned, monkeypatch)


@pytest.fixture(scope="module")
def new_course_of_module(
    tmp_path_factory: pytest.TempPathFactory, assigned: Path
) -> Iterator[Callable[..., Course]]:
    """Return the maker of a course that lives as long as the tests of a file."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda *args: make_course(tmp_path_factory.mktemp("course"), assigned, patch, *args)


def make_course(
    folder: Path, assigned: Path, patch: pytest.MonkeyPatch, masters: list[Path], students: list[str]
) -> Course:
    course = Course(folder / "build", folder / "submissions", folder / "notebooks")
    (course.notebooks / "labs").mkdir(parents=True)
    for master in masters:
        shutil.copy(master, course.notebooks / "labs")
    for listed in REQUIREMENTS:
        shutil.copy(listed, course.notebooks / "labs")
    patch.setattr(paths, "NOTEBOOKS", course.notebooks)
    patch.setenv("DPREPRO_BUILD", str(course.build))
    (course.build / "labs").mkdir(parents=True)
    (course.build / "labs" / "assigned").symlink_to(assigned)
    (course.build / "labs" / "secret").write_text("the seeds of every run are the same")
    roster = folder / "roster.csv"
    roster.write_text("\n".join(["student", *students, ""]))
    labs_release.release(roster)
    course.submissions.mkdir()
    return course


@pytest.fixture
def course(new_course: Callable[..., Course]) -> Course:
    """The small lab, released to five students."""
    return new_course([FIXTURES / "lab0.ipynb"], ["ada", "bob", "cyd", "dan", "eve"])
