"""Tables of verdicts as text, LaTeX, HTML and CSV."""

import math
from typing import Any

import pytest

from dprepro.kit import claims, tables
from dprepro.kit.claims import judge, load_reported
from dprepro.kit.rows import LEDGER

from .conftest import Balanced, a_ledger, passing, printed


def test_verdict_table_by_hand() -> None:
    rows = [
        judge(printed(0), 0.5523, 0.00123, recipe="inferred"),
        judge(printed(1), 0.9661, recipe="as_stated"),
        judge(printed(1), -0.0001, 0.01, recipe="valid"),
    ]
    assert tables.printed_table(rows).splitlines() == [
        "row     column              epsilon  printed  spread  recipe"
        "     recomputed  MC error  tolerance  verdict",
        "------  ------------------  -------  -------  ------  ------"
        "---  ----------  --------  ---------  -------",
        "AGNews  Black-PV (Passive)        1     0.58    0.16  inferr"
        "ed        0.552    0.0012      0.148  PASS",
        "AGNews  Black-PV (Active)         1     0.97    0.01  as_sta"
        "ted       0.966     exact      0.014  MATCH",
        "AGNews  Black-PV (Active)         1     0.97    0.01  valid           0.000    0.0100",
    ]


def test_last_bits_do_not_show() -> None:
    def text(value: float, error: float) -> str:
        return tables.printed_table([judge(printed(0), value, error, recipe="inferred")])

    for value, error in ((0.55213, 0.0312), (-1e-17, 1 / 3)):
        assert text(value, error) == text(math.nextafter(value, 9), math.nextafter(error, 9))


def test_odd_units() -> None:
    samples = load_reported("retidp", "text")
    dashes = load_reported("synbench").query("value_printed == ''")
    rows = [
        judge(samples.iloc[0], 512_345.6, recipe="as_stated"),
        judge(samples.iloc[2], 750.26, 3.4, recipe="as_stated"),
        judge(dashes.iloc[0], 0.12345, 0.01, recipe="as_stated"),
        judge(load_reported("lesson").iloc[0], math.inf, recipe="valid"),
    ]
    shown = tables.display(rows)
    assert list(shown["printed"]) == ["5e5", "750", "-", "34257.95"]
    assert list(shown["recomputed"]) == ["512346", "750.3", "0.123", "inf"]
    assert list(shown["MC error"]) == ["exact", "3.40", "0.0100", "exact"]


def test_latex() -> None:
    frame = a_ledger(passing(0, reason="50 % & more"))
    text = tables.table("snapaudit/table1", "latex", frame)
    for word in (r"\toprule", r"\midrule", r"\bottomrule", r"as\_stated", "0.58 & 0.16"):
        assert word in text
    assert text.count("&") == 18


def test_html_and_csv() -> None:
    frame = a_ledger(passing(0), passing(0, "inferred"))
    page = Balanced()
    page.feed(tables.table("snapaudit/table1", "html", frame))
    assert page.open == []
    assert len(page.lines) == 3
    text = tables.table("snapaudit/table1", "csv", frame)
    assert text.splitlines()[0].split(",") == LEDGER
    assert ",0.58,0.16,sd of 5 runs," in text


def test_every_table_of_the_papers(accept: Any) -> None:
    found = claims.load_ledger()
    assert len(claims.table_names()) == 18
    for name in claims.table_names():
        assert len(tables.table(name, "csv", found).splitlines()) > 3


def test_unknown_names() -> None:
    frame = a_ledger(passing(0))
    with pytest.raises(ValueError, match="name must be one of 'snapaudit/table1'"):
        tables.table("table1", "csv", frame)
    with pytest.raises(ValueError, match="format must be one of 'latex', 'html', 'csv'"):
        tables.table("snapaudit/table1", "pdf", frame)
