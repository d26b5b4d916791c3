"""The small lab from release to grades: points, remarks, what is kept between calls."""

import csv
import json

import pytest

from dprepro.kit import labs_grade, labs_sandbox
from dprepro.kit.labs_checks import Mark


def test_from_release_to_grades(course, capsys):
    course.hand_in("ada", course.solved("ada"))
    course.hand_in("bob", course.released("bob"))
    course.hand_in("cyd", course.solved("cyd", q1_sensitivity="1", q1_scales="1 / epsilons", q2_reason="'a'"))
    # Copied: another student's notebook, as it was solved.
    course.hand_in("dan", course.solved("ada"))
    grades = course.grade()
    assert (grades["ada"].total, grades["ada"].maximum, grades["ada"].remark) == (4, 4, "")
    assert (grades["bob"].total, grades["bob"].remark) == (0, "")
    # The visible check of q1 has half a point, and what is right in dan's does not depend on the seed.
    assert grades["cyd"].total == 0.5
    assert [mark.score for mark in grades["dan"].marks] == [1, 1]
    assert "its metadata name another student, 'ada'" in grades["dan"].remark
    assert "its student_seed is not this student's" in grades["dan"].remark
    assert grades["eve"].remark == "nothing was handed in"

    rows = list(csv.DictReader(course.csv().splitlines()))
    assert [row["student"] for row in rows] == ["ada", "bob", "cyd", "dan", "eve"]
    assert {name: rows[0][name] for name in ("lab", "q1", "q2", "total", "maximum", "remark")} == {
        "lab": "lab0", "q1": "3", "q2": "1", "total": "4", "maximum": "4", "remark": "",
    }  # fmt: skip
    assert float(rows[0]["seconds"]) > 0
    assert "its form is right, its value is not" in course.feedback("cyd")
    assert "q2_reason has no answer" in course.feedback("bob") or "no answers" in course.feedback("bob")
    for student in ("ada", "bob", "cyd", "dan"):
        assert "LaplaceCount" not in course.feedback(student)

    # Nothing changed: nothing runs. A changed notebook runs alone.
    capsys.readouterr()
    ran = []
    run = labs_sandbox.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labs_sandbox, "run", lambda *a, **k: ran.append(a) or run(*a, **k))
        course.hand_in("bob", course.solved("bob"))
        again = course.grade()
    assert len(ran) == 1
    assert again["bob"].total == 4
    assert again["ada"] == grades["ada"].__class__(**{**vars(grades["ada"]), "kept": True})
    assert capsys.readouterr().out.count("unchanged") == 3


def test_a_failure_of_the_grader_costs_one_line(course, monkeypatch):
    course.hand_in("ada", course.released("ada"))

    def broken(*arguments, **options):
        raise OSError("no space left")

    monkeypatch.setattr(labs_sandbox, "way_to_isolate", lambda: "unshare")
    monkeypatch.setattr(labs_sandbox, "run", broken)
    grades = course.grade()
    assert "the grader failed on it: OSError('no space left')" in grades["ada"].remark
    assert len(course.csv().splitlines()) == 6


def test_interruption_keeps_what_is_graded(course, monkeypatch):
    for student in ("ada", "bob"):
        course.hand_in(student, course.released(student))
    calls = []

    def second_is_interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        printed = json.dumps({"answers": json.dumps({"answers": {}, "refused": {}})})
        return labs_sandbox.Ended(printed.encode(), "", 0, 1.0, "")

    monkeypatch.setattr(labs_sandbox, "way_to_isolate", lambda: "unshare")
    monkeypatch.setattr(labs_sandbox, "run", second_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        course.grade()
    assert [line.split(",")[0] for line in course.csv().splitlines()] == ["student", "ada"]
    course.grade()
    assert len(calls) == 3  # ada's was kept


def test_without_isolation_it_refuses_unless_trusted(course, monkeypatch, capsys):
    course.hand_in("ada", course.released("ada"))
    monkeypatch.setattr(labs_sandbox, "way_to_isolate", lambda: "none")
    with pytest.raises(ValueError, match="cannot isolate the submissions here.*--trusted"):
        course.grade()
    monkeypatch.setattr(labs_sandbox, "run", lambda *a, **k: labs_sandbox.Ended(b"", "", 0, 1.0, ""))
    course.grade(trusted=True)
    assert "NOT ISOLATED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [({"jobs": 0}, "jobs must be at least 1"), ({"secret": "missing"}, "missing is missing")],
)
def test_bad_arguments(course, options, message):
    if "secret" in options:
        options = {"secret": course.build / options["secret"]}
    with pytest.raises(ValueError, match=message):
        course.grade(**options)


@pytest.mark.parametrize(
    "printed",
    [
        b"",
        b"not json\n",
        b"[1]\n3\nnull\n",
        b'{"answers": 3}\n{"answers": "[]"}\n{"answers": "{\\"answers\\": 3, \\"refused\\": 4}"}\n',
        b'{"problems": 3, "errors": 5}\n{"problems": [], "errors": 1}\n{"problems": ["x"], "errors": "y"}\n',
        b'{"answers": "' + b"[" * 100_000 + b'"}\n',
        b"[" * 100_000,
        b"\xff\xfe\n",
    ],
)
def test_what_the_sandbox_prints_is_not_trusted(printed):
    assert labs_grade.read_printed(printed) == ({}, {}, [])


def test_a_spreadsheet_meets_no_formula(course, monkeypatch):
    from dprepro.kit import labs_report

    mark = Mark("q1", 1.0, 2.0)
    labs_report.write([labs_report.Grade("ada", "lab0", (mark,), '=HYPERLINK("x")')], {})
    assert "'=HYPERLINK" in course.csv()
