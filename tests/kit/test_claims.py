"""Printed numbers, verdicts worked by hand, and the rows a notebook leaves behind."""

import hashlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprepro.base import paths
from dprepro.kit import claims, verdicts
from dprepro.kit.claims import judge, judge_claim, load_reported
from dprepro.kit.rows import LEDGER, PRINTED, read_rows

COUNTS = {"cape": 26, "lesson": 15, "retidp": 26, "snapaudit": 182, "synbench": 266}
HOLDS = "snapaudit-12 n=2,000 effect=-0.31 [-0.4, -0.22] holds: an open model of 135 million weights"


def printed(paper: str = "snapaudit", **where: Any) -> pd.Series:
    frame = load_reported(paper)
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0]


def made(value: str, spread: str = "", spread_is: str = "", column: str = "a column") -> dict[str, Any]:
    """A printed row that no paper has."""

    def unit(text: str) -> float:
        return 10.0 ** -len(text.partition(".")[2]) if text else math.nan

    floats = {"value": float(value or "nan"), "spread": float(spread or "nan"), "epsilon": 1.0}
    digits = {
        "value_printed": value,
        "spread_printed": spread,
        "unit": unit(value),
        "spread_unit": unit(spread),
    }
    words = {"paper": "cape", "table": "table1", "row": "a row", "column": column, "source": "summary-table"}
    return {**words, **floats, **digits, "spread_is": spread_is}


FIVE = ("0.16", "sd of 5 runs")
TEN = ("1.13", "95 % half-width, 10 runs")


