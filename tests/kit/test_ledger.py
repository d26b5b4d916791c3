"""From rows that notebooks left to the ledger, its headline, its page and its tables."""

import json
import math
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprepro.base import paths
from dprepro.kit import batch, claims, ledger, tables
from dprepro.kit.claims import judge, judge_claim, load_reported
from dprepro.kit.headline import CLASSES, classes, fails, headline
from dprepro.kit.plan import PROFILES
from dprepro.kit.rows import CLAIM_LEDGER, LEDGER, number_key, read_rows

HOLDS = "snapaudit-12 n=200 effect=0.1 [0.05, 0.2] holds: an open model"
TOTAL = 515


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


class TestGather:
    def test_nothing_run(self, accept: Any, tmp_path: Path) -> None:
        found = ledger.gather("laptop")
        assert len(found) == TOTAL
        assert (found["recipe"] == "").all()
        assert found["verdict"].value_counts().to_dict() == {"NOT-RUN": 503, "DASH": 12}
        assert (found["reason"] != "").all()
        pd.testing.assert_frame_equal(claims.load_ledger(), found)

    def test_before_any_run_the_ledger_is_the_same(self, accept: Any) -> None:
        before = claims.load_ledger()
        pd.testing.assert_frame_equal(before, ledger.gather(), check_dtype=False)
        assert (claims.load_claim_ledger()["verdict"] == "NOT-RUN").all()

    def test_rows_in_printed_order_each_recipe_its_own(self, accept: Any, tmp_path: Path) -> None:
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

    def test_printed_digits_survive(self, accept: Any, tmp_path: Path) -> None:
        accept("snapaudit/a", [passing(0)])
        ledger.gather()
        text = pd.read_csv(tmp_path / "build" / "ledger.csv", dtype=str, keep_default_na=False)
        for paper in claims.papers():
            source = pd.read_csv(paths.DATA / "reported" / f"{paper}.csv", dtype=str, keep_default_na=False)
            mine = text[text["paper"] == paper].reset_index(drop=True)
            same = [name for name in source if name != "epsilon"]
            pd.testing.assert_frame_equal(mine[same], source[same])

    def test_smoke_keeps_to_its_folder(self, accept: Any, tmp_path: Path) -> None:
        accept("snapaudit/a", [passing(0)], profile="smoke")
        assert (ledger.gather("smoke")["verdict"] == "PASS").sum() == 1
        names = ["claims.csv", "ledger.csv", "ledger.html"]
        build = tmp_path / "build"
        assert sorted(path.name for path in (build / "smoke").glob("*.*")) == names
        assert not any((build / name).exists() for name in names)
        assert (ledger.gather("paper")["verdict"] == "PASS").sum() == 0
        assert all((build / name).exists() for name in names)

    def test_unknown_profile(self) -> None:
        with pytest.raises(ValueError, match="profile must be one of"):
            ledger.gather("desktop")

    def test_two_notebooks_one_number(self, accept: Any, tmp_path: Path) -> None:
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
    def test_rows_about_what_is_not_printed(self, accept: Any, changes: dict, says: str) -> None:
        accept("snapaudit/a", [{**passing(0), **changes}])
        with pytest.raises(ValueError, match=says):
            ledger.gather()

    def test_a_file_of_something_else_is_named(self, accept: Any) -> None:
        folder = accept("snapaudit/a", [passing(0)])
        (folder / "rows.csv").write_text("value\n1\n")
        with pytest.raises(ValueError, match=r"rows\.csv, line 1: the columns must be"):
            ledger.gather()

    def test_a_notebook_that_changed_since_says_so(self, accept: Any) -> None:
        claim = judge_claim("snapaudit-12", "HOLDS", 0.1, 0.05, 0.2, 9, "an open model")
        accept("snapaudit/a", [passing(0, reason="as is")], [claim], current=False)
        found = ledger.gather()
        assert found["reason"][found["recipe"] != ""].item() == f"{ledger.STALE}as is"
        assert claims.load_claim_ledger()["reason"].max() == f"{ledger.STALE}an open model"

    def test_a_notebook_without_rows(self, accept: Any) -> None:
        accept("snapaudit/a")
        assert len(ledger.gather()) == TOTAL

    def test_claims(self, accept: Any, tmp_path: Path) -> None:
        accept("cape/a", judged=[judge_claim("cape-05", "HOLDS", 0.004, 0.003, 0.005, 50, "mass")])
        accept("retidp/a", judged=[judge_claim("retidp-01", "UNDECIDED", 0.0, -1.0, 1.0, 3)])
        ledger.gather()
        found = claims.load_claim_ledger().set_index("id")
        assert list(found.reset_index().columns) == CLAIM_LEDGER
        assert list(found.index) == list(claims.load_claims()["id"])
        assert found["verdict"].value_counts().to_dict() == {"NOT-RUN": 46, "HOLDS": 1, "UNDECIDED": 1}
        assert found.loc["cape-05", ["effect", "low", "high", "n"]].tolist() == [0.004, 0.003, 0.005, 50]
        text = ledger.ledger_text(paper="cape", claims=True)
        assert "HOLDS    0.004 [0.003, 0.005]" in text
        assert "retidp" not in text

    def test_two_notebooks_one_claim(self, accept: Any) -> None:
        row = judge_claim("cape-05", "HOLDS", 0.0, 0.0, 0.0, 1)
        accept("cape/a", judged=[row])
        accept("cape/b", judged=[row])
        with pytest.raises(ValueError, match="cape/a and cape/b both judge cape-05"):
            ledger.gather()

    def test_unknown_claim(self, accept: Any) -> None:
        accept("cape/a", judged=[{**judge_claim("cape-05", "HOLDS", 0.0, 0.0, 0.0, 1), "id": "cape-77"}])
        with pytest.raises(ValueError, match="cape/a: data/reported holds no cape-77"):
            ledger.gather()

    def test_through_the_batch(self, house: Any, run: Any) -> None:
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


