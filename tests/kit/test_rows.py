"""Files of rows."""

import json
from pathlib import Path

from dprepro.kit.rows import read_rows


def test_rows_with_numbers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,effect\na,\nb,inf\nc,2\n")
    assert json.dumps(read_rows(path, ["id", "effect"])["effect"].tolist()) == "[NaN, Infinity, 2.0]"