class TestPrinted:
    @pytest.mark.parametrize(("paper", "count"), COUNTS.items())
    def test_every_number_loads(self, paper: str, count: int) -> None:
        frame = load_reported(paper)
        assert len(frame) == count
        assert list(frame.columns[:9]) == PRINTED
        assert list(frame.index) == list(range(count))

    def test_the_files_are_the_ones_data_readme_names(self) -> None:
        page = (paths.DATA / "README.md").read_text()
        named = dict(re.findall(r"^\| (\S+) \|.*`([0-9a-f]{64})` \|$", page, re.MULTILINE))
        there = {
            path.relative_to(paths.DATA).as_posix()
            for path in paths.DATA.rglob("*")
            if path.is_file() and not path.name.startswith(".") and path.name != "README.md"
        }
        assert set(named) == {name for name in there if not name.startswith("results/")}
        for name, digest in named.items():
            assert hashlib.sha256((paths.DATA / name).read_bytes()).hexdigest() == digest, name

    @pytest.mark.parametrize(
        ("paper", "where", "text", "value", "unit"),
        [
            ("synbench", {"table": "table4", "row": "DMSAFN"}, "0.60", 0.6, 0.01),
            ("retidp", {"column": "ReTiDP per step"}, "750", 750.0, 1.0),
            ("retidp", {"column": "DP-Finder"}, "5e5", 5e5, 1e5),
            ("retidp", {"column": "DP-Sniper"}, "10.7e6", 10.7e6, 1e5),
            ("snapaudit", {"table": "text", "column": "variance 0"}, "0.0084", 0.0084, 1e-4),
        ],
    )
    def test_digits_and_unit(self, paper: str, where: dict, text: str, value: float, unit: float) -> None:
        row = printed(paper, **where)
        assert (row["value_printed"], row["value"]) == (text, value)
        assert row["unit"] == pytest.approx(unit, rel=1e-12)

    def test_a_trailing_zero_counts(self) -> None:
        row = printed(table="table2", row="SAMSum", column="White-ESA (Active)", epsilon=4.0)
        assert (row["spread_printed"], row["spread"], row["spread_unit"]) == ("0.00", 0.0, 0.01)

    def test_a_dash_is_empty(self) -> None:
        frame = load_reported("synbench")
        dashes = frame[frame["value_printed"] == ""]
        assert len(dashes) == 12
        assert dashes["value"].isna().all()
        assert dashes["unit"].isna().all()

    def test_one_table_keeps_positions(self) -> None:
        whole = load_reported("snapaudit")
        part = load_reported("snapaudit", "table5")
        assert len(part) == 8
        pd.testing.assert_frame_equal(part, whole.loc[part.index])

    @pytest.mark.parametrize(
        "arguments", [("capes",), ("claims",), ("../reported/cape",), ("cape", "table9")]
    )
    def test_unknown_names(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match=r"(paper|table) must be one of"):
            load_reported(*arguments)

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("cape,table1,a,b,1,0.5,,", "needs 9 fields, got 8"),
            ("cape,table1,a,b,1,half,,,summary-table", "value must be a number"),
            ("cape,table1,a,b,1,nan,,,summary-table", "value must be a number"),
            ("cape,table1,a,b,1,1_0,,,summary-table", "value must be a number"),
            ("cape,table1,a,b,-1,0.5,,,summary-table", "epsilon must be"),
            ("cape,table1,a,b,1,0.5,-0.1,sd of 5 runs,summary-table", "spread must be >= 0"),
            ("cape,table1,a,b,1,,0.1,sd of 5 runs,summary-table", "spread must be >= 0 and stand beside"),
            ("cape,table1,a,b,1,0.5,0.1,sd of 3 runs,summary-table", "spread_is must be one of"),
            ("cape,table1,a,b,1,0.5,0.1,,summary-table", "spread_is must be one of"),
            ("cape,table1,a,b,1,0.5,,sd of 5 runs,summary-table", "spread_is must be one of"),
            ("cape,table1,a,b,1,0.5,,,hearsay", "source must be one of"),
            ("cape,table1,,b,1,0.5,,,summary-table", "row must not be empty"),
            ("synbench,table1,a,b,1,0.5,,,summary-table", "paper must be cape"),
            ("cape,table1,x,y,1.0,0.7,,,summary-table", "the same number as in line 2"),
            ("", "needs 9 fields"),
            ('cape,table1,"a"b,c,1,0.5,,,summary-table', "',' expected"),
        ],
    )
    def test_a_malformed_line_is_named(self, reported: Path, line: str, says: str) -> None:
        good = ",".join(PRINTED) + "\ncape,table1,x,y,1,0.60,,,summary-table\n"
        (reported / "cape.csv").write_text(good + line + "\n")
        with pytest.raises(ValueError, match=rf"cape\.csv, line 3: {re.escape(says)}"):
            load_reported("cape")

    def test_a_wrong_header_and_an_empty_file(self, reported: Path) -> None:
        for text in ("paper,table\ncape,table1\n", ""):
            (reported / "cape.csv").write_text(text)
            with pytest.raises(ValueError, match="line 1: the columns must be"):
                load_reported("cape")

    @pytest.mark.parametrize("line", ["cape-01,cape,,a test", "x-01,cape,a claim,a test", "cape-09,cape,a,b"])
    def test_a_malformed_claim_is_named(self, reported: Path, line: str) -> None:
        (reported / "claims.csv").write_text(f"id,paper,claim,test\ncape-09,cape,a claim,a test\n{line}\n")
        with pytest.raises(ValueError, match="line 3"):
            claims.load_claims()

    def test_every_claim_is_about_a_paper(self) -> None:
        frame = claims.load_claims()
        assert len(frame) == 48
        assert set(frame["paper"]) == set(COUNTS)


