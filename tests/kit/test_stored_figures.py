"""Each stored figure is what its numbers draw, fits a page of a venue, and needs no colour to be read."""

import json
import shutil

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from dprepro.base.paths import FIGURES
from dprepro.kit import figures
from dprepro.kit.plots import CYCLE, PLOTS, REFERENCES_DRAWN

NAMES = sorted(str(path.relative_to(FIGURES).with_suffix("")) for path in FIGURES.rglob("*.json"))
PAGES = {(None, "single"): None, ("icml2024", "single"): 3.25, ("neurips2024", "single"): 5.5}
SLACK = 1.5  # pixels of 100 an inch


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    return shutil.copytree(FIGURES, tmp_path_factory.mktemp("copies") / "figures")


@pytest.fixture
def drawn(monkeypatch):
    """Figures that were to be saved, drawn instead, with the box of each text; the latest last."""
    found = []

    def draw(figure, *_, **__):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        hidden = {
            label
            for axes in figure.axes
            for axis in (axes.xaxis, axes.yaxis)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
            for label in (tick.label1, tick.label2)
            if not (
                axes.axison
                and min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
            )
        }
        boxes = {
            text.get_text(): text.get_window_extent(canvas.get_renderer())
            for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip() and text not in hidden
        }
        found.append((figure, boxes))

    monkeypatch.setattr(Figure, "savefig", draw)
    return found


def difference(one, other):
    """Root mean square over the pixels, of values in [0, 1]; infinite where the sizes differ."""
    pictures = [matplotlib.image.imread(path)[..., :3] for path in (one, other)]
    if pictures[0].shape != pictures[1].shape:
        return np.inf
    return float(np.sqrt(np.mean((pictures[0] - pictures[1]) ** 2)))


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_picture_is_what_its_numbers_draw(name, copies):
    assert difference(FIGURES / f"{name}.png", figures.redraw(name, copies, "png")) < 1e-3


def test_a_moved_number_is_another_picture(copies, tmp_path):
    name = "snapaudit/table4_floor"
    folder = shutil.copytree(copies, tmp_path / "figures")
    numbers = pd.read_csv(folder / f"{name}.csv")
    numbers.loc[numbers.index[0], "value"] *= 1.02
    numbers.to_csv(folder / f"{name}.csv", index=False)
    assert difference(FIGURES / f"{name}.png", figures.redraw(name, folder, "png")) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_page_holds_all_that_is_written(name, copies, drawn):
    for (venue, column), inches in PAGES.items():
        figures.redraw(name, copies, "png", venue, column)
        figure, boxes = drawn.pop()
        width, height = figure.get_size_inches() * figure.dpi
        assert inches is None or width == pytest.approx(inches * figure.dpi)
        cut = [
            text
            for text, box in boxes.items()
            if box.width > 0
            and (min(box.x0, box.y0) < -SLACK or box.x1 > width + SLACK or box.y1 > height + SLACK)
        ]
        assert cut == [], f"{name} at {venue}, {column}"


@pytest.mark.parametrize("name", NAMES)
def test_no_two_series_differ_in_colour_alone(name, copies, monkeypatch):
    made = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: made.append(figure))
    figures.redraw(name, copies, "png")
    for axis in made.pop().axes:
        handles, labels = axis.get_legend_handles_labels()
        lines = [getattr(handle, "lines", [handle])[0] for handle in handles]  # of an error bar: its line
        looks = [(line.get_marker(), line.get_linestyle()) for line in lines]
        assert len(set(looks)) == len(looks), f"{name}: {dict(zip(labels, looks, strict=True))}"


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
