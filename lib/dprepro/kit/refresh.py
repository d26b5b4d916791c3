"""What the repository stores of a run: outputs in the notebooks, figures/, the headline in README.md.

All of it comes from accepted runs of the laptop profile, so it belongs to the committed parameters.
"""

import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from dprepro.base.kernel import KERNELSPEC, kernel_manager
from dprepro.base.paths import NOTEBOOKS, ROOT
from dprepro.base.store import write_atomic
from dprepro.kit import batch

HEADLINE = ("<!-- headline: written by `make notebooks` -->\n```text\n", "\n```\n<!-- end of headline -->")


def stored_outputs() -> None:
    """Write the outputs of the accepted laptop runs into the notebooks that they are runs of, and run the index.

    Raises
    ------
    ValueError
        If a notebook has no current laptop run.
    """
    runs = {run.name: run for run in batch.accepted("laptop") if run.current}
    for notebook in batch.discover():
        if notebook.name not in runs:
            raise ValueError(f"notebook {notebook.name} has no current laptop run: run `dprepro run` first")
        executed = nbformat.read(runs[notebook.name].notebook, as_version=4)
        _store(notebook.path, {cell["id"]: cell for cell in executed.cells if cell.cell_type == "code"})
    index = NOTEBOOKS / "index.ipynb"
    opened = nbformat.read(index, as_version=4)
    with tempfile.TemporaryDirectory() as private:
        client = NotebookClient(opened, km=kernel_manager(Path(private)), timeout=120, record_timing=False)
        client.execute(cwd=str(NOTEBOOKS))
    _store(index, {cell["id"]: cell for cell in opened.cells if cell.cell_type == "code"})


def _store(path: Path, executed: dict[str, nbformat.NotebookNode]) -> None:
    # Only outputs and counts are taken over: times, durations and papermill's own notes change with each run.
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = executed[cell["id"]].outputs
            cell.execution_count = executed[cell["id"]].execution_count
    notebook.metadata = {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    write_atomic(path, nbformat.writes(notebook) + "\n")


def collect_figures(target: Path) -> None:
    """Copy the figures of all accepted laptop runs to `target`, which is emptied of other figures first."""
    for old in [
        path for path in target.rglob("*") if path.suffix in (".csv", ".json", ".pdf", ".png", ".svg")
    ]:
        old.unlink()
    for run in batch.accepted("laptop"):
        if (run.folder / "figures").is_dir():
            shutil.copytree(run.folder / "figures", target, dirs_exist_ok=True)


def readme_headline(text: str) -> None:
    """Write the ledger's headline between its two marks in README.md."""
    path = ROOT / "README.md"
    before, _, after = split_readme(path.read_text(encoding="utf-8"))
    write_atomic(path, f"{before}{HEADLINE[0]}{text}{HEADLINE[1]}{after}")


def split_readme(readme: str) -> tuple[str, str, str]:
    """Return what stands before, in and after the headline of README.md.

    Raises
    ------
    ValueError
        If the marks are not there, once each and in order.
    """
    start, end = readme.find(HEADLINE[0]), readme.find(HEADLINE[1])
    if start < 0 or end < start:
        raise ValueError(f"README.md must hold the marks {HEADLINE[0]!r} and {HEADLINE[1]!r} of its headline")
    return readme[:start], readme[start + len(HEADLINE[0]) : end], readme[end + len(HEADLINE[1]) :]