class TestVerdicts:
    """Each edge worked by hand. 2 * 0.16 / sqrt(5) + 0.005 = .148108; 2 * 1.13 / 2.26 + .0005 = 1.0005."""

    @pytest.mark.parametrize(
        ("row", "recomputed", "error", "verdict"),
        [
            (made("0.58", *FIVE), 0.585, 0.0, "MATCH"),
            (made("0.60"), 0.605, 0.0, "MATCH"),
            (made("0.60"), 0.595, 0.0, "MATCH"),
            (made("0.60"), 0.6051, 0.0, "FAIL"),
            (made("0.58", *FIVE), 0.586, 0.0, "PASS"),
            (made("0.58", *FIVE), 0.580, 1e-9, "PASS"),
            (made("0.58", *FIVE), 0.7281, 0.0, "PASS"),
            (made("0.58", *FIVE), 0.7282, 0.0, "FAIL"),
            (made("0.58", *FIVE), 0.4319, 0.0, "PASS"),
            (made("0.58", *FIVE), 0.4318, 0.0, "FAIL"),
            (made("43.275", *TEN), 44.2755, 0.0, "PASS"),
            (made("43.275", *TEN), 44.2756, 0.0, "FAIL"),
            (made("0.60"), 0.625, 0.01, "PASS"),  # 2 * .01 + .005
            (made("0.60"), 0.6251, 0.01, "FAIL"),
            (made("17"), 17.5, 0.0, "MATCH"),
            (made("17"), 17.51, 0.0, "FAIL"),
            (made("87.0"), 87.06, 0.0, "FAIL"),
            (made("2.52", "0.00", "sd of 5 runs"), 2.526, 0.0, "FAIL"),
            (made("1.0"), math.inf, 0.0, "FAIL"),
        ],
    )
    def test_tolerance(self, row: dict, recomputed: float, error: float, verdict: str) -> None:
        assert judge(row, recomputed, error, recipe="as_stated")["verdict"] == verdict

    def test_both_errors_add_in_squares(self) -> None:
        row = judge(made("0.58", "0.30", "sd of 5 runs"), 0.6, 0.2, recipe="inferred")
        assert row["tolerance"] == pytest.approx(2 * math.sqrt(0.3**2 / 5 + 0.2**2) + 0.005, rel=1e-14)
        assert row["tolerance_from"] == "sd of 5 runs + Monte Carlo error + rounding"

    @pytest.mark.parametrize(
        ("side", "recomputed", "error", "verdict"),
        [
            ("upper", 0.05, 0.0, "PASS"),
            ("upper", 0.0501, 0.0, "CONTRADICTED"),
            ("upper", 0.030, 0.010, "PASS"),  # .0496
            ("upper", 0.031, 0.010, "FAIL"),  # .0506
            ("upper", 0.069, 0.010, "FAIL"),  # down to .0494
            ("upper", 0.070, 0.010, "CONTRADICTED"),  # down to .0504
            ("lower", 0.070, 0.010, "PASS"),
            ("lower", 0.069, 0.010, "FAIL"),
            ("lower", 0.030, 0.010, "CONTRADICTED"),
            ("lower", 0.05, 0.0, "PASS"),
        ],
    )
    def test_bounds(self, side: str, recomputed: float, error: float, verdict: str) -> None:
        row = made("0.05", column=f"false alarm {side} bound before change")
        assert judge(row, recomputed, error, recipe="as_stated")["verdict"] == verdict

    def test_bound_columns_of_the_papers(self) -> None:
        every = pd.concat([load_reported(paper) for paper in claims.papers()])
        sides = every["column"].map(verdicts.bound_side)
        assert (sides == "upper").sum() == 17
        assert list(every["row"][sides == "lower"]) == ["CUSTEXT"]

    @pytest.mark.parametrize(
        ("row", "ceiling", "verdict"),
        [
            (made("6.08"), 6.074, "CONTRADICTED"),
            (made("6.08"), 6.075, "FAIL"),  # half a unit is print's own
            (made("0.58", *FIVE), 0.4318, "CONTRADICTED"),
            (made("0.58", *FIVE), 0.4319, "FAIL"),
        ],
    )
    def test_ceiling(self, row: dict, ceiling: float, verdict: str) -> None:
        found = judge(row, 0.1, 0.0, recipe="as_stated", ceiling=ceiling)
        assert found["verdict"] == verdict
        # The recomputed number's own error widens nothing here: only print can be above a ceiling.
        assert judge(row, -9.0, 1.0, recipe="as_stated", ceiling=ceiling)["verdict"] == verdict

    @pytest.mark.parametrize(
        ("row", "floor", "verdict"),
        [
            (made("0.42"), 0.4251, "CONTRADICTED"),
            (made("0.42"), 0.425, "FAIL"),  # half a unit is print's own
            (made("0.58", *FIVE), 0.7282, "CONTRADICTED"),
            (made("0.58", *FIVE), 0.7280, "FAIL"),
        ],
    )
    def test_floor(self, row: dict, floor: float, verdict: str) -> None:
        found = judge(row, 2.0, 0.0, recipe="as_stated", floor=floor)
        assert found["verdict"] == verdict
        if verdict == "CONTRADICTED":
            assert found["tolerance_from"].endswith(f"below the floor {floor:.6g}")

    def test_the_reader_sees_the_ceiling(self) -> None:
        row = printed(table="table1", row="AGNews", column="White-PoE (Active)", epsilon=16.0)
        found = judge(row, 4.1, 0.01, recipe="as_stated", ceiling=4.7665)
        assert found["verdict"] == "CONTRADICTED"
        assert found["tolerance"] == pytest.approx(2 * 0.91 / math.sqrt(5) + 0.005)
        assert found["tolerance_from"] == "sd of 5 runs + rounding, above the ceiling 4.7665"

    def test_valid_carries_its_value_alone(self) -> None:
        row = judge(printed(), 0.4, 0.01, recipe="valid", reason="assumes Gaussian noise")
        assert (row["recomputed"], row["recomputed_se"], row["verdict"]) == (0.4, 0.01, "")
        assert math.isnan(row["tolerance"])

    def test_columns_in_order(self) -> None:
        row = judge(printed(), 0.55, recipe="inferred", reason="two-sided limits")
        assert list(row)[: len(LEDGER)] == LEDGER
        assert (row["reason"], row["recipe"], row["notebook"]) == ("two-sided limits", "inferred", "")

    def test_a_dash(self) -> None:
        row = printed("synbench", value_printed="")
        assert judge(row, 0.3, 0.1, recipe="as_stated")["verdict"] == "DASH"
        assert judge(row, None, recipe="as_stated", verdict="DASH")["verdict"] == "DASH"
        assert judge(row, 0.3, recipe="valid")["verdict"] == ""

    def test_given_verdicts(self) -> None:
        row = printed()
        assert judge(row, None, recipe="as_stated", verdict="STAND-IN", reason=HOLDS)["verdict"] == "STAND-IN"
        assert judge(row, 0.58, recipe="inferred", verdict="CALIBRATED")["recomputed"] == 0.58
        assert judge(row, 0.58, recipe="as_stated", verdict="INPUT")["verdict"] == "INPUT"
        missing = "needs a GPU: dprepro run --profile paper"
        not_run = judge(row, None, recipe="as_stated", verdict="NOT-RUN", reason=missing)
        assert math.isnan(not_run["recomputed"])
        assert not_run["reason"] == missing

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"recomputed": math.nan}, "recomputed must be a number"),
            ({"recomputed": None}, "recomputed must be a number"),
            ({"recomputed_se": math.nan}, "recomputed_se must be in \\[0, inf\\)"),
            ({"recomputed_se": -0.1}, "recomputed_se must be in \\[0, inf\\)"),
            ({"recomputed_se": math.inf}, "recomputed_se must be in \\[0, inf\\)"),
            ({"recipe": ""}, "recipe must be"),
            ({"recipe": "as stated"}, "recipe must be"),
            ({"recipe": " "}, "recipe must be"),
            ({"verdict": "OK"}, "STAND-IN, CALIBRATED, INPUT, DASH, NOT-RUN"),
            ({"verdict": "PASS"}, "MATCH, PASS, FAIL, CONTRADICTED are computed"),
            ({"verdict": "DASH"}, "DASH where a dash was printed"),
            ({"verdict": "INPUT", "recipe": "valid"}, "verdict must be None under valid"),
            ({"verdict": "NOT-RUN", "reason": "no GPU"}, "recomputed be None"),
            ({"verdict": "NOT-RUN", "recomputed": None}, "reason must say what is missing"),
            ({"ceiling": math.nan}, "ceiling must be finite"),
            ({"ceiling": 1.0, "recipe": "valid"}, "ceiling must be finite and go with"),
            ({"ceiling": 1.0, "verdict": "INPUT"}, "ceiling must be finite and go with"),
            ({"printed_row": {"value": 1.0}}, "printed_row must be a row of load_reported"),
        ],
    )
    def test_bad_arguments(self, changes: dict, says: str) -> None:
        arguments = {"printed_row": printed(), "recomputed": 0.5, "recipe": "as_stated", **changes}
        with pytest.raises(ValueError, match=says):
            judge(**arguments)

    @pytest.mark.parametrize(
        ("reason", "missing"),
        [
            ("", "the id of a claim"),
            (HOLDS.replace("snapaudit-12", "snapaudit-99"), "the id of a claim"),
            (HOLDS.replace("snapaudit-12", "cape-01"), "the id of a claim of snapaudit"),
            (HOLDS.replace("n=2,000", "many"), "n="),
            (HOLDS.replace("n=2,000", "n=0"), "n="),
            (HOLDS.replace("effect=-0.31", ""), "effect="),
            (HOLDS.replace("[-0.4, -0.22]", ""), "low, high"),
            (HOLDS.replace("-0.31", "0.31"), "around the effect"),
            (HOLDS.replace("holds", "seems so"), "exactly one of"),
            (HOLDS + ", elsewhere it fails", "exactly one of"),
        ],
    )
    def test_a_stand_in_says_everything(self, reason: str, missing: str) -> None:
        with pytest.raises(ValueError, match=missing):
            judge(printed(), None, recipe="as_stated", verdict="STAND-IN", reason=reason)

    @given(
        st.integers(-500, 500),
        st.floats(-3, 3),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from([("sd of 5 runs", "0.3"), ("95 % half-width, 10 runs", "0.3"), ("", "")]),
    )
    def test_symmetric_and_monotone(
        self, hundredths: int, shift: float, error: float, more: float, spread: tuple[str, str]
    ) -> None:
        row = made(f"{hundredths / 100:.2f}", spread[1], spread[0])

        def accepts(distance: float, se: float) -> bool:
            found = judge(row, row["value"] + distance, se, recipe="as_stated")
            return found["verdict"] in ("MATCH", "PASS")

        tolerance = judge(row, 0.0, error, recipe="as_stated")["tolerance"]
        if abs(abs(shift) - tolerance) > 1e-12:  # within the last bits of the edge either answer is right
            assert accepts(shift, error) == accepts(-shift, error) == (abs(shift) < tolerance)
        if accepts(shift, error):
            assert accepts(shift, error + more)
            assert accepts(shift * (1 - more), error)


