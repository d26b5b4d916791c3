"""The rows of the ledger as files: columns, exact digits, and errors that name the line.

A printed number keeps the digits it was printed with ("0.60", a unit of .01), because its last digit says
how far it was rounded. So a row holds them as text (`value_printed`) beside the float (`value`), a file
holds the text, and both come back when it is read.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pandas as pd

from dprepro.base import store
from dprepro.base.tabular import read_records
from dprepro.kit.verdicts import NUMBER, SPREADS

PRINTED = ["paper", "table", "row", "column", "epsilon", "value", "spread", "spread_is", "source"]
DIGITS = ["value_printed", "spread_printed", "unit", "spread_unit"]
RECOMPUTED = ["recomputed", "recomputed_se", "recipe", "tolerance", "tolerance_from"]
RECOMPUTED += ["verdict", "reason", "notebook"]
LEDGER = PRINTED + RECOMPUTED
CLAIM = ["id", "paper", "claim", "test"]
CLAIM_JUDGED = ["verdict", "effect", "low", "high", "n", "reason", "notebook"]
CLAIM_LEDGER = CLAIM + CLAIM_JUDGED
SOURCES = ("summary-table", "summary-text", "public-code")

_FLOATS = {"epsilon", "value", "spread", "recomputed", "recomputed_se", "tolerance"}
_FLOATS |= {"effect", "low", "high", "n"}


def read_printed(path: Path) -> pd.DataFrame:
    """Read one file of printed numbers; ValueError names the first malformed line."""
    found = read_records(path, PRINTED)
    for line, record in found:
        if problem := _problem(record, path.stem):
            raise ValueError(f"{path}, line {line}: {problem}")
    frame = _with_floats([record for _, record in found], PRINTED)
    seen: dict[str, int] = {}
    for (line, _), key in zip(found, number_key(frame), strict=True):
        if key in seen:
            raise ValueError(f"{path}, line {line}: the same number as in line {seen[key]}, {key}")
        seen[key] = line
    return frame


def read_claims(path: Path) -> pd.DataFrame:
    """Read the claims in words; ValueError names the first malformed line."""
    found = {}
    for line, record in read_records(path, CLAIM):
        name, paper, *_ = record
        if not all(record) or not name.startswith(f"{paper}-") or name in found:
            raise ValueError(
                f"{path}, line {line}: needs an id <paper>-<number> of its own and no empty field"
            )
        found[name] = record
    return pd.DataFrame(found.values(), columns=CLAIM)


def read_rows(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read what `write_rows` wrote: numbers as floats, printed digits beside them, the rest as text."""
    return _with_floats([record for _, record in read_records(path, columns)], columns)


def write_rows(path: Path, frame: pd.DataFrame, columns: Sequence[str]) -> Path:
    """Write rows as CSV, whole or not at all: printed numbers with the digits they were printed with."""
    text = frame.copy()
    if "value" in columns:
        text["value"], text["spread"] = text["value_printed"], text["spread_printed"]
        text["epsilon"] = text["epsilon"].map(_short)
    store.write_atomic(path, text.to_csv(columns=list(columns), index=False, lineterminator="\n"))
    return path


def number_key(frame: pd.DataFrame) -> pd.Series:
    """Return for each row which printed number it is about, in words that can stand in an error message."""
    place = frame["paper"] + "/" + frame["table"] + ": " + frame["row"] + " | " + frame["column"]
    return place + " | epsilon " + frame["epsilon"].map(_short)


def _short(epsilon: float) -> str:
    return "" if pd.isna(epsilon) else f"{epsilon:g}"


def _with_floats(records: Sequence[Sequence[str]], columns: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(records, columns=list(columns), dtype=str)
    if "value" in columns:
        frame["value_printed"], frame["spread_printed"] = frame["value"], frame["spread"]
        frame["unit"] = frame["value"].map(_unit).astype(float)
        frame["spread_unit"] = frame["spread"].map(_unit).astype(float)
    for name in _FLOATS.intersection(columns):
        frame[name] = frame[name].replace("", "nan").astype(float)
    return frame


def _unit(text: str) -> float:
    """Return the place of the last digit: .01 for "0.60", 1e5 for "10.7e6", NaN for ""."""
    return float(f"1e{Decimal(text).as_tuple().exponent}") if text else float("nan")


def _is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text) is not None


def _problem(record: Sequence[str], paper: str) -> str:
    """Return what is wrong with a record of printed numbers, "" if nothing."""
    field = dict(zip(PRINTED, record, strict=True))
    for name in ("table", "row", "column"):
        if not field[name].strip():
            return f"{name} must not be empty"
    for name in ("value", "spread"):
        if field[name] and not _is_number(field[name]):
            return f"{name} must be a number or empty, got {field[name]!r}"
    if field["paper"] != paper:
        return f"paper must be {paper}, the name of the file, got {field['paper']!r}"
    epsilon = field["epsilon"]
    if epsilon not in ("", "inf") and (not _is_number(epsilon) or float(epsilon) < 0):
        return f"epsilon must be a number >= 0, inf or empty, got {epsilon!r}"
    if field["spread"] and (not field["value"] or float(field["spread"]) < 0):
        return f"spread must be >= 0 and stand beside a value, got {field['spread']!r}"
    if field["spread_is"] not in (SPREADS if field["spread"] else ("",)):
        known = ", ".join(map(repr, SPREADS))
        return f"spread_is must be one of {known} beside a spread, else empty, got {field['spread_is']!r}"
    if field["source"] not in SOURCES:
        return f"source must be one of {', '.join(SOURCES)}, got {field['source']!r}"
    return ""
