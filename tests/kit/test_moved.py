"""Two runs side by side."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprepro.kit import cli, moved
from dprepro.kit.claims import judge, load_reported, untouched
from dprepro.kit.rows import LEDGER, write_rows

PRINTED = load_reported("snapaudit", "table1")


def run(folder: Path, *judged: dict[str, Any]) -> Path:
    write_rows(folder / "ledger.csv", pd.DataFrame(judged), LEDGER)
    return folder


def row(position: int, value: float, error: float = 0.0, **options: Any) -> dict[str, Any]:
    return judge(PRINTED.iloc[position], value, error, **{"recipe": "inferred", **options})


def test_a_run_against_itself(tmp_path: Path, capsys: Any) -> None:
    a = run(tmp_path / "a", row(0, 0.55, 0.01), row(1, 0.97), row(1, math.inf, recipe="valid"))
    found = moved.moves(moved.read_run(a), moved.read_run(a / "ledger.csv"))
    assert (len(found.rows), found.compared, found.matters) == (0, 3, 0)
    assert cli.main(["diff", str(a), str(a)]) == 0
    assert capsys.readouterr().out == "3 rows in both runs; none differs.\n"


def test_what_moved_and_what_may_move_it(tmp_path: Path) -> None:
    a = run(tmp_path / "a", row(0, 0.55, 0.03), row(1, 0.97), row(2, 0.77, 0.03), row(3, 1.05), row(4, 1.4))
    b = run(
        tmp_path / "b",
        row(0, 0.64, 0.04),  # .09 against 2 hypot(.03, .04) = .10
        row(1, 0.97 + 1e-12),  # the last bits
        row(2, 0.88, 0.04),  # .11 against .10
        row(3, 9.0),  # PASS or MATCH before, FAIL now
        row(5, 1.9),
    )
    found = moved.moves(moved.read_run(a), moved.read_run(b))
    assert list(found.rows["what"]) == [
        "moved",
        "moved beyond chance",
        "new verdict",
        "only in A",
        "only in B",
    ]
    assert (found.compared, found.matters) == (4, 4)
    assert found.rows["by chance"][:2].tolist() == pytest.approx([0.1, 0.1])
    assert found.rows["difference"][:2].tolist() == pytest.approx([0.09, 0.11])
    assert found.rows["verdict"][2] == "MATCH -> FAIL"
    assert found.rows["tolerance"][0] == pytest.approx(row(0, 0.64, 0.04)["tolerance"])
    text = moved.moves_text(found)
    assert text.splitlines()[-1].startswith("4 rows in both runs; 1 moved, 1 moved beyond chance")
    assert "snapaudit/table1: AGNews | Black-PV (Passive) | epsilon 1" in text


def test_a_value_where_there_was_none(tmp_path: Path) -> None:
    before = untouched()  # nothing run: every number NOT-RUN under no recipe
    after = moved.read_run(run(tmp_path / "b", row(0, 0.58)))
    found = moved.moves(before, after)
    assert set(found.rows["what"]) == {"only in A", "only in B"}
    assert found.compared == 0


def test_the_command_ends_with_1_where_more_than_chance_is_at_work(tmp_path: Path, capsys: Any) -> None:
    a, b = run(tmp_path / "a", row(0, 0.55, 0.03)), run(tmp_path / "b", row(0, 0.56, 0.03))
    c = run(tmp_path / "c", row(0, 0.95, 0.03))
    assert cli.main(["diff", str(a), str(b)]) == 0
    assert "1 moved." in capsys.readouterr().out
    assert cli.main(["diff", str(a), str(c)]) == 1
    assert "PASS -> FAIL" in capsys.readouterr().out


def test_what_is_no_run(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(ValueError, match="run must be a build folder that holds ledger.csv"):
        moved.read_run(tmp_path)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="line 1: the columns must be"):
        moved.read_run(tmp_path / "other.csv")
    assert cli.main(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert "build folder" in capsys.readouterr().err
