"""From rows that notebooks left to the ledger."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprepro.base import paths
from dprepro.kit import claims, ledger, ledger_views
from dprepro.kit.claims import judge_claim, load_reported
from dprepro.kit.rows import CLAIM_LEDGER, LEDGER, number_key

from .conftest import TOTAL, passing


def test_nothing_run(accept: Any, tmp_path: Path) -> None:
    found = ledger.gather("laptop")
    assert len(found) == TOTAL
    assert (found["recipe"] == "").all()
    assert found["verdict"].value_counts().to_dict() == {"NOT-RUN": 503, "DASH": 12}
    assert (found["reason"] != "").all()
    pd.testing.assert_frame_equal(claims.load_ledger(), found)


def test_before_any_run_the_ledger_is_the_same(accept: Any) -> None:
    before = claims.load_ledger()
    pd.testing.assert_frame_equal(before, ledger.gather(), check_dtype=False)
    assert (claims.load_claim_ledger()["verdict"] == "NOT-RUN").all()


def test_rows_in_printed_order_each_recipe_its_own(accept: Any, tmp_path: Path) -> None:
    # Saved out of order, by two notebooks that share a number under different recipes.
    accept("snapaudit/b", [passing(3), passing(1, "other"), passing(1, "valid"), passing(1)])
    accept("snapaudit/a", [passing(1, "inferred")])
    found = ledger.gather()
    assert len(found) == TOTAL - 2 + 5
    assert list(pd.read_csv(tmp_path / "build" / "ledger.csv").columns) == LEDGER
    mine = found[found["recipe"] != ""]
    assert list(mine["recipe"]) == ["as_stated", "inferred", "valid", "other", "as_stated"]
    assert list(mine["notebook"]) == ["snapaudit/b", "snapaudit/a", *["snapaudit/b"] * 3]
    printed_order = list(number_key(claims.load_ledger()).drop_duplicates())
    assert printed_order == list(number_key(pd.concat(load_reported(p) for p in claims.papers())))


def test_printed_digits_survive(accept: Any, tmp_path: Path) -> None:
    accept("snapaudit/a", [passing(0)])
    ledger.gather()
    text = pd.read_csv(tmp_path / "build" / "ledger.csv", dtype=str, keep_default_na=False)
    for paper in claims.papers():
        source = pd.read_csv(paths.DATA / "reported" / f"{paper}.csv", dtype=str, keep_default_na=False)
        mine = text[text["paper"] == paper].reset_index(drop=True)
        same = [name for name in source if name != "epsilon"]
        pd.testing.assert_frame_equal(mine[same], source[same])


def test_smoke_keeps_to_its_folder(accept: Any, tmp_path: Path) -> None:
    accept("snapaudit/a", [passing(0)], profile="smoke")
    assert (ledger.gather("smoke")["verdict"] == "PASS").sum() == 1
    names = ["claims.csv", "ledger.csv", "ledger.html"]
    build = tmp_path / "build"
    assert sorted(path.name for path in (build / "smoke").glob("*.*")) == names
    assert not any((build / name).exists() for name in names)
    assert (ledger.gather("paper")["verdict"] == "PASS").sum() == 0
    assert all((build / name).exists() for name in names)


def test_unknown_profile() -> None:
    with pytest.raises(ValueError, match="profile must be one of"):
        ledger.gather("desktop")


def test_two_notebooks_one_number(accept: Any, tmp_path: Path) -> None:
    accept("snapaudit/a", [passing(0)])
    accept("snapaudit/b", [passing(0)])
    with pytest.raises(ValueError, match=r"snapaudit/a and snapaudit/b both judge .*Black-PV"):
        ledger.gather()
    assert not (tmp_path / "build" / "ledger.csv").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"row": "AGNewz"}, r"snapaudit/a: data/reported holds no snapaudit/table1: AGNewz"),
        ({"value_printed": "0.59"}, "differs from what data/reported holds"),
        ({"spread_printed": "0.2"}, "differs from what data/reported holds"),
    ],
)
def test_rows_about_what_is_not_printed(accept: Any, changes: dict, says: str) -> None:
    accept("snapaudit/a", [{**passing(0), **changes}])
    with pytest.raises(ValueError, match=says):
        ledger.gather()


def test_a_file_of_something_else_is_named(accept: Any) -> None:
    folder = accept("snapaudit/a", [passing(0)])
    (folder / "rows.csv").write_text("value\n1\n")
    with pytest.raises(ValueError, match=r"rows\.csv, line 1: the columns must be"):
        ledger.gather()


def test_a_notebook_that_changed_since_says_so(accept: Any) -> None:
    claim = judge_claim("snapaudit-12", "HOLDS", 0.1, 0.05, 0.2, 9, "an open model")
    accept("snapaudit/a", [passing(0, reason="as is")], [claim], current=False)
    found = ledger.gather()
    assert found["reason"][found["recipe"] != ""].item() == f"{ledger.STALE}as is"
    assert claims.load_claim_ledger()["reason"].max() == f"{ledger.STALE}an open model"


def test_a_notebook_without_rows(accept: Any) -> None:
    accept("snapaudit/a")
    assert len(ledger.gather()) == TOTAL


def test_claims(accept: Any, tmp_path: Path) -> None:
    accept("cape/a", judged=[judge_claim("cape-05", "HOLDS", 0.004, 0.003, 0.005, 50, "mass")])
    accept("retidp/a", judged=[judge_claim("retidp-01", "UNDECIDED", 0.0, -1.0, 1.0, 3)])
    ledger.gather()
    found = claims.load_claim_ledger().set_index("id")
    assert list(found.reset_index().columns) == CLAIM_LEDGER
    assert list(found.index) == list(claims.load_claims()["id"])
    assert found["verdict"].value_counts().to_dict() == {"NOT-RUN": 46, "HOLDS": 1, "UNDECIDED": 1}
    assert found.loc["cape-05", ["effect", "low", "high", "n"]].tolist() == [0.004, 0.003, 0.005, 50]
    text = ledger_views.ledger_text(paper="cape", claims=True)
    assert "HOLDS    0.004 [0.003, 0.005]" in text
    assert "retidp" not in text


def test_two_notebooks_one_claim(accept: Any) -> None:
    row = judge_claim("cape-05", "HOLDS", 0.0, 0.0, 0.0, 1)
    accept("cape/a", judged=[row])
    accept("cape/b", judged=[row])
    with pytest.raises(ValueError, match="cape/a and cape/b both judge cape-05"):
        ledger.gather()


def test_unknown_claim(accept: Any) -> None:
    accept("cape/a", judged=[{**judge_claim("cape-05", "HOLDS", 0.0, 0.0, 0.0, 1), "id": "cape-77"}])
    with pytest.raises(ValueError, match="cape/a: data/reported holds no cape-77"):
        ledger.gather()


def test_through_the_batch(house: Any, run: Any) -> None:
    """A real notebook, executed: what it saves is what the ledger shows."""
    (house.root / "data" / "reported" / "toy.csv").unlink()
    shutil.copytree(Path(__file__).parents[2] / "data", house.root / "data", dirs_exist_ok=True)
    house.notebook(
        "snapaudit/table1_classification",
        "from dprepro.kit.claims import judge, load_reported, save",
        "printed = load_reported('snapaudit', 'table1')",
        "save([judge(printed.iloc[0], 0.552, recipe='inferred')])",
    )
    assert run("laptop").ok == ["snapaudit/table1_classification"]
    found = ledger.gather("laptop")
    row = found[found["recipe"] == "inferred"].iloc[0]
    assert (row["verdict"], row["recomputed"]) == ("PASS", 0.552)
    assert row["notebook"] == "snapaudit/table1_classification"
    assert row["reason"] == ""
