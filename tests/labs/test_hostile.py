"""Notebooks that break things, in one batch: each costs its own line, the rest is graded, nothing is reached."""

import csv
import shutil
import sys

import pytest

from dprepro.base.paths import ROOT
from dprepro.kit import labs_sandbox
from dprepro.kit.labs_sandbox import Limits

from .conftest import FIXTURES, code

RIGHT = 'q2_reason = "b"'  # earns the one point of q2
SCRIBBLE = """
import os
for number in range(3, 64):
    try:
        os.write(number, b'{"answers": "{\\\\"answers\\\\": 1}"}\\n')
    except OSError:
        pass
"""
NOTEBOOKS = {
    "scribble": [RIGHT, SCRIBBLE],
    "loop": [RIGHT, "while True: pass", "q1_sensitivity = 2"],
    "stubborn": [
        RIGHT,
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.1)",
    ],
    "memory": [RIGHT, "hoard = []\nwhile True: hoard.append(b'x' * 10**8)"],
    "forks": [RIGHT, "import os\nwhile True:\n  try:\n    os.fork()\n  except OSError: pass"],
    "gone": [RIGHT, "import os; os._exit(3)", "q2_reason = 'a'"],
    "clutter": [
        "print('x' * 10**8)",
        "import sys; sys.exit(1)",
        # Checkers rewritten in every way that reaches them.
        "import otter, types\notter.Notebook.check = lambda *a: 'passed'\ngrader = otter.Notebook('lab0.ipynb')",
        "grader.check('q1')",
        "import dprepro.stats.laplace as law\nlaw.laplace_mass = lambda *a: 1",
        "open('/tmp/tests.py', 'w').write('points = 100')",
        "q1_sensitivity = 2",
        "q1_sensitivity = 2",  # twice
        RIGHT,
        "student_seed = 1; q2_points = 100; exec = globals = None",
        "import json; json.loads = None",
    ],
}  # fmt: skip

ENDLESS = ("loop", "stubborn", "scribble")


def spying(*paths):
    """Cells that raise an error which names whatever they find."""
    return [
        f"""
import os, socket
found = [path for path in {[str(path) for path in paths]!r} if os.path.exists(path)]
for top, folders, files in os.walk("/"):
    if top.startswith(("/proc", "/usr", "/lib", {sys.prefix!r}, {sys.base_prefix!r})):
        folders.clear()
    found += [top + "/" + name for name in files if name.endswith(".ipynb") or name in ("secret", "roster.csv")]
try:
    socket.create_connection(("1.1.1.1", 80), timeout=3)
    found.append("network")
except OSError:
    pass
assert not found, found""",
        RIGHT,
    ]


@pytest.fixture(scope="module")
def graded(new_course_of_module):
    if labs_sandbox.way_to_isolate() == "none":
        pytest.skip("nothing isolates here")
    course = new_course_of_module([FIXTURES / "lab0.ipynb"], [*NOTEBOOKS, "spy", "honest"])
    secrets = (
        course.submissions,
        course.notebooks,
        course.build,
        ROOT / "notebooks",
        ROOT / "tests",
        ROOT / ".git",
    )
    notebooks = {**NOTEBOOKS, "spy": spying(*secrets), "honest": [RIGHT]}
    limits = Limits(wall=120, cpu=90, memory=600, processes=24)
    # Cells without end get a short time, and so does a kernel that is not answered any more; honest ones a long one.
    for student in ENDLESS:
        hand_in(course, student, notebooks.pop(student))
    endless = course.grade(limits=limits, cell_seconds=4.0, jobs=2)
    for student, cells in notebooks.items():
        hand_in(course, student, cells)
    for student in ENDLESS:
        shutil.rmtree(course.submissions / student)
    rest = course.grade(limits=limits, cell_seconds=60.0, jobs=2)
    return course, {**rest, **{student: endless[student] for student in ENDLESS}}


def hand_in(course, student, cells):
    book = course.released(student)
    book["cells"] = [code(cell) for cell in cells]
    book["metadata"]["kernelspec"] = {"name": "julia-1.9", "language": "julia", "display_name": "Julia"}
    if student == "gone":
        book["metadata"] = {}
    course.hand_in(student, book)


@pytest.mark.parametrize(
    ("student", "remark"),
    [
        ("loop", "cell 2: interrupted after 4 s"),
        ("stubborn", "cell 2 ran over 4 s and could not be interrupted"),
        ("memory", "killed: it used over 600 MiB of memory"),
        ("forks", "killed: it "),  # too many, or too much memory together
        ("scribble", "cell 2 "),
        ("gone", "its metadata are gone; it is lab0 by its name; cell 2 ended the notebook's process"),
        ("clutter", "cell 2: SystemExit: 1"),
        ("spy", ""),
        ("honest", ""),
    ],
)
def test_one_clear_line_and_the_answers_before_it(graded, student, remark):
    grade = graded[1][student]
    assert grade.remark.startswith(remark)
    assert remark or not grade.remark
    assert "\n" not in grade.remark
    q1, q2 = grade.marks
    assert q2.score == 1
    assert q1.score == (0.5 if student in ("loop", "clutter") else 0)


def test_the_batch_went_on(graded):
    rows = list(csv.DictReader(graded[0].csv().splitlines()))
    assert sorted(row["student"] for row in rows) == sorted([*NOTEBOOKS, "spy", "honest"])
