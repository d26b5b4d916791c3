"""What the release writes for each student, and what it refuses."""

import json
import subprocess
import sys

import nbformat
import pytest

from dprepro.base import paths
from dprepro.kit import labs_masters, labs_release
from dprepro.kit.labs_leaks import leaks, split_master
from dprepro.kit.labs_students import (
    known_students,
    read_roster,
    read_secret,
    release_mark,
    remember,
    student_seed,
)

from .conftest import FIXTURES, code

MASTER = json.loads((FIXTURES / "lab0.ipynb").read_bytes())


def test_each_student_has_a_seed_and_a_name(course):
    books = {student: course.released(student) for student in ("ada", "bob", "eve")}
    cells = {
        student: {cell["id"]: "".join(cell["source"]) for cell in book["cells"]}
        for student, book in books.items()
    }
    key = read_secret()
    for student, book in books.items():
        nbformat.validate(nbformat.from_dict(book))
        mark = {"lab": "lab0", "student": student, "release": release_mark(key)}
        assert book["metadata"]["dprepro_lab"] == mark
        assert cells[student]["parameters"] == f"student_seed = {student_seed(student, key)}"
    assert len({cell["parameters"] for cell in cells.values()}) == 3
    assert cells["ada"]["q2-solution"] == "q2_reason = ..."
    assert not any("ignored" in name for name in cells["ada"])
    assert read_roster(course.build / "labs" / "roster.csv") == ["ada", "bob", "cyd", "dan", "eve"]


def test_library_of_students_imports_without_torch(course):
    wanted = [
        "mechanisms.dp_sgd",
        "mechanisms.accounting",
        "audits.canary",
        "audits.inversion",
        "audits.audit_card",
    ]
    code = f"""
import sys
sys.modules.update(dict.fromkeys(("torch", "opacus", "transformers"), None))
import importlib, pathlib, dprepro
assert pathlib.Path(dprepro.__file__).parent.parent == pathlib.Path.cwd()
for room in {wanted}:
    importlib.import_module(f"dprepro.{{room}}")
"""
    folder = course.build / "labs" / "release" / "ada"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_later_release_adds_students_and_keeps_seeds(course, tmp_path):
    before = course.released("ada")
    late = tmp_path / "late.csv"
    late.write_text("student\nada\nzoe\n")
    assert [folder.name for folder in labs_release.release(late)] == ["ada", "zoe"]
    assert course.released("ada") == before
    assert known_students() == ["ada", "bob", "cyd", "dan", "eve", "zoe"]


def test_without_a_roster_there_is_one_student(course):
    assert [folder.name for folder in labs_release.release()] == ["student"]


def test_a_name_in_other_capitals_is_refused_before_the_roster_is_spoilt(tmp_path, monkeypatch):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    remember(["ada", "bob"])
    with pytest.raises(ValueError, match="student 'Ada' must be written as in an earlier release, 'ada'"):
        remember(["cyd", "Ada"])
    remember(["bob", "cyd"])
    assert known_students() == ["ada", "bob", "cyd"]


def test_seeds_depend_on_secret_and_name():
    key = b"k" * 16
    seeds = {student_seed(name, key) for name in map(str, range(1000))}
    assert len(seeds) == 1000
    assert all(1 <= seed <= 2**31 for seed in seeds)
    # A name typed in two ways of Unicode is the same.
    assert student_seed("Jos\u00e9", key) == student_seed("Jose\u0301", key)
    assert student_seed("ada", key) != student_seed("ada", b"l" * 16)
    # Of `printf ada | openssl dgst -sha256 -hmac kkkkkkkkkkkkkkkk` the first four bytes.
    assert student_seed("ada", key) == 0x65443521 % 2**31 + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\nada\n", "no column 'student'; it has name"),
        ("", "no column 'student'"),
        ("student\n", "no students"),
        ("student\nada\nAda\n", "line 3: student 'Ada' is there twice"),
        ("student\n../x\n", "cannot name a folder"),
        ("student\na/b\n", "cannot name a folder"),
        ("student\n.ssh\n", "cannot name a folder"),
        ("student\n=1+1\n", "cannot name a folder"),
        ("student\nJ.\n", "cannot name a folder"),
        ("student,mail\n,a@b\n", "cannot name a folder"),
        (f"student\n{'a' * 65}\n", "cannot name a folder"),
    ],
)
def test_bad_rosters(tmp_path, text, message):
    path = tmp_path / "roster.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_roster(path)


