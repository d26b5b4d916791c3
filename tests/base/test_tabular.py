"""Aligned columns by hand, and CSV errors that name the line."""

import pytest

from dprepro.base.tabular import fixed_width, read_records


def test_fixed_width_by_hand() -> None:
    text = fixed_width(["a", "two\nlines"], [["xyz", "1"], ["y", "22"]], left=("a",))
    assert text == "       two\na    lines\n---  -----\nxyz      1\ny       22"
    assert fixed_width(["a", "b"], []) == "a  b\n-  -"


def test_records_know_their_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"two\nlines"\n3,4\n')
    assert read_records(path, ["a", "b"]) == [(3, ["1", "two\nlines"]), (4, ["3", "4"])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns must be a,b"),
        ("a,c\n", "line 1: the columns must be a,b"),
        ("a,b\n1,2\n3\n", "line 3: needs 2 fields, got 1"),
        ('a,b\n1,"x" y\n', "line 2: "),
    ],
)
def test_a_malformed_file_is_refused_by_line(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(path, ["a", "b"])
