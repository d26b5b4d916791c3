"""The batch on a repository of its own, and rows as notebooks leave them for the ledger."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprepro.kit import batch, claims
from dprepro.kit.claims import judge, load_reported
from dprepro.kit.plan import PROFILES

TOTAL = 515


@pytest.fixture
def run(house: Any, workers: Any) -> Any:
    """Run the batch of `house` on the shared workers."""

    def call(*args: Any, **options: Any) -> batch.RunSummary:
        return batch.run(*args, client=workers, **options)

    return call


@pytest.fixture
def accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand in for the batch: a call leaves the results of one accepted notebook."""
    found: dict[str, list[batch.Accepted]] = {profile: [] for profile in PROFILES}
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(batch, "accepted", lambda profile: found[profile])

    def call(
        name: str, rows: Any = (), judged: Any = (), profile: str = "laptop", current: bool = True
    ) -> Path:
        folder = tmp_path / "build" / profile / f"{name}.out"
        monkeypatch.setenv("DPREPRO_OUT", str(folder))
        if len(rows):
            claims.save(rows)
        if len(judged):
            claims.save_claims(judged)
        found[profile].append(batch.Accepted(name, folder, folder.with_suffix(".ipynb"), current))
        return folder

    return call


def printed(position: int, paper: str = "snapaudit", table: str = "table1") -> pd.Series:
    return load_reported(paper, table).iloc[position]


def passing(position: int, recipe: str = "as_stated", **options: Any) -> dict[str, Any]:
    row = printed(position)
    return judge(row, row["value"], 1e-6, recipe=recipe, **options)


def a_ledger(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows)


class Balanced(HTMLParser):
    """Fails on a tag that is not closed in order; collects the cells of each table line."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.lines: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)
        if tag == "tr":
            self.lines.append([])
        if tag in ("td", "th"):
            self.lines[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.lines[-1][-1] += data
