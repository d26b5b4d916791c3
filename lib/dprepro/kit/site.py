"""The site: the ledger, its notebooks and figures as static pages in build/site.

The pages need no server, no script and no network: whoever has the folder can read them. The script in the index
only hides rows. `build` writes the site beside the old one and then changes places, so a reader never meets half
of it.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dprepro.base import paths
from dprepro.base.store import locked, write_atomic
from dprepro.kit import claims, site_ledger, site_notebooks, tables
from dprepro.kit.ledger_views import SOURCES, TITLES, headline_values
from dprepro.kit.site_notebooks import STATES, Source

DOWNLOADS = ("pdf", "png", "csv", "tex")


def build() -> Path:
    """Write the site from the last laptop run, or from what the repository stores where there is none.

    Returns
    -------
    Path
        Its index.html.

    Raises
    ------
    ValueError
        For notebooks that the batch refuses too.
    OSError
        If the build folder cannot be written.
    BlockingIOError
        If another process is writing the site.
    """
    final = paths.build_dir() / "site"
    with locked(final.with_name(".site.lock"), f"another process is writing {final}"):
        folder = final.with_name(".site.tmp")
        shutil.rmtree(folder, ignore_errors=True)
        _write(folder, site_notebooks.sources())
        shutil.rmtree(final, ignore_errors=True)
        os.replace(folder, final)
    return final / "index.html"


def _write(folder: Path, sources: Sequence[Source]) -> None:
    environment = Environment(
        loader=PackageLoader("dprepro.kit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["slug"] = lambda text: "-".join(text.lower().split())
    environment.globals |= {"sources": SOURCES, "titles": TITLES, "states": STATES}

    def page(template: str, target: str, **values: Any) -> None:
        root = "../" * target.count("/")
        text = environment.get_template(template).render(root=root, target=target, **values)
        write_atomic(folder / target, text)

    by_name = {source.name: source for source in sources}
    ledger = claims.load_ledger()
    write_atomic(folder / "style.css", environment.get_template("site.css").render())
    page(
        "site_index.html",
        "index.html",
        entries=site_ledger.entries(ledger, by_name),
        strips=site_ledger.strips(ledger),
        **headline_values(ledger),
        run=(paths.build_dir() / "ledger.csv").exists(),
    )
    claim_lines = site_ledger.claim_lines(claims.load_claim_ledger(), by_name)
    page("site_claims.html", "claims.html", claims=claim_lines)
    page("site_notebooks.html", "notebooks.html", notebooks=sources)
    page(
        "site_figures.html",
        "figures.html",
        figures=_figures(folder, sources),
        tables=_tables(folder, ledger),
    )
    page("site_run.html", "run.html", notebooks=sources)
    render = site_notebooks.renderer()
    for source in sources:
        page("site_notebook.html", source.address(), source=source, body=render(source.notebook))


def _figures(folder: Path, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Copy the figures, stored ones first, so that those of the run replace them; add their numbers as LaTeX."""
    for origin in [paths.FIGURES, *(source.figures for source in sources if source.figures)]:
        shutil.copytree(origin, folder / "figures", dirs_exist_ok=True)
    found = []
    for path in sorted((folder / "figures").rglob("*.png")):
        name = path.relative_to(folder / "figures").with_suffix("").as_posix()
        numbers = pd.read_csv(path.with_suffix(".csv"))
        written = numbers.style.hide(axis="index").format(escape="latex", precision=4, na_rep="")
        written = written.format_index(escape="latex", axis="columns")
        write_atomic(path.with_suffix(".tex"), written.to_latex(hrules=True))
        drawn = [
            source for source in sources if f'"{name}"' in "".join(c.source for c in source.notebook.cells)
        ]
        cell = drawn[0].mentioning(f'"{name}"') if drawn else ""
        files = [(form.upper(), f"figures/{name}.{form}") for form in DOWNLOADS]
        found.append({"name": name, "cell": cell, "files": files, "columns": list(numbers.columns)})
    return found


def _tables(folder: Path, ledger: pd.DataFrame) -> list[tuple[str, list[tuple[str, str]]]]:
    """Write each printed table beside what was recomputed, as CSV and LaTeX."""
    found = []
    for name in (ledger["paper"] + "/" + ledger["table"]).unique():
        files = []
        for form, ending in (("csv", "csv"), ("latex", "tex")):
            write_atomic(folder / "tables" / f"{name}.{ending}", tables.table(name, form, ledger))
            files.append((ending.upper(), f"tables/{name}.{ending}"))
        found.append((name, files))
    return found
