"""A picture with sliders where ipywidgets is installed, and the same picture for three values of each where not.

For the labs: a student moves a slider in JupyterLab; a page that only shows stored output, or an environment
without widgets, gets small panels side by side.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt


def explore(
    draw: Callable[..., None], *, size: tuple[float, float] = (4.2, 3.0), **choices: Sequence[Any]
) -> None:
    """Show ``draw(axes, name=value, ...)``, the values chosen by sliders or spread over panels.

    Parameters
    ----------
    draw : callable
        Draws on the axes that it gets first; every choice is passed by name.
    size : (float, float)
        Inches of the picture with sliders; a panel of the static picture is seven tenths of it each way.
    **choices : sequence of values
        One or two of them, each with at least one value, from one end of its slider to the other. A slider
        starts in the middle. Without ipywidgets the first, the middle and the last value are shown: in a row for
        one choice, for two the second runs down the rows.

    Raises
    ------
    ValueError
        If there are not one or two choices, or one of them is empty.
    """
    if not 1 <= len(choices) <= 2:
        raise ValueError(f"choices must be one or two, got {len(choices)}")
    for name, values in choices.items():
        if not len(values):
            raise ValueError(f"{name} must have at least one value, got none")
    try:
        from ipywidgets import SelectionSlider, interact
    except ImportError:
        _panels(draw, size, choices)
        return

    def picture(**chosen: Any) -> None:
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        draw(axes, **chosen)
        plt.show()
        plt.close(figure)

    sliders = {
        name: SelectionSlider(options=list(values), value=values[len(values) // 2], continuous_update=False)
        for name, values in choices.items()
    }
    interact(picture, **sliders)


def _panels(draw: Callable[..., None], size: tuple[float, float], choices: dict[str, Sequence[Any]]) -> None:
    # dict.fromkeys drops repeats, in order, where there are fewer than three values.
    three = {
        name: list(dict.fromkeys([values[0], values[len(values) // 2], values[-1]]))
        for name, values in choices.items()
    }
    across, *down = three.values()
    grid = list(itertools.product(*down, across))
    rows, columns = len(grid) // len(across), len(across)
    figure, panels = plt.subplots(
        rows,
        columns,
        figsize=(0.7 * size[0] * columns, 0.7 * size[1] * rows),
        squeeze=False,
        layout="constrained",
    )
    for axes, (*rest, first) in zip(panels.flat, grid, strict=True):
        chosen = dict(zip(three, (first, *rest), strict=True))
        draw(axes, **chosen)
        axes.set_title(", ".join(f"{name} = {value}" for name, value in chosen.items()), fontsize="small")
    plt.show()
    plt.close(figure)
