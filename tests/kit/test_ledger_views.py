"""The ledger as text and as one page."""

from pathlib import Path
from typing import Any

import pytest

from dprepro.kit import ledger
from dprepro.kit.claims import judge, judge_claim
from dprepro.kit.ledger_views import SOURCES, ledger_text
from dprepro.kit.rows import number_key

from .conftest import TOTAL, Balanced, a_ledger, passing, printed


def test_headline(accept: Any) -> None:
    accept("snapaudit/a", [passing(0), judge(printed(1), 9.0, recipe="inferred")])
    ledger.gather()
    lines = ledger_text().splitlines()
    assert lines[0] == SOURCES
    assert lines[-1].split()[:5] == ["snapaudit", "table1", "inferred", "1", "1"]
    total = next(line for line in lines if line.startswith("all"))
    assert total.split() == ["all", "515", "1", ".", ".", "1", ".", ".", ".", ".", "12", "501"]
    assert len({len(line) for line in lines if line.endswith(("501", "NOT-RUN"))}) == 1


def test_one_paper_row_by_row(accept: Any) -> None:
    text = ledger_text(paper="cape")
    assert text.count("Cape (BERT)") == 4
    assert "synbench" not in text


def test_one_class(accept: Any) -> None:
    reason = "the threshold is chosen on the same trials"
    accept("snapaudit/a", [passing(0), judge(printed(1), 9.0, recipe="as_stated", reason=reason)])
    ledger.gather()
    text = ledger_text(cls="FAIL")
    assert text.splitlines()[0] == "snapaudit/table1"
    assert len(text.splitlines()) == 5
    assert text.endswith(f"\n  {reason}")
    assert ledger_text(cls="INPUT") == "none"


def test_unknown_words() -> None:
    with pytest.raises(ValueError, match="paper must be one of"):
        ledger_text(paper="nobody")
    with pytest.raises(ValueError, match="cls must be one of 'REPRODUCED'"):
        ledger_text(cls="PASS")


def test_the_page(accept: Any, tmp_path: Path) -> None:
    claim = judge_claim("snapaudit-12", "FAILS", 0.1, 0.05, 0.2, 9, "an open model")
    rows = [
        passing(0, reason="<script>alert(1)</script> & more"),
        judge(printed(1), 9.0, recipe="inferred"),
    ]
    accept("snapaudit/a", rows, [claim])
    found = ledger.gather()
    text = (tmp_path / "build" / "ledger.html").read_text()
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert "http" not in text
    assert SOURCES in text
    assert "prefers-color-scheme: dark" in text
    numbers = [line for line in page.lines if len(line) == 12 and line[0] != "table"]
    assert len(numbers) == len(found) == TOTAL
    first = numbers[list(number_key(found)).index(number_key(a_ledger(rows[0])).item())]
    assert first[4:7] == ["0.58 ± 0.16", "REPRODUCED", "as_stated"]
    assert first[10:] == ["PASS", "<script>alert(1)</script> & more · snapaudit/a"]
    assert next(line for line in page.lines if line[0] == "snapaudit-12")[2:5] == [
        "FAILS",
        "0.1 [0.05, 0.2]",
        "9",
    ]