def a_ledger(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows)


class TestHeadline:
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
    def test_the_first_class_that_fits(self, recipes: list, expected: str) -> None:
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
    def test_stand_ins(self, reason: str, expected: str) -> None:
        row = {**passing(0), "verdict": "STAND-IN", "reason": reason}
        assert list(classes(a_ledger(row))) == [expected]

    def test_a_dash_stays_a_dash(self) -> None:
        frame = load_reported("synbench")
        dash = frame[frame["value_printed"] == ""].iloc[0]
        rows = [judge(dash, 0.2, recipe=recipe) for recipe in ("as_stated", "valid")]
        assert list(classes(a_ledger(*rows))) == ["DASH", "DASH"]

    def test_every_printed_number_counts_once(self, accept: Any) -> None:
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

    def test_fails_beside_chance(self) -> None:
        rows = [passing(0), judge(printed(1), 9.0, recipe="as_stated"), passing(1, "inferred")]
        rows.append(judge(printed(5), 0.1, recipe="as_stated", ceiling=0.2))
        rows.append(passing(2, "valid"))
        found = fails(a_ledger(*rows)).set_index("recipe")
        assert found.loc["as_stated", ["judged", "FAIL", "CONTRADICTED"]].tolist() == [3, 1, 1]
        assert found.loc["inferred", ["judged", "FAIL", "CONTRADICTED"]].tolist() == [1, 0, 0]
        assert found.loc["as_stated", "by chance"] == claims.chance_fails(a_ledger(rows[0], rows[1], rows[3]))
        assert 0.1 < found.loc["as_stated", "by chance"] < 3 * 0.1161

    def test_a_number_that_repeats_another_table_counts_once(self) -> None:
        row = judge(printed(1), 9.0, recipe="inferred")
        again = judge(printed(2), 9.0, recipe="inferred", reason="repeats table2: the same audit")
        assert fails(a_ledger(row, again))["FAIL"].sum() == 1


