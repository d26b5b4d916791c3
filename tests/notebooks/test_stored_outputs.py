"""What the notebooks store, and that nbval compares it: three ways in which it passes without looking are shut."""

import json
import os
import re
import subprocess
import sys

import nbformat
import pytest

from dprepro.base.paths import NOTEBOOKS, ROOT
from dprepro.kit import batch, claims
from dprepro.kit.plan import check_structure, parameter_defaults, read_cells
from dprepro.kit.suite import NBVAL

TABLES = batch.discover()
ALL = [*(notebook.path for notebook in TABLES), NOTEBOOKS / "index.ipynb"]
# A path of a machine: a home folder, a drive, a temporary folder, or the checkout itself.
MACHINE = re.compile(r"(/(home|root|Users|tmp|work|mnt|private|var)/|[A-Z]:\\\\)")


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def tagged(cells):
    return [cell for cell in cells if "nbval-check-output" in cell.metadata.get("tags", [])]


def run_nbval(path):
    command = [sys.executable, "-m", "pytest", str(path), *NBVAL, "-q", "--rootdir", str(path.parent)]
    # A run of its own, not part of the one whose coverage is measured.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPCOVER")}
    return subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False
    )


def test_there_are_notebooks():
    assert TABLES


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_stored_outputs_belong_to_a_complete_run(path):
    cells = code_cells(path)
    counts = [cell.execution_count for cell in cells]
    # Guard 1: nbval compares nothing in a cell without an execution count.
    assert counts == list(range(1, len(cells) + 1)), "run `python -m dprepro notebooks`"
    for cell in cells:
        assert not any(output.output_type == "error" for output in cell.outputs)


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_a_cell_with_output_is_compared(path):
    # Guard 2: --nbval-lax compares tagged cells alone.
    assert any(cell.outputs for cell in tagged(code_cells(path)))


def test_no_sanitizer_can_swallow_numbers():
    # Guard 3: a sanitizer replaces what it matches before comparing.
    settings = " ".join(NBVAL) + (ROOT / "pyproject.toml").read_text()
    assert "sanitize" not in settings


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_no_path_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert str(ROOT) not in text
    for cell in json.loads(text)["cells"]:
        for output in cell.get("outputs", []):
            shown = json.dumps({k: v for k, v in output.get("data", output).items() if k != "image/png"})
            assert not MACHINE.search(shown), MACHINE.search(shown)


@pytest.mark.parametrize("notebook", TABLES, ids=lambda n: n.name)
def test_structure(notebook):
    cells = read_cells(notebook.path)
    check_structure(notebook.name, cells)
    assert "seed" in parameter_defaults(notebook.name, cells)
    title = cells[0].source
    assert cells[0].kind == "markdown"
    assert title.startswith("# ")
    assert "arxiv.org" in title or "github.com" in title


@pytest.mark.parametrize("notebook", TABLES, ids=lambda n: n.name)
def test_cells_stay_short(notebook):
    for cell in read_cells(notebook.path):
        if cell.kind == "code":
            assert cell.source.count("\n") < 30, "longer code belongs in lib"


# Numbers of the running text that notebooks of tables judge (SynBench's: tables 2, 3 and 5).
ELSEWHERE = {
    ("retidp", "text"): "table1_scenarios",
    ("cape", "text"): "table3_privacy",
    ("synbench", "text"): "table5_outlier_membership",
}


@pytest.mark.parametrize("paper", ["snapaudit", "retidp", "synbench", "cape", "lesson"])
def test_every_table_has_a_notebook(paper):
    names = {notebook.name for notebook in TABLES}
    for table in claims.load_reported(paper)["table"].unique():
        start = f"{paper}/{ELSEWHERE.get((paper, table), f'{table}_')}"
        assert any(name.startswith(start) for name in names), table


def test_a_changed_number_turns_nbval_red(tmp_path):
    quick = next(notebook for notebook in TABLES if notebook.name == "snapaudit/text_numbers")
    notebook = nbformat.read(quick.path, as_version=4)
    cell = next(cell for cell in notebook.cells if "verdict" in cell["id"] and cell.get("outputs"))
    text = cell.outputs[0]["text"]
    place = re.search(r"\d\.\d", text).start()
    changed = str((int(text[place]) + 1) % 10)
    cell.outputs[0]["text"] = text[:place] + changed + text[place + 1 :]
    nbformat.write(notebook, tmp_path / "mutated.ipynb")
    result = run_nbval(tmp_path / "mutated.ipynb")
    assert result.returncode == 1, result.stdout[-2000:]
    assert "1 failed" in result.stdout, result.stdout[-2000:]
