"""Figures: drawn from what is saved beside them, the same bytes each time, fonts embedded, clear errors."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest

from dprepro.kit import figures
from dprepro.kit.plots import PLOTS


@pytest.fixture(scope="module")
def curve():
    claimed = [1.0, 2.0, 4.0, 8.0, 16.0]
    rows = [
        {
            "panel": panel,
            "series": series,
            "epsilon": e,
            "audited": e * share,
            "error": error,
            "ceiling": e,
        }
        for panel in ("black box, active", "white box, active")
        for series, share, error in (
            ("printed", 0.97, 0.05),
            ("inferred", 0.96, np.nan),
            ("valid", 0.93, 0.0),
        )
        for e in claimed
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def numbers(curve):
    return curve.copy()


@pytest.fixture(scope="module")
def saved_once(curve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPREPRO_OUT", str(folder))
        image = figures.save("paper/curve", curve, "audited_against_claimed")
    assert image.data.startswith(b"\x89PNG")
    return folder / "figures"


@pytest.fixture
def saved(saved_once, tmp_path):
    """The folder of figures with the one that was saved, of each test its own."""
    return shutil.copytree(saved_once, tmp_path / "figures")


def test_saves_the_picture_and_its_numbers(saved, numbers):
    names = sorted(path.name for path in (saved / "paper").iterdir())
    assert names == ["curve.csv", "curve.json", "curve.pdf", "curve.png"]
    pd.testing.assert_frame_equal(
        pd.read_csv(saved / "paper" / "curve.csv"), numbers, rtol=1e-5, check_dtype=False
    )


@pytest.mark.parametrize("form", figures.FORMATS)
def test_redrawn_files_are_the_same_bytes(saved, form):
    first = figures.redraw("paper/curve", saved, form).read_bytes()
    assert figures.redraw("paper/curve", saved, form).read_bytes() == first
    if form in ("pdf", "png"):
        assert (saved / "paper" / f"curve.{form}").read_bytes() == first


def test_fonts_are_embedded_as_truetype_and_no_date_is_written(saved):
    pdf = (saved / "paper" / "curve.pdf").read_bytes()
    assert b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf


def test_a_redrawn_figure_follows_its_numbers(saved, numbers):
    before = (saved / "paper" / "curve.png").read_bytes()
    numbers.assign(audited=numbers["audited"] * 0.5).to_csv(saved / "paper" / "curve.csv", index=False)
    assert figures.redraw("paper/curve", saved, "png").read_bytes() != before


def test_the_plot_shows_every_number(numbers):
    from matplotlib.figure import Figure

    figure = Figure()
    PLOTS["audited_against_claimed"](figure, numbers)
    upper, lower = figure.axes[0], figure.axes[2]
    drawn = {line.get_label(): line for line in upper.containers}
    assert set(drawn) == {"printed", "inferred", "valid"}
    np.testing.assert_allclose(drawn["valid"].lines[0].get_ydata(orig=False), [0.93, 1.86, 3.72, 7.44, 14.88])
    np.testing.assert_allclose(lower.containers[2].lines[0].get_ydata(orig=False), [0.93] * 5)
    assert figure.legends[0].get_texts()[0].get_text() == "exact ceiling"


@pytest.mark.parametrize(
    ("plot", "columns", "labels"),
    [
        (
            "curves",
            {"series": ["a", "a", "exact"], "x": [1, 2, 1], "y": [3, 4, 5]},
            {"x": "calls a side", "y": "e", "xscale": "log"},
        ),
        (
            "curves",
            {
                "panel": ["p", "q"],
                "series": ["a", "a"],
                "x": [1, 2],
                "y": [3, 4],
                "low": [2, 3],
                "high": [4, 5],
            },
            {"x": "calls a side", "y": "e"},
        ),
        ("dots", {"label": ["one", "two"], "series": ["s", "t"], "value": [1, 2]}, {"x": "time in ms"}),
        (
            "dots",
            {"label": ["a", "a"], "series": ["s", "t"], "value": [1, 2], "low": [0, 2], "high": [3, 4]},
            {"x": "AUC"},
        ),
        ("dots", {"label": ["a", "b"], "series": ["s", "exact chance"], "value": [1, 2]}, {"x": "AUC"}),
    ],
)
def test_every_plot_draws_and_redraws(plot, columns, labels, monkeypatch, tmp_path):
    monkeypatch.setenv("DPREPRO_OUT", str(tmp_path))
    figures.save("p/f", pd.DataFrame(columns), plot, **labels)
    png = (tmp_path / "figures" / "p" / "f.png").read_bytes()
    assert figures.redraw("p/f", tmp_path / "figures", "png").read_bytes() == png
    assert labels["x"] in figures.redraw("p/f", tmp_path / "figures", "svg").read_text()


def test_words_are_ticks_and_five_panels_break_into_rows():
    from matplotlib.figure import Figure

    figure, words = Figure(), ["0.5", "4", "inf."]
    rows = [(panel, "s", word, y) for panel in "abcde" for y, word in enumerate(words)]
    PLOTS["curves"](figure, pd.DataFrame(rows, columns=["panel", "series", "x", "y"]), x="epsilon", y="F1")
    figure.canvas.draw()
    assert [label.get_text() for label in figure.axes[4].get_xticklabels()] == words
    places = [axis.get_subplotspec() for axis in figure.axes if axis.axison]
    assert [(place.rowspan.start, place.colspan.start) for place in places] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]


def test_sentences_show_each_word_in_the_colour_of_its_fate(monkeypatch, tmp_path):
    from matplotlib.figure import Figure

    numbers = pd.DataFrame(
        {
            "panel": ["m"] * 32,
            "label": ["e = 1"] * 16 + ["e = 6"] * 16,
            "word": ["a", "$good$", "film"] + ["電影", *["longword"] * 12] + ["b"] * 16,
            "state": ["kept", "unchanged", "replaced", *["replaced"] * 13, *["kept"] * 16],
        }
    )
    figure = Figure()
    PLOTS["sentences"](figure, numbers)
    (axis,) = figure.axes
    drawn = {text.get_text(): text for text in axis.texts}
    assert [drawn[name].get_color() for name in ("a", "$good$", "film")] == ["0.6", "black", "#D55E00"]
    assert "\u25a1\u25a1" in drawn
    assert drawn["a"].get_position()[1] == drawn["film"].get_position()[1]
    lines = {text.get_position()[1] for text in axis.texts if text.get_text() == "longword"}
    assert len(lines) == 2  # broken between words
    monkeypatch.setenv("DPREPRO_OUT", str(tmp_path))
    figures.save("p/s", numbers, "sentences")
    png = (tmp_path / "figures" / "p" / "s.png").read_bytes()
    assert figures.redraw("p/s", tmp_path / "figures", "png").read_bytes() == png


def test_a_reference_among_dots_is_an_upright_line():
    from matplotlib.figure import Figure

    figure = Figure()
    numbers = {
        "label": ["a", "a", "b"],
        "series": ["s", "exact chance", "exact chance"],
        "value": [0.7, 0.5, 0.5],
    }
    PLOTS["dots"](figure, pd.DataFrame(numbers), x="AUC")
    (axis,) = figure.axes
    drawn = {line.get_label(): list(line.get_xdata(orig=False)) for line in axis.lines}
    assert drawn == {"exact chance": [0.5, 0.5], "s": [0.7]}


@pytest.mark.parametrize(
    ("venue", "column", "inches"),
    # Text widths of the style files: ICML 3.25 and 6.75 in, NeurIPS 5.5 in (one column).
    [("icml2024", "single", 3.25), ("icml2024", "double", 6.75), ("neurips2024", "single", 5.5)],
)
def test_a_venue_sets_the_width_of_the_page(saved, venue, column, inches):
    path = figures.redraw("paper/curve", saved, "pdf", venue, column)
    assert path.name == f"curve.{venue}-{column}.pdf"
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", path.read_bytes())
    assert float(box) == pytest.approx(72 * inches, abs=0.1)
    assert b"/CIDFontType2" in path.read_bytes()


def test_a_narrow_page_breaks_the_row_of_panels(numbers):
    from matplotlib.figure import Figure

    three = pd.concat([numbers, numbers[numbers["panel"] == "black box, active"].assign(panel="third")])
    wide, narrow = Figure(), Figure()
    PLOTS["audited_against_claimed"](wide, three)
    PLOTS["audited_against_claimed"](narrow, three, width=3.25)
    assert len({axis.get_subplotspec().colspan.start for axis in wide.axes}) == 3
    shown = [axis for axis in narrow.axes if axis.axison]
    assert len(shown) == 6
    assert len({axis.get_subplotspec().colspan.start for axis in shown}) == 2
    assert narrow.get_size_inches()[0] == 3.25


def test_unknown_names(saved, numbers):
    with pytest.raises(ValueError, match="figure must be one of .*paper/curve.*got 'paper/cruve'"):
        figures.redraw("paper/cruve", saved)
    with pytest.raises(ValueError, match="format must be one of 'pdf', 'png', 'svg', got 'eps'"):
        figures.redraw("paper/curve", saved, "eps")
    with pytest.raises(ValueError, match="venue must be one of .*'neurips2024'.*got 'nips'"):
        figures.redraw("paper/curve", saved, "pdf", "nips")
    with pytest.raises(ValueError, match="column must be one of 'single', 'double'"):
        figures.redraw("paper/curve", saved, "pdf", "icml2024", "triple")
    with pytest.raises(ValueError, match="plot must be one of"):
        figures.save("paper/curve", numbers, "pie")
