"""Which notebook is whose, and what is said of files that are none. Nothing is executed."""

import json
import os

import pytest

from dprepro.kit.labs_submissions import find

LABS = ("lab1", "lab10", "lab2")
ROSTER = ("ada", "bob")


def book(lab="lab1", student="ada", cells=("q1_x = 1",), **metadata):
    mark = {"dprepro_lab": {"lab": lab, "student": student, "release": "12345678"}} if lab else {}
    found = [{"cell_type": "code", "source": source} for source in cells]
    return {"cells": [{"cell_type": "markdown", "source": "text"}, *found], "metadata": {**mark, **metadata}}


@pytest.fixture
def handed_in(tmp_path):
    """Write files by path, find the submissions of ada and bob."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(json.dumps(content))
        return find(tmp_path, LABS, ROSTER)

    return write


def of(submissions, student):
    return [one for one in submissions if one.student == student]


def test_a_notebook_as_released(handed_in):
    (one,) = of(
        handed_in({"ada/lab1.ipynb": book(cells=["student_seed = 77", ["q1_x = 1\n", "q1_y = 2"]])}), "ada"
    )
    assert (one.lab, one.seed, one.release, one.remarks, one.problem) == ("lab1", 77, "12345678", (), "")
    assert one.cells == ("student_seed = 77", "q1_x = 1\nq1_y = 2")


def test_who_handed_in_nothing(handed_in, tmp_path):
    (tmp_path / "ada").mkdir()
    submissions = handed_in({})
    assert [one.problem for one in of(submissions, "ada")] == ["there is no notebook in the folder"]
    assert [one.problem for one in of(submissions, "bob")] == ["nothing was handed in"]


@pytest.mark.parametrize(
    ("name", "lab", "remark"),
    [
        ("final version.ipynb", "lab1", "final version.ipynb is lab1 by its metadata"),
        ("lab2.ipynb", "lab1", "lab2.ipynb is lab1 by its metadata"),
    ],
)
def test_renamed(handed_in, name, lab, remark):
    (one,) = of(handed_in({f"ada/{name}": book()}), "ada")
    assert (one.lab, one.remarks) == (lab, (remark,))


@pytest.mark.parametrize(
    ("name", "lab"), [("lab1", "lab1"), ("lab10", "lab10"), ("Lab2 (1)", "lab2"), ("ada_lab2", "lab2")]
)
def test_metadata_deleted(handed_in, name, lab):
    for metadata in ({}, {"dprepro_lab": "gone"}, {"dprepro_lab": {"lab": ["lab1"]}, "otter": 3}):
        (one,) = of(handed_in({f"ada/{name}.ipynb": book(lab=None, **metadata)}), "ada")
        assert (one.lab, one.remarks) == (lab, (f"its metadata are gone; it is {lab} by its name",))


def test_otters_metadata_tell_the_lab_too(handed_in):
    (one,) = of(handed_in({"ada/mine.ipynb": book(lab=None, otter={"assignment_name": "lab2"})}), "ada")
    assert one.lab == "lab2"


def test_another_students_notebook(handed_in):
    (one,) = of(handed_in({"ada/lab1.ipynb": book(student="bob")}), "ada")
    assert one.remarks == ("its metadata name another student, 'bob'",)


def test_two_of_one_lab(handed_in, tmp_path):
    files = {"ada/old.ipynb": book(), "ada/new.ipynb": book(), "ada/lab2.ipynb": book("lab2")}
    handed_in(files)
    os.utime(tmp_path / "ada/old.ipynb", (1, 1))
    one, two = of(handed_in({}), "ada")
    assert (one.lab, two.lab) == ("lab1", "lab2")
    assert one.remarks == ("new.ipynb is lab1 by its metadata", "new.ipynb was graded, not old.ipynb")
    # The file that kept its name counts, however old.
    handed_in({"ada/lab1.ipynb": book()})
    os.utime(tmp_path / "ada/lab1.ipynb", (1, 1))
    one, _ = of(handed_in({}), "ada")
    assert one.path.name == "lab1.ipynb"
    assert one.remarks == ("lab1.ipynb was graded, not new.ipynb, old.ipynb",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON"),
        (b"%PDF-1.7", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "nested without end"),
        (b"[]", "not a Jupyter notebook of format 4"),
        (b'{"worksheets": []}', "not a Jupyter notebook of format 4"),
        (b'{"cells": {}}', "not a Jupyter notebook of format 4"),
        (b'{"cells": []}', "neither its metadata nor its name tell which lab it is"),
    ],
)
def test_no_notebook(handed_in, content, problem):
    ada, bob = handed_in({"ada/work.ipynb": content, "bob/lab1.ipynb": book(student="bob")})
    assert problem in ada.problem
    assert ada.problem.startswith("work.ipynb: ")
    assert bob.problem == ""


def test_odd_cells_are_left_out(handed_in):
    odd = [
        None,
        3,
        {},
        {"cell_type": "code"},
        {"cell_type": "code", "source": 3},
        {"cell_type": "code", "source": ["a", 3]},
    ]
    (one,) = of(handed_in({"ada/lab1.ipynb": {**book(), "cells": odd}}), "ada")
    assert one.cells == ("", "", "a")


def test_links_are_not_followed(handed_in, tmp_path):
    handed_in({"bob/lab1.ipynb": book(student="bob")})
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "lab1.ipynb").symlink_to(tmp_path / "bob" / "lab1.ipynb")
    (tmp_path / "cyd").symlink_to(tmp_path / "bob")
    submissions = handed_in({})
    assert "it is a link" in of(submissions, "ada")[0].problem
    assert of(submissions, "cyd") == []


def test_a_file_too_large(handed_in, monkeypatch):
    monkeypatch.setattr("dprepro.kit.labs_submissions.LARGEST", 10)
    assert "clear its outputs" in of(handed_in({"ada/lab1.ipynb": book()}), "ada")[0].problem


def test_a_student_who_is_not_on_the_roster(handed_in):
    (one,) = of(handed_in({"eve/lab1.ipynb": book()}), "eve")
    assert one.problem == "this student is not on the roster"


def test_notebooks_outside_a_folder_go_by_their_metadata(handed_in):
    submissions = handed_in(
        {"x.ipynb": book(student="bob"), "y.ipynb": book(student="../../etc"), ".z.ipynb": book()}
    )
    (bob,) = of(submissions, "bob")
    assert bob.remarks == (
        "x.ipynb is lab1 by its metadata",
        "it lay outside a student's folder; its metadata name the student",
    )
    assert of(submissions, "../../etc")[0].problem == "this student is not on the roster"


def test_checkpoints_are_not_submissions(handed_in):
    (one,) = of(handed_in({"ada/lab1.ipynb": book(), "ada/.ipynb_checkpoints/lab1.ipynb": book()}), "ada")
    assert one.remarks == ()


def test_bad_folder(tmp_path):
    with pytest.raises(ValueError, match="is empty"):
        find(tmp_path, LABS, ROSTER)
    with pytest.raises(ValueError, match="is not a folder"):
        find(tmp_path / "missing", LABS, ROSTER)
