"""One function a kind of picture: a matplotlib figure and the numbers to draw on it."""

from collections.abc import Callable
from typing import Any

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


def audited_against_claimed(figure: Figure, numbers: pd.DataFrame) -> None:
    """Audited against claimed epsilon, a column of axes for each panel; below, the share of the ceiling.

    Parameters
    ----------
    figure : Figure
    numbers : DataFrame
        Columns panel, series (printed, inferred, as stated, valid), epsilon (claimed), audited, error
        (half the length of its bar; may be missing), ceiling (the exact epsilon of the mechanism).
    """
    panels = list(dict.fromkeys(numbers["panel"]))
    figure.set_size_inches(1.9 * len(panels), 4.2)
    axes = figure.subplots(2, len(panels), sharex=True, sharey="row", height_ratios=[3, 2], squeeze=False)
    for (upper, lower), panel in zip(axes.T, panels, strict=True):
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
        upper.set_title(panel)
        upper.set_xscale("log", base=2)
        upper.set_yscale("log", base=2)
        lower.set_xlabel("claimed ε")
        ticks = sorted(rows["epsilon"].unique())
        lower.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0, 0].set_ylabel("audited ε")
    axes[0, 0].set_yticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
    axes[1, 0].set_ylabel("share of the ceiling")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    for axis in axes[0, 1:]:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _points(
    axis: Axes, part: pd.DataFrame, value: pd.Series, error: pd.Series, label: str, style: dict[str, Any]
) -> None:
    bars = np.nan_to_num(error.to_numpy(dtype=float))
    axis.errorbar(part["epsilon"], value, yerr=bars, label=label, elinewidth=0.8, capsize=1.5, **style)


PLOTS: dict[str, Callable[[Figure, pd.DataFrame], None]] = {
    "audited_against_claimed": audited_against_claimed,
}