class TestChance:
    """Five runs around the truth, mean and sd printed with `unit`, judged against the truth."""

    @staticmethod
    def simulate(n: int, sd: float, unit: float, error: float, runs: int = 5) -> tuple[int, float]:
        rng = np.random.default_rng(20)
        draws = rng.normal(3, sd, (n, runs))
        kind = "sd of 5 runs" if runs == 5 else "95 % half-width, 10 runs"
        spread = draws.std(axis=1, ddof=1) * (1 if runs == 5 else 2.262157 / math.sqrt(10))
        place = round(-math.log10(unit))
        frame = pd.DataFrame(
            {
                "value": draws.mean(axis=1).round(place),
                "spread": spread,
                "spread_is": kind,
                "unit": unit,
                "column": "c",
                "recomputed_se": error,
            }
        )
        recomputed = 3 + rng.normal(0, 1, n) * error
        frame["verdict"] = [
            verdicts.decide(row, value, error).verdict
            for row, value in zip(frame.to_dict("records"), recomputed, strict=True)
        ]
        return int((frame["verdict"] == "FAIL").sum()), verdicts.chance_fails(frame)

    @pytest.mark.parametrize(
        ("sd", "unit", "error", "runs"),
        [
            (1.0, 1e-3, 0.0, 5),
            (1.0, 1e-3, 0.0, 10),
            (1.0, 1e-3, 0.45, 5),
            (1.0, 1e-3, 3.0, 5),
            (1.0, 0.1, 0.0, 5),
        ],
    )
    def test_against_simulation(self, sd: float, unit: float, error: float, runs: int) -> None:
        n = 8_000
        fails, expected = self.simulate(n, sd, unit, error, runs)
        share = expected / n
        assert abs(fails - expected) < 3.2905 * math.sqrt(n * share * (1 - share))  # 99.9 %

    def test_known_tails(self) -> None:
        row = judge(made("0.5800", "0.1600", "sd of 5 runs"), 0.58, recipe="inferred")
        ten = judge(made("43.275", *TEN), 43.0, recipe="inferred")
        simulated = judge(made("0.6000"), 0.6, 0.1, recipe="inferred")
        # Two-sided tails beyond 2 of Student t with 4 and 9 degrees of freedom and of the normal (tables).
        for found, tail in ((row, 0.1161), (ten, 0.0766), (simulated, 0.0455)):
            assert claims.chance_fails(pd.DataFrame([found])) == pytest.approx(tail, abs=2e-3)

    def test_what_cannot_fail_by_chance(self) -> None:
        rows = [
            judge(made("0.60"), 0.9, recipe="as_stated"),
            judge(made("0.05", column="an upper bound"), 0.04, 0.01, recipe="as_stated"),
            judge(made("0.58", *FIVE), 0.5, recipe="valid"),
            judge(made("2.52", "0.00", "sd of 5 runs"), 2.52, recipe="as_stated"),
        ]
        assert claims.chance_fails(pd.DataFrame(rows)) == 0
        assert claims.chance_fails(pd.DataFrame(rows)[:0]) == 0


