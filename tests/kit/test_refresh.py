"""What the repository stores of a run: outputs by cell, figures, the headline between its marks."""

from types import SimpleNamespace

import nbformat
import pytest

from dprepro.kit import refresh

MARKED = f"# Title\n\n{refresh.HEADLINE[0]}old{refresh.HEADLINE[1]}\n\nMore.\n"


def test_headline_is_written_between_its_marks(monkeypatch, tmp_path):
    (tmp_path / "README.md").write_text(MARKED)
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    refresh.readme_headline("new\nlines")
    text = (tmp_path / "README.md").read_text()
    assert refresh.split_readme(text) == ("# Title\n\n", "new\nlines", "\n\nMore.\n")
    refresh.readme_headline("new\nlines")
    assert (tmp_path / "README.md").read_text() == text


def test_a_readme_without_marks_is_refused():
    with pytest.raises(ValueError, match="README.md must hold the marks"):
        refresh.split_readme("# Title\n")


def notebook(outputs, count):
    cell = nbformat.v4.new_code_cell("print(1)", id="one", outputs=outputs, execution_count=count)
    cell.metadata["tags"] = ["nbval-check-output"]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# T", id="zero"), cell])


@pytest.fixture
def house(monkeypatch, tmp_path):
    source, executed = tmp_path / "notebooks" / "paper" / "t.ipynb", tmp_path / "build" / "t.ipynb"
    for path in (source, executed):
        path.parent.mkdir(parents=True)
    nbformat.write(notebook([], None), source)
    nbformat.write(notebook([], None), tmp_path / "notebooks" / "index.ipynb")
    run = notebook([nbformat.v4.new_output("stream", name="stdout", text="1\n")], 1)
    run.metadata["papermill"] = {"duration": 3.2, "input_path": "elsewhere"}
    run.cells[1].metadata["execution"] = {"iopub.busy": "now"}
    nbformat.write(run, executed)
    accepted = SimpleNamespace(name="paper/t", notebook=executed, folder=tmp_path / "out", current=True)
    monkeypatch.setattr(refresh, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(refresh.batch, "discover", lambda: [SimpleNamespace(name="paper/t", path=source)])
    monkeypatch.setattr(refresh.batch, "accepted", lambda profile: [accepted] if accepted.current else [])
    return SimpleNamespace(source=source, accepted=accepted, root=tmp_path)


def test_outputs_are_stored_without_times_and_paths(house):
    refresh.stored_outputs()
    stored = nbformat.read(house.source, as_version=4)
    assert stored.cells[1].outputs[0].text == "1\n"
    assert stored.cells[1].execution_count == 1
    assert stored.cells[1].metadata == {"tags": ["nbval-check-output"]}
    assert "papermill" not in stored.metadata
    index = nbformat.read(house.root / "notebooks" / "index.ipynb", as_version=4)
    assert index.cells[1].outputs[0].text == "1\n"


def test_storing_twice_changes_nothing(house):
    refresh.stored_outputs()
    first = house.source.read_bytes()
    refresh.stored_outputs()
    assert house.source.read_bytes() == first


def test_a_stale_run_is_not_stored(house):
    house.accepted.current = False
    with pytest.raises(ValueError, match="paper/t has no current laptop run"):
        refresh.stored_outputs()


def test_figures_replace_those_of_earlier_runs(house):
    (house.accepted.folder / "figures" / "paper").mkdir(parents=True)
    (house.accepted.folder / "figures" / "paper" / "new.pdf").write_bytes(b"new")
    target = house.root / "figures"
    (target / "paper").mkdir(parents=True)
    (target / "paper" / "old.pdf").write_bytes(b"old")
    (target / "README.md").write_text("kept")
    refresh.collect_figures(target)
    assert sorted(path.name for path in target.rglob("*.*")) == ["README.md", "new.pdf"]