def test_a_roster_from_a_spreadsheet(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_bytes("mail,student\r\na@b,Jose\u0301 D.Q\r\nc@d, Ada \r\n".encode("utf-8-sig"))
    assert read_roster(path) == ["Jos\u00e9 D.Q", "Ada"]


def test_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    with pytest.raises(ValueError, match="the secret that the release was made with"):
        read_secret()
    made = read_secret(create=True)
    assert len(made) == 64
    assert read_secret() == made
    assert (tmp_path / "labs" / "secret").stat().st_mode & 0o077 == 0
    (tmp_path / "short").write_text("1234")
    with pytest.raises(ValueError, match="at least 16 bytes, this has 4"):
        read_secret(tmp_path / "short")


def changed(**sources):
    """The master with other sources of some cells."""
    book = json.loads(json.dumps(MASTER))
    for cell in book["cells"]:
        cell["source"] = sources.get(cell["id"].replace("-", "_"), cell["source"])
    return book


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("must say `name: lab0`", lambda student, tests: student["metadata"]["otter"].pop("assignment_name")),
        ("no code cell tagged 'parameters'", lambda student, tests: student["cells"].pop(2)),
        ("q2: `points` must be a list of 2", lambda student, tests: tests["q2"].update(points=1)),
        ("q2: `points` must be a list of 2", lambda student, tests: tests["q2"].update(points=[0, 0])),
        (
            "students would see 'q2_reason = \"b\"'",
            lambda student, tests: student["cells"].append(code('q2_reason = "b"')),
        ),
    ],
)
def test_masters_that_break_a_rule(course, monkeypatch, message, change):
    lab = labs_masters.load_labs()["lab0"]
    change(lab.student, lab.checks)
    tests = {"metadata": {"otter": {"tests": lab.checks}}}
    monkeypatch.setattr(labs_masters, "_assign", lambda masters: [(lab.student, tests)])
    monkeypatch.setattr(labs_masters, "version", lambda package: "another")  # which the cache does not have
    with pytest.raises(ValueError, match=message):
        labs_masters.load_labs()


def test_a_master_that_otter_cannot_read(course):
    path = course.notebooks / "labs" / "lab0.ipynb"
    path.write_text(json.dumps(changed(q2_end="# END TESTS")))
    with pytest.raises(ValueError, match=r"otter cannot read it: .*no begin block"):
        labs_masters.load_labs()


def test_no_such_lab(course):
    with pytest.raises(ValueError, match="no lab 'lab9'; there are: lab0"):
        labs_masters.load_labs("lab9")


def test_a_master_goes_through_otter_once(course, monkeypatch):
    monkeypatch.setattr(labs_masters, "_assign", None)
    assert list(labs_masters.load_labs()) == ["lab0"]


class TestLeaks:
    def test_given_and_secret(self):
        given, secret = split_master(MASTER)
        assert "    return sensitivity_l1 / epsilon" in secret
        assert 'q2_reason = "b"' in secret
        assert "assert q1_sensitivity == 2" in secret
        assert "def laplace_scale(epsilon):" in given
        assert 'assert q1_sensitivity > 0, "q1_sensitivity is positive"' in given
        assert not any("This cell never reaches a student" in line for line in given + secret)

    def test_the_master_itself_leaks_everything(self):
        found = leaks(MASTER, MASTER)
        for line in ("return sensitivity_l1 / epsilon", 'q2_reason = "b"', "assert q1_sensitivity == 2"):
            assert line in found

    @pytest.mark.parametrize(
        "text",
        [
            "Hint: q2_reason = 'b'",
            'q2_reason = "b"  # SOLUTION',
            "x\n    return  sensitivity_l1/epsilon",
            ">>> assert q1_sensitivity == 2",
        ],
    )
    def test_wherever_it_hides(self, course, text):
        places = [
            lambda book: book["cells"].append(code(text)),
            lambda book: book["cells"].append(
                {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(True)}
            ),
            lambda book: book["metadata"].update(notes=[{"deep": text}]),
            lambda book: book["cells"][0]["metadata"].update(note=text),
            lambda book: book["cells"][2].update(outputs=[{"text": text}]),
        ]
        for put in places:
            book = course.released("ada")
            assert leaks(MASTER, book) == []
            put(book)
            assert leaks(MASTER, book) != []

    def test_constants_of_hidden_checks(self):
        master = changed(q2_value="# HIDDEN\nassert abs(q2_reason - 0.36788) < 1e-3")
        assert leaks(master, {"cells": [{"source": "# about 0.36788"}]}) == ["0.36788"]
        assert leaks(master, {"cells": [{"source": "# about 10.36788 or 0.367881"}]}) == []


def test_requirements_agree_with_the_lock():
    lock = dict(line.split("==") for line in _lines(paths.ROOT / "requirements.lock") if "==" in line)
    without, with_models = (
        dict(line.split("==") for line in _lines(paths.ROOT / "notebooks" / "labs" / name) if "==" in line)
        for name in ("requirements.txt", "requirements-models.txt")
    )
    for pins in (without, with_models):
        assert {name: lock.get(name) for name in pins} == pins
    assert "torch" not in without
    assert {"torch", "transformers", "opacus"} <= with_models.keys()
    assert (
        "-r requirements.txt" in (paths.ROOT / "notebooks" / "labs" / "requirements-models.txt").read_text()
    )


def _lines(path):
    return [
        line.partition(" ")[0] for line in path.read_text().splitlines() if line and not line.startswith("#")
    ]
