"""Sliders where there are widgets, panels where not; the drawing function sees the same values either way."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from dprepro.base.explore import explore

mpl.use("Agg")


@pytest.fixture
def shown(monkeypatch):
    """Figures that were shown: the titles of their axes, row by row."""
    titles = []
    monkeypatch.setattr(plt, "show", lambda: titles.append([a.get_title() for a in plt.gcf().axes]))
    yield titles
    assert not plt.get_fignums(), "a figure was left open"


@pytest.fixture
def no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)


def test_one_choice_is_a_row_of_first_middle_last(shown, no_widgets):
    seen = []
    explore(lambda axes, sigma: seen.append(sigma), sigma=[0, 1, 2, 3, 4])
    assert seen == [0, 2, 4]
    assert shown == [["sigma = 0", "sigma = 2", "sigma = 4"]]


def test_two_choices_are_a_grid_the_second_down_the_rows(shown, no_widgets):
    seen = []
    explore(lambda axes, a, b: seen.append((a, b)), a=[1, 2, 3], b=[10, 20])
    assert seen == [(1, 10), (2, 10), (3, 10), (1, 20), (2, 20), (3, 20)]
    assert shown[0][-1] == "a = 3, b = 20"


def test_a_single_value_is_one_panel(shown, no_widgets):
    explore(lambda axes, a: axes.plot([a]), a=[1])
    assert shown == [["a = 1"]]


def test_with_widgets_the_slider_starts_in_the_middle(shown):
    pytest.importorskip("ipywidgets")
    seen = []
    explore(lambda axes, sigma: seen.append(sigma), sigma=(0.5, 1.0, 2.0))
    assert seen == [1.0]
    assert len(shown) == 1


@pytest.mark.parametrize("choices", [{}, {"a": [1], "b": [1], "c": [1]}])
def test_one_or_two_choices(choices):
    with pytest.raises(ValueError, match="one or two"):
        explore(lambda axes, **_: None, **choices)


def test_an_empty_choice_is_named():
    with pytest.raises(ValueError, match="sigma must have at least one value"):
        explore(lambda axes, sigma: None, sigma=[])
