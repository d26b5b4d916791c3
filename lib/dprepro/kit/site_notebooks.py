"""Notebooks as pages that load nothing from elsewhere, and the cell of a notebook that shows a number.

A page is made from the executed notebook of the last laptop run, or from the stored one where there is no such
run. nbconvert renders the cells; formulas become MathML, which browsers draw themselves, in place of the script
that Jupyter fetches for them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat

from dprepro.kit.plan import Job, plan

STATES = {
    "executed": "Executed by the last laptop run.",
    "stale": "Executed by a laptop run before its inputs changed.",
    "stored": "Not in the last run: the outputs are those stored in the repository.",
    "bare": "Not executed yet: the notebook has no outputs.",
}


@dataclass(frozen=True)
class Source:
    """A notebook of the site: where its outputs come from (`state`, in STATES) and the manifest of its run."""

    job: Job
    state: str
    notebook: nbformat.NotebookNode
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Folder and stem, such as snapaudit/table1_classification."""
        return self.job.name

    @property
    def title(self) -> str:
        """The notebook's first heading."""
        text = "\n".join(cell.source for cell in self.notebook.cells if cell.cell_type == "markdown")
        found = re.search(r"^# +(.+)$", text, re.M)
        return found[1] if found else self.name

    @property
    def figures(self) -> Path | None:
        """The folder of the figures that its run left, None if it left none."""
        folder = self.job.path(".out") / "figures"
        return folder if self.manifest and folder.is_dir() else None

    def showing(self, *wanted: set[str]) -> str:
        """Return the address of the cell whose printed table has a line with all these entries.

        Parameters
        ----------
        *wanted : set of str
            Tried in turn. Entries are separated by two spaces or more, as `tabular.fixed_width` writes them.

        Returns
        -------
        str
            From the site's root. The cell that saves the rows if no line fits, the page's top if there is none.
        """
        for entries in wanted:
            for cell, line in self._lines:
                if entries <= line:
                    return self.address(cell)
        return self.mentioning("claims.save")

    def mentioning(self, text: str) -> str:
        """Return the address of the first code cell whose source holds `text`, of the page if none does."""
        cells = [cell for cell in self.notebook.cells if cell.cell_type == "code" and text in cell.source]
        return self.address(cells[0] if cells else None)

    def address(self, cell: nbformat.NotebookNode | None = None) -> str:
        """Return the address of the page, or of one cell of it, from the site's root."""
        page = f"notebooks/{quote(self.name)}.html"
        return page if cell is None else f"{page}#cell-id={quote(cell['id'])}"

    @cached_property
    def _lines(self) -> list[tuple[nbformat.NotebookNode, set[str]]]:
        return [
            (cell, set(re.split(r"\s{2,}", line.strip())))
            for cell in self.notebook.cells
            for output in cell.get("outputs", ())
            for line in (output.get("text") or output.get("data", {}).get("text/plain", "")).splitlines()
        ]


def sources() -> list[Source]:
    """Return all notebooks of the batch by name; ValueError as `plan.plan`."""
    found = []
    for job in plan("laptop"):
        manifest = job.manifest() or {}
        notebook = nbformat.read(job.path(".ipynb") if manifest else job.source, as_version=4)
        if manifest:
            state = "executed" if manifest["inputs"] == job.inputs else "stale"
        else:
            state = "stored" if any(cell.get("outputs") for cell in notebook.cells) else "bare"
        found.append(Source(job, state, notebook, manifest))
    return found


def renderer() -> Callable[[nbformat.NotebookNode], str]:
    """Return the function that turns a notebook into HTML: its cells, each with an id, and nothing around them."""
    # Imported here: it takes a second, which no other command need wait for.
    from latex2mathml.converter import convert
    from nbconvert import HTMLExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    def mathml(tex: str, display: str) -> str:
        try:
            return str(convert(tex, display=display))
        except Exception:  # its errors share no class; what it cannot read, a reader still can
            return f"<code>{escape(tex)}</code>"

    class Renderer(IPythonRenderer):
        def inline_math(self, body: str) -> str:
            return mathml(body, "inline")

        def block_math(self, body: str) -> str:
            return mathml(body, "block")

    def markdown(source: str) -> str:
        return str(MarkdownWithMath(Renderer(escape=False, exclude_anchor_links=True)).render(source))

    # clean_html strips what a stranger's notebook may hold, in more than half of the time; these are our own.
    filters = {"markdown2html": markdown, "clean_html": lambda html: html}
    exporter = HTMLExporter(template_name="basic", filters=filters)

    def render(notebook: nbformat.NotebookNode) -> str:
        for cell in notebook.cells:
            for output in cell.get("outputs", ()):
                if "image/png" in output.get("data", {}):
                    output.metadata["image/png"] = {"alt": f"Figure drawn by the cell {cell['id']}"}
        return str(exporter.from_notebook_node(notebook)[0])

    return render