class TestClaims:
    def test_a_row(self) -> None:
        row = judge_claim("cape-05", "HOLDS", 0.004, 0.004, 0.004, 50_000, "exact mass of ten tokens")
        assert (row["id"], row["paper"], row["verdict"], row["n"]) == ("cape-05", "cape", "HOLDS", 50_000)
        assert row["claim"].startswith("The plain exponential mechanism")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("cape-99", "HOLDS", 0.0, 0.0, 0.0, 1), "id must be one of"),
            (("cape-05", "holds", 0.0, 0.0, 0.0, 1), "outcome must be one of 'HOLDS', 'FAILS', 'UNDECIDED'"),
            (("cape-05", "NOT-RUN", 0.0, 0.0, 0.0, 1), "outcome must be one of"),
            (("cape-05", "HOLDS", 2.0, 0.0, 1.0, 1), "effect must lie in"),
            (("cape-05", "HOLDS", math.nan, 0.0, 1.0, 1), "effect must lie in"),
            (("cape-05", "HOLDS", 0.5, 0.0, math.nan, 1), "effect must lie in"),
            (("cape-05", "HOLDS", 0.5, 0.0, 1.0, 0), "n must be"),
            (("cape-05", "HOLDS", 0.5, 0.0, 1.0, 2.5), "n must be"),
        ],
    )
    def test_bad_arguments(self, arguments: tuple, says: str) -> None:
        with pytest.raises(ValueError, match=says):
            judge_claim(*arguments)


