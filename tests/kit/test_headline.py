"""How printed numbers are counted."""

from typing import Any

import pytest

from dprepro.kit import claims, ledger
from dprepro.kit.claims import judge, load_reported
from dprepro.kit.headline import CLASSES, classes, fails, headline

from .conftest import TOTAL, a_ledger, passing, printed

HOLDS = "snapaudit-12 n=200 effect=0.1 [0.05, 0.2] holds: an open model"


@pytest.mark.parametrize(
    ("recipes", "expected"),
    [
        ([("as_stated", "PASS"), ("inferred", "FAIL")], "REPRODUCED"),
        ([("as_stated", "MATCH")], "REPRODUCED"),
        ([("as_stated", "FAIL"), ("inferred", "PASS")], "EXPLAINED"),
        ([("as_stated", "CONTRADICTED"), ("inferred", "MATCH")], "EXPLAINED"),
        ([("inferred", "FAIL"), ("as_stated", "CONTRADICTED")], "CONTRADICTED"),
        ([("as_stated", "FAIL"), ("inferred", "CALIBRATED")], "FAIL"),
        ([("as_stated", "FAIL"), ("rival", "PASS")], "FAIL"),
        ([("inferred", "CALIBRATED"), ("as_stated", "NOT-RUN")], "CALIBRATED"),
        ([("as_stated", "INPUT")], "INPUT"),
        ([("as_stated", "NOT-RUN"), ("valid", "")], "NOT-RUN"),
        ([("valid", "")], "NOT-RUN"),
        ([("rival", "PASS")], "NOT-RUN"),
        ([("", "NOT-RUN")], "NOT-RUN"),
    ],
)
def test_the_first_class_that_fits(recipes: list, expected: str) -> None:
    rows = [{**passing(0), "recipe": recipe, "verdict": verdict} for recipe, verdict in recipes]
    assert set(classes(a_ledger(*rows))) == {expected}
    assert headline(a_ledger(*rows)).loc[("snapaudit", "table1"), ["printed", expected]].tolist() == [
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (HOLDS, "STAND-IN holds"),
        (HOLDS.replace("holds", "fails"), "STAND-IN fails or undecided"),
        (HOLDS.replace("holds", "undecided"), "STAND-IN fails or undecided"),
        ("some model did well", "NOT-RUN"),
    ],
)
def test_stand_ins(reason: str, expected: str) -> None:
    row = {**passing(0), "verdict": "STAND-IN", "reason": reason}
    assert list(classes(a_ledger(row))) == [expected]


def test_a_dash_stays_a_dash() -> None:
    frame = load_reported("synbench")
    dash = frame[frame["value_printed"] == ""].iloc[0]
    rows = [judge(dash, 0.2, recipe=recipe) for recipe in ("as_stated", "valid")]
    assert list(classes(a_ledger(*rows))) == ["DASH", "DASH"]


def test_every_printed_number_counts_once(accept: Any) -> None:
    rows = [passing(0), passing(0, "inferred"), passing(1, "inferred"), passing(1, "valid")]
    rows.append(judge(printed(2), 9.0, recipe="as_stated"))
    accept("snapaudit/a", rows)
    counts = headline(ledger.gather())
    assert list(counts.columns) == ["printed", *CLASSES]
    assert counts["printed"].sum() == TOTAL
    assert (counts[list(CLASSES)].sum(axis=1) == counts["printed"]).all()
    assert counts["printed"].groupby(level="paper").sum().to_dict() == {
        paper: len(load_reported(paper)) for paper in claims.papers()
    }
    assert counts.loc[("snapaudit", "table1"), ["REPRODUCED", "EXPLAINED", "FAIL"]].tolist() == [1, 1, 1]


def test_fails_beside_chance() -> None:
    rows = [passing(0), judge(printed(1), 9.0, recipe="as_stated"), passing(1, "inferred")]
    rows.append(judge(printed(5), 0.1, recipe="as_stated", ceiling=0.2))
    rows.append(passing(2, "valid"))
    found = fails(a_ledger(*rows)).set_index("recipe")
    assert found.loc["as_stated", ["judged", "FAIL", "CONTRADICTED"]].tolist() == [3, 1, 1]
    assert found.loc["inferred", ["judged", "FAIL", "CONTRADICTED"]].tolist() == [1, 0, 0]
    assert found.loc["as_stated", "by chance"] == claims.chance_fails(a_ledger(rows[0], rows[1], rows[3]))
    assert 0.1 < found.loc["as_stated", "by chance"] < 3 * 0.1161


def test_a_number_that_repeats_another_table_counts_once() -> None:
    row = judge(printed(1), 9.0, recipe="inferred")
    again = judge(printed(2), 9.0, recipe="inferred", reason="repeats table2: the same audit")
    assert fails(a_ledger(row, again))["FAIL"].sum() == 1
