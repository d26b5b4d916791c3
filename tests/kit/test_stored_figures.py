"""Each stored figure is what its numbers draw, fits a page of a venue, and needs no colour to be read."""

import functools
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dprepro.base.paths import FIGURES
from dprepro.kit import figures
from dprepro.kit.plots import CYCLE, PLOTS, REFERENCES_DRAWN

NAMES = sorted(str(path.relative_to(FIGURES).with_suffix("")) for path in FIGURES.rglob("*.json"))
VENUES = {"icml2024": 3.25, "neurips2024": 5.5}  # width of a column in inches
SLACK = 0.015  # inches


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    return shutil.copytree(FIGURES, tmp_path_factory.mktemp("copies") / "figures")


class Page(NamedTuple):
    """A drawn figure: its size in inches and each text with its box in inches."""

    width: float
    height: float
    texts: list[tuple[str, Bbox]]


class Stored(NamedTuple):
    """A stored figure drawn again: its name, the picture, the series of each axes, and a page a venue."""

    name: str
    picture: Path
    series: list[list[tuple[str, str, str]]]
    pages: dict[str | None, Page]


def page(canvas):
    """Measure a figure whose ticks and labels are in place, at the resolution it was drawn with."""
    figure, renderer = canvas.figure, canvas.get_renderer()
    hidden = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
        if not (
            axes.axison and min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        )
    }
    boxes = [
        (text.get_text(), Bbox(text.get_window_extent(renderer).get_points() / figure.dpi))
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]
    return Page(*figure.get_size_inches(), boxes)


def looks(axes):
    """Label, mark and line of each series."""
    handles, labels = axes.get_legend_handles_labels()
    lines = [getattr(handle, "lines", [handle])[0] for handle in handles]  # of an error bar: its line
    return [
        (label, line.get_marker(), line.get_linestyle()) for label, line in zip(labels, lines, strict=True)
    ]


@pytest.fixture(scope="module", params=NAMES)
def stored(request, copies):
    """One drawing of a figure serves all that is asked of it, and those for the venues are not painted."""
    series, pages, paint = [], {}, FigureCanvasAgg.print_png

    @functools.wraps(paint)  # Matplotlib looks at the signature
    def print_png(canvas, *arguments, **options):
        paint(canvas, *arguments, **options)
        series.extend(map(looks, canvas.figure.axes))
        pages[None] = page(canvas)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FigureCanvasAgg, "print_png", print_png)
        picture = figures.redraw(request.param, copies, "png")

        for venue in VENUES:

            def lay_out(figure, *_, venue=venue, **__):
                canvas = FigureCanvasAgg(figure)
                figure.draw_without_rendering()
                pages[venue] = page(canvas)

            patch.setattr(Figure, "savefig", lay_out)
            figures.redraw(request.param, copies, "png", venue)
    return Stored(request.param, picture, series, pages)


def difference(one, other):
    """Root mean square over the pixels, of values in [0, 1]; infinite where the sizes differ."""
    pictures = [matplotlib.image.imread(path)[..., :3] for path in (one, other)]
    if pictures[0].shape != pictures[1].shape:
        return np.inf
    return float(np.sqrt(np.mean((pictures[0] - pictures[1]) ** 2)))


def test_the_stored_picture_is_what_its_numbers_draw(stored):
    assert difference(FIGURES / f"{stored.name}.png", stored.picture) < 1e-3


def test_a_moved_number_is_another_picture(copies, tmp_path):
    name = "snapaudit/table4_floor"
    folder = shutil.copytree(copies, tmp_path / "figures")
    numbers = pd.read_csv(folder / f"{name}.csv")
    numbers.loc[numbers.index[0], "value"] *= 1.02
    numbers.to_csv(folder / f"{name}.csv", index=False)
    assert difference(FIGURES / f"{name}.png", figures.redraw(name, folder, "png")) > 1e-3


def test_a_page_holds_all_that_is_written(stored):
    assert set(stored.pages) == {None, *VENUES}
    for venue, drawn in stored.pages.items():
        assert venue is None or drawn.width == pytest.approx(VENUES[venue])
        cut = [
            text
            for text, box in drawn.texts
            if box.width > 0
            and (
                min(box.x0, box.y0) < -SLACK or box.x1 > drawn.width + SLACK or box.y1 > drawn.height + SLACK
            )
        ]
        assert cut == [], f"{stored.name} at {venue}"


def test_no_two_series_differ_in_colour_alone(stored):
    for series in stored.series:
        assert len({(mark, line) for _, mark, line in series}) == len(series), f"{stored.name}: {series}"


def test_more_series_than_can_be_told_apart_are_refused():
    rows = [(f"s{number}", 0.0, float(number)) for number in range(len(CYCLE) + 1)]
    numbers = pd.DataFrame(rows, columns=["series", "x", "y"])
    with pytest.raises(ValueError, match="numbers must have at most 5 series, got s0, .*s5"):
        PLOTS["curves"](Figure(), numbers, x="x", y="y")
    numbers = pd.DataFrame(
        [(f"exact {number}", "a", 1.0) for number in range(len(REFERENCES_DRAWN) + 1)],
        columns=["series", "label", "value"],
    )
    with pytest.raises(ValueError, match="at most 3 references"):
        PLOTS["dots"](Figure(), numbers, x="x")


def test_every_figure_names_a_plot_and_has_its_files():
    for name in NAMES:
        assert json.loads((FIGURES / f"{name}.json").read_text())["plot"] in PLOTS
        for ending in ("csv", "pdf", "png"):
            assert (FIGURES / f"{name}.{ending}").is_file(), f"{name}.{ending}"