class TestSave:
    @pytest.fixture(autouse=True)
    def out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DPREPRO_OUT", str(tmp_path / "out"))

    def test_rows_come_back_as_they_were(self, tmp_path: Path) -> None:
        dash = printed("synbench", value_printed="")
        rows = [
            judge(printed(), 0.1 + 0.2, 1 / 3, recipe="inferred", reason='commas, "quotes"\nand lines'),
            judge(printed(), None, recipe="as_stated", verdict="STAND-IN", reason=HOLDS),
            judge(printed("synbench", epsilon=math.inf), math.inf, recipe="valid"),
            judge(dash, 0.2, recipe="as_stated"),
        ]
        path = claims.save(rows)
        assert path == tmp_path / "out" / "rows.csv"
        back = read_rows(path, LEDGER)
        pd.testing.assert_frame_equal(
            back[list(rows[0])], pd.DataFrame(rows), check_dtype=False, check_exact=True
        )
        assert claims.save(back) == path

    def test_the_file_keeps_the_printed_digits(self) -> None:
        rows = [judge(printed("synbench", value_printed="0.60"), 0.6, recipe="as_stated")]
        assert ",0.60," in claims.save(rows).read_text()

    def test_one_number_twice(self) -> None:
        row = judge(printed(), 0.5, recipe="as_stated")
        with pytest.raises(
            ValueError, match=r"twice snapaudit/table1: AGNews \| Black-PV .*recipe as_stated"
        ):
            claims.save([row, judge(printed(), 0.5, recipe="inferred"), row])

    def test_rows_of_something_else(self) -> None:
        for rows in ([], [{"value": 1.0}]):
            with pytest.raises(ValueError, match="rows must be rows of judge"):
                claims.save(rows)

    def test_claims(self, tmp_path: Path) -> None:
        row = judge_claim("cape-05", "HOLDS", 0.004, 0.003, 0.005, 7, "r")
        back = read_rows(claims.save_claims([row]), list(row))
        assert back.iloc[0].to_dict() == row
        with pytest.raises(ValueError, match="got twice cape-05"):
            claims.save_claims([row, row])


@pytest.fixture
def reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data/reported."""
    folder = tmp_path / "data" / "reported"
    folder.mkdir(parents=True)
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    return folder
