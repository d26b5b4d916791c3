"""One function a kind of picture: a matplotlib figure and the numbers to draw on it."""

import textwrap
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by the colour-blind; the marks differ as well, for print in grey.
SERIES: dict[str, dict[str, Any]] = {
    "printed": {"color": "black", "marker": "o", "linestyle": "none", "zorder": 4},
    "inferred": {"color": "#0072B2", "marker": "s", "linestyle": "-", "markerfacecolor": "none"},
    "as stated": {"color": "#D55E00", "marker": "v", "linestyle": "--"},
    "valid": {"color": "#009E73", "marker": "^", "linestyle": ":"},
}
REFERENCES_DRAWN: list[dict[str, Any]] = [{"color": "0.6", "linestyle": line} for line in ("-", "--", ":")]
REFERENCES = ("exact", "claimed", "baseline")  # how the name of a series begins that is drawn so
CYCLE: list[dict[str, Any]] = [
    {"color": "#0072B2", "marker": "s", "linestyle": "-"},
    {"color": "#D55E00", "marker": "v", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": ":"},
    {"color": "#CC79A7", "marker": "o", "linestyle": "-."},
    {"color": "#56B4E9", "marker": "D", "linestyle": "-"},
]


def audited_against_claimed(figure: Figure, numbers: pd.DataFrame, *, width: float | None = None) -> None:
    """Audited against claimed epsilon, a column of axes for each panel; below, the share of the ceiling.

    Parameters
    ----------
    figure : Figure
    numbers : DataFrame
        Columns panel, series (printed, inferred, as stated, valid), epsilon (claimed), audited, error
        (half the length of its bar; may be missing), ceiling (the exact epsilon of the mechanism).
    width : float, optional
        Of the page's column, in inches; by default what the panels need.
    """
    panels = list(dict.fromkeys(numbers["panel"]))
    across = len(panels) if width is None else min(len(panels), max(1, int(width // 1.35)))
    blocks = -(-len(panels) // across)
    _resize(figure, 1.9 * across, 4.2 * blocks, width)
    axes = figure.subplots(
        2 * blocks, across, sharex=True, sharey="row", height_ratios=[3, 2] * blocks, squeeze=False
    )
    for place in range(len(panels), across * blocks):
        for axis in axes[2 * (place // across) :][:2, place % across]:
            axis.set_axis_off()
    for place, panel in enumerate(panels):
        upper, lower = axes[2 * (place // across) :][:2, place % across]
        rows = numbers[numbers["panel"] == panel]
        ceiling = rows.drop_duplicates("epsilon").sort_values("epsilon")
        upper.plot(ceiling["epsilon"], ceiling["ceiling"], color="0.6", label="exact ceiling")
        lower.axhline(1, color="0.6")
        for series, style in SERIES.items():
            part = rows[rows["series"] == series].sort_values("epsilon")
            if len(part) == 0:
                continue
            _points(upper, part, part["audited"], part["error"], series, style)
            share = part["ceiling"].to_numpy()
            _points(lower, part, part["audited"] / share, part["error"] / share, series, style)
        upper.set_title(_wrapped(panel, figure.get_size_inches()[0] / across - 0.2))
        upper.set_xscale("log", base=2)
        upper.set_yscale("log", base=2)
        lower.set_xlabel("claimed ε")
        ticks = sorted(rows["epsilon"].unique())
        lower.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    for first in range(0, 2 * blocks, 2):
        axes[first, 0].set_ylabel("audited ε")
        axes[first, 0].set_yticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
        axes[first + 1, 0].set_ylabel("share of\nthe ceiling")
    _legend(figure)


def _points(
    axis: Axes, part: pd.DataFrame, value: pd.Series, error: pd.Series, label: str, style: dict[str, Any]
) -> None:
    bars = np.nan_to_num(error.to_numpy(dtype=float))
    axis.errorbar(part["epsilon"], value, yerr=bars, label=label, elinewidth=0.8, capsize=1.5, **style)


def curves(
    figure: Figure,
    numbers: pd.DataFrame,
    *,
    x: str,
    y: str,
    xscale: str = "linear",
    yscale: str = "linear",
    width: float | None = None,
) -> None:
    """Lines with bands, one axes a panel.

    Parameters
    ----------
    figure : Figure
    numbers : DataFrame
        Columns series, x, y; panel, low and high where wanted (a band where low is given). With words for x these
        are the ticks. A series whose name starts with "exact", "claimed" or "baseline" is drawn as a reference, in
        grey. Panels stand in one row, five and more in rows of three.
    x, y : str
        Axis labels.
    xscale, yscale : {"linear", "log"}
    width
        As in `audited_against_claimed`.
    """
    numbers = numbers if "panel" in numbers else numbers.assign(panel="")
    panels = list(dict.fromkeys(numbers["panel"]))
    across = len(panels) if len(panels) < 5 else 3
    if width is not None:
        across = min(across, max(1, int(width // 1.35)))
    down = -(-len(panels) // across)
    _resize(figure, max(3.6, 2.7 * across), 2.9 if down == 1 else 2.4 * down, width)
    room, height = figure.get_size_inches()[0] / across - 0.3, figure.get_size_inches()[1] / down
    axes = figure.subplots(down, across, sharey=True, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    styles = _styles(numbers["series"])
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set(
            title=_wrapped(panel, room), xlabel=_wrapped(x, room), xscale=xscale, yscale=yscale
        )  # a scale set later would undo ticks of words
        for name, part in numbers[numbers["panel"] == panel].groupby("series", sort=False):
            style = styles[str(name)]
            axis.plot(part["x"], part["y"], label=name, markevery=max(1, len(part) // 8), **style)
            if "low" in part and part["low"].notna().any():
                axis.fill_between(part["x"], part["low"], part["high"], color=style["color"], alpha=0.2, lw=0)
    for axis in axes[:, 0]:
        axis.set_ylabel(_wrapped(y, 0.65 * height))
    _legend(figure)


def dots(
    figure: Figure, numbers: pd.DataFrame, *, x: str, xscale: str = "linear", width: float | None = None
) -> None:
    """One line of dots for each label, a mark for each series.

    Parameters
    ----------
    figure : Figure
    numbers : DataFrame
        Columns label, series, value; low and high where wanted: the ends of a bar. A reference, as in `curves`, is an
        upright grey line at its value.
    x : str
        Axis label.
    xscale : {"linear", "log"}
    width
        As in `audited_against_claimed`.
    """
    labels = list(dict.fromkeys(numbers["label"]))
    _resize(figure, 4.2, 0.9 + 0.3 * len(labels), width)
    across = figure.get_size_inches()[0]
    shown = [_wrapped(label, 0.5 * across) for label in labels]
    room = across - min(0.5 * across, max(map(_inches, labels))) - 0.4  # below the axes, right of the labels
    axis = figure.subplots()
    reference, styles = numbers["series"].str.startswith(REFERENCES), _styles(numbers["series"])
    for name, value in (
        numbers[reference].drop_duplicates("series")[["series", "value"]].itertuples(index=False)
    ):
        axis.axvline(value, label=name, **styles[str(name)])
    groups = list(numbers[~reference].groupby("series", sort=False))
    for number, (name, part) in enumerate(groups):
        style = styles[str(name)]
        places = np.array([labels.index(label) for label in part["label"]], dtype=float)
        if "low" in part:  # bars of different series side by side
            places += 0.2 * (number - (len(groups) - 1) / 2)
            axis.hlines(places, part["low"], part["high"], color=style["color"], linewidth=0.8)
        axis.plot(part["value"], places, label=name, **{**style, "linestyle": "none"})
    axis.set(xlabel=_wrapped(x, room), xscale=xscale, yticks=range(len(labels)), yticklabels=shown)
    axis.invert_yaxis()
    axis.grid(axis="y", linewidth=0.3)
    _legend(figure)


def sentences(figure: Figure, numbers: pd.DataFrame, *, width: float | None = None) -> None:
    """Sentences word by word, one below the other, coloured by what became of each word.

    Parameters
    ----------
    figure : Figure
    numbers : DataFrame
        Columns panel, label (of the sentence), word, state; a row a word, in order. The words "unchanged" come in
        black, "replaced" in colour, others in grey. Letters that the font may lack are drawn as a box.
    width
        As in `audited_against_claimed`.
    """
    across, margin, line, places = 84, 9, 0.0, []
    colours = {"unchanged": "black", "replaced": CYCLE[1]["color"]}
    for panel, block in numbers.groupby("panel", sort=False):
        places.append((0.0, line, str(panel), "black", "bold"))
        for label, words in block.groupby("label", sort=False):
            line, column = line + 1.1, float(margin)
            places.append((0.0, line, str(label), "0.5", "normal"))
            for word, state in zip(words["word"].astype(str), words["state"], strict=True):
                shown = "".join(letter if ord(letter) < 0x0590 else "\u25a1" for letter in word)
                if column + len(shown) > across and column > margin:
                    line, column = line + 1, float(margin)
                places.append((column, line, shown, colours.get(str(state), "0.6"), "normal"))
                column += len(shown) + 1
        line += 1.6
    natural = 7.0
    _resize(figure, natural, 0.16 * line, width)
    axis = figure.subplots()
    axis.set(xlim=(0, across), ylim=(line - 0.6, -0.8))
    axis.set_axis_off()
    # In a typewriter face a letter is .602 of the font's size wide, so places are known without drawing.
    size = figure.get_size_inches()[0] * 72 / (across * 0.602) * 0.97
    for column, row, text, colour, weight in places:
        style: dict[str, Any] = {"color": colour, "weight": weight, "fontsize": size, "family": "monospace"}
        axis.text(column, row, text, parse_math=False, va="center", **style)


def _styles(series: pd.Series) -> dict[str, dict[str, Any]]:
    names = [str(name) for name in dict.fromkeys(series)]
    found: dict[str, dict[str, Any]] = {}
    for kind, styles in ((False, CYCLE), (True, REFERENCES_DRAWN)):
        group = [name for name in names if name.startswith(REFERENCES) == kind]
        if len(group) > len(styles):  # another round of the same colours and marks would tell nothing apart
            what = "references" if kind else "series"
            raise ValueError(f"numbers must have at most {len(styles)} {what}, got {', '.join(group)}")
        found |= dict(zip(group, styles, strict=False))
    return found


def _resize(figure: Figure, natural_width: float, height: float, width: float | None) -> None:
    # A narrower page keeps the proportions, but no flatter than 0.8: text does not shrink with it.
    width = width or natural_width
    figure.set_size_inches(width, max(height * width / natural_width, min(height, 0.8 * width)))


def _legend(figure: Figure) -> None:
    shown: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if not shown:
        return
    across, mark = figure.get_size_inches()[0], 0.55  # inches of a mark and the space around it
    columns = max(1, min(len(shown), int(across // max(1.5, mark + max(map(_inches, shown))))))
    texts = [_wrapped(label, across / columns - mark) for label in shown]
    figure.legend(list(shown.values()), texts, loc="outside lower center", ncols=columns)


def _inches(text: str) -> float:
    # Letters are half as wide as high, more or less: near enough to decide where a line breaks.
    return len(text) * 0.5 * mpl.rcParams["font.size"] / 72


def _wrapped(text: str, inches: float) -> str:
    letters = int(inches * 72 / (0.5 * mpl.rcParams["font.size"]))
    return "\n".join(textwrap.fill(line, max(letters, 8)) for line in str(text).split("\n"))


PLOTS: dict[str, Callable[..., None]] = {
    "audited_against_claimed": audited_against_claimed,
    "curves": curves,
    "dots": dots,
    "sentences": sentences,
}
