"""Figures that can be drawn again: saved with the numbers they show and the name of the plot that shows them.

A notebook calls `save`; ``dprepro figure NAME`` draws the same numbers again in another format. Files are
byte-stable for one version of matplotlib (no creation date, fixed ids in SVG), fonts are embedded as TrueType,
and LaTeX is never needed.
"""

import inspect
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from IPython.display import Image
from matplotlib.figure import Figure

from dprepro.base.check import one_of
from dprepro.base.paths import FIGURES, output_dir
from dprepro.base.store import write_atomic
from dprepro.kit.plots import PLOTS

FORMATS = ("pdf", "png", "svg")
STYLE: Any = {  # matplotlib types its settings by a list of all their names
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "legend.frameon": False,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "dprepro",
    "text.usetex": False,
}


def save(name: str, numbers: pd.DataFrame, plot: str, **labels: str) -> Image:
    """Draw `numbers` and keep the figure (PDF, PNG) beside them (CSV) in the folder of this run.

    Parameters
    ----------
    name : str
        Such as ``"snapaudit/table1_audited_epsilon"``; files are ``figures/<name>.*`` in the output folder.
    numbers : DataFrame
        What is drawn, in the form that `plot` documents.
    plot : str
        A name in `dprepro.kit.plots.PLOTS`.
    **labels : str
        Axis labels and scales, as the plot names them.

    Returns
    -------
    IPython.display.Image
        The PNG, to stand as the last value of a notebook cell.

    Raises
    ------
    ValueError
        For an unknown plot, or numbers that it cannot draw.
    """
    one_of("plot", plot, tuple(PLOTS))
    folder = output_dir() / "figures"
    # What is drawn is what is saved: rounding first makes file and picture independent of the last bits.
    csv = numbers.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_atomic(folder / f"{name}.csv", csv)
    write_atomic(folder / f"{name}.json", json.dumps({"plot": plot, "labels": labels}) + "\n")
    for form in ("pdf", "png"):
        redraw(name, folder, form)
    return Image(data=(folder / f"{name}.png").read_bytes())


def redraw(
    name: str, folder: Path = FIGURES, form: str = "pdf", venue: str | None = None, column: str = "single"
) -> Path:
    """Draw a saved figure again from its numbers.

    Parameters
    ----------
    name : str
        As given to `save`.
    folder : Path
        Where its CSV and JSON lie, and where the file is written.
    form : {"pdf", "png", "svg"}
    venue : str, optional
        Such as "neurips2024" or "icml2024" (tueplots knows them): its column width and font sizes, and a file
        name that says so.
    column : {"single", "double"}
        One column or the whole text width; the same at venues with one column.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        For an unknown format, venue, column or figure; the message lists those there are.
    """
    one_of("format", form, FORMATS)
    if not (folder / f"{name}.json").is_file():
        known = sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.json"))
        raise ValueError(f"figure must be one of {known}, got {name!r}; `dprepro figures` redraws them all")
    saved = json.loads((folder / f"{name}.json").read_text())
    numbers = pd.read_csv(folder / f"{name}.csv")
    page = {} if venue is None else _page(venue, column)
    width = page["figure.figsize"][0] if page else None
    with mpl.rc_context(STYLE | {key: size for key, size in page.items() if key.endswith("size")}):
        figure = Figure(layout="constrained")
        PLOTS[saved["plot"]](figure, numbers, width=width, **saved["labels"])
        stream = BytesIO()
        date = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[form]
        figure.savefig(stream, format=form, dpi=120, metadata=date)
    target = folder / (f"{name}.{form}" if venue is None else f"{name}.{venue}-{column}.{form}")
    write_atomic(target, stream.getvalue())
    return target


def _page(venue: str, column: str) -> dict[str, Any]:
    """Return a venue's figure size and font sizes as matplotlib settings."""
    from tueplots import bundles

    known = sorted(name for name in dir(bundles) if re.fullmatch(r"[a-z]+20\d\d", name))
    bundle = getattr(bundles, one_of("venue", venue, known))
    wanted = {"single": "half", "double": "full"}[one_of("column", column, ("single", "double"))]
    two_columns = "column" in inspect.signature(bundle).parameters
    return dict(bundle(usetex=False, **({"column": wanted} if two_columns else {})))