class TestText:
    def test_headline(self, accept: Any) -> None:
        accept("snapaudit/a", [passing(0), judge(printed(1), 9.0, recipe="inferred")])
        ledger.gather()
        lines = ledger.ledger_text().splitlines()
        assert lines[0] == ledger.SOURCES
        assert lines[-1].split()[:5] == ["snapaudit", "table1", "inferred", "1", "1"]
        total = next(line for line in lines if line.startswith("all"))
        assert total.split() == ["all", "515", "1", ".", ".", "1", ".", ".", ".", ".", "12", "501"]
        assert len({len(line) for line in lines if line.endswith(("501", "NOT-RUN"))}) == 1

    def test_one_paper_row_by_row(self, accept: Any) -> None:
        text = ledger.ledger_text(paper="cape")
        assert text.count("Cape (BERT)") == 4
        assert "synbench" not in text

    def test_one_class(self, accept: Any) -> None:
        reason = "the threshold is chosen on the same trials"
        accept("snapaudit/a", [passing(0), judge(printed(1), 9.0, recipe="as_stated", reason=reason)])
        ledger.gather()
        text = ledger.ledger_text(cls="FAIL")
        assert text.splitlines()[0] == "snapaudit/table1"
        assert len(text.splitlines()) == 5
        assert text.endswith(f"\n  {reason}")
        assert ledger.ledger_text(cls="INPUT") == "none"

    def test_unknown_words(self) -> None:
        with pytest.raises(ValueError, match="paper must be one of"):
            ledger.ledger_text(paper="nobody")
        with pytest.raises(ValueError, match="cls must be one of 'REPRODUCED'"):
            ledger.ledger_text(cls="PASS")


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


class TestPage:
    def test_the_page(self, accept: Any, tmp_path: Path) -> None:
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
        assert ledger.SOURCES in text
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


class TestTables:
    def test_verdict_table_by_hand(self) -> None:
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

    def test_last_bits_do_not_show(self) -> None:
        def text(value: float, error: float) -> str:
            return tables.printed_table([judge(printed(0), value, error, recipe="inferred")])

        for value, error in ((0.55213, 0.0312), (-1e-17, 1 / 3)):
            assert text(value, error) == text(math.nextafter(value, 9), math.nextafter(error, 9))

    def test_odd_units(self) -> None:
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

    def test_latex(self) -> None:
        frame = a_ledger(passing(0, reason="50 % & more"))
        text = tables.table("snapaudit/table1", "latex", frame)
        for word in (r"\toprule", r"\midrule", r"\bottomrule", r"as\_stated", "0.58 & 0.16"):
            assert word in text
        assert text.count("&") == 18

    def test_html_and_csv(self) -> None:
        frame = a_ledger(passing(0), passing(0, "inferred"))
        page = Balanced()
        page.feed(tables.table("snapaudit/table1", "html", frame))
        assert page.open == []
        assert len(page.lines) == 3
        text = tables.table("snapaudit/table1", "csv", frame)
        assert text.splitlines()[0].split(",") == LEDGER
        assert ",0.58,0.16,sd of 5 runs," in text

    def test_every_table_of_the_papers(self, accept: Any) -> None:
        found = claims.load_ledger()
        assert len(claims.table_names()) == 18
        for name in claims.table_names():
            assert len(tables.table(name, "csv", found).splitlines()) > 3

    def test_unknown_names(self) -> None:
        frame = a_ledger(passing(0))
        with pytest.raises(ValueError, match="name must be one of 'snapaudit/table1'"):
            tables.table("table1", "csv", frame)
        with pytest.raises(ValueError, match="format must be one of 'latex', 'html', 'csv'"):
            tables.table("snapaudit/table1", "pdf", frame)


def test_rows_with_numbers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,effect\na,\nb,inf\nc,2\n")
    assert json.dumps(read_rows(path, ["id", "effect"])["effect"].tolist()) == "[NaN, Infinity, 2.0]"
