"""Dot plots of scores: mean and standard deviation of methods, one panel per metric."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure, shortened
from marcir.figures.series import COLOURS, GREY, MARKERS, check_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_PER_ROW = 4
OTHERS = "#5b6770"  # methods that are not highlighted
LETTERS = 46  # of a name


def draw_score_dots(
    names: Sequence[str],
    panels: Mapping[str, tuple[np.ndarray, np.ndarray]],
    path: str | Path,
    *,
    highlighted: Sequence[str] = (),
    chosen: Sequence[str] | None = None,
    lines: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Draw one panel per column, one line per method: a dot at its mean, a bar of its standard deviation.

    Every panel has its own range.

    Args:
        names: The methods. (M,)
        panels: By column, means and standard deviations in 0..1; nan where there is none. 2 x (M,)
        path: Where the PNG goes.
        highlighted: Methods with their own colour and marker.
        chosen: Methods whose dots have a ring; by default the best of each panel.
        lines: References, such as "untrained": by column, the value of a dashed line.

    Raises:
        ConfigError: Without methods or columns, or where lengths differ.
    """
    if not names:
        raise ConfigError("score dots: no methods. Give at least one.")
    for part, what in enumerate(("means", "standard deviations")):
        parts = {name: panel[part] for name, panel in panels.items()}
        check_series(f"score dots, {what}", parts, len(names), "methods")
    rows = -(-len(panels) // PANELS_PER_ROW)
    wide = min(len(panels), PANELS_PER_ROW)
    with figure(path, 2.1 + 2.2 * wide, rows * (0.8 + 0.21 * len(names)) + 0.3) as drawn:
        grid = drawn.subplots(rows, wide, squeeze=False, sharey=True).ravel()
        for axes, (column, (means, sds)) in zip(grid, panels.items(), strict=False):
            _draw_panel(axes, names, 100 * np.asarray(means), 100 * np.asarray(sds), highlighted)
            _draw_rings(axes, names, 100 * np.asarray(means), chosen)
            for value in (100 * line[column] for line in (lines or {}).values() if column in line):
                axes.plot(value, 0, linestyle="")  # within the margins, too
                axes.axvline(value, color=GREY, linestyle="dashed", linewidth=1.1, zorder=1)
            axes.set_title(escaped(column), fontsize=10, loc="left")
        grid[0].set_ylim(len(names) - 0.4, -0.6)  # the first method at the top
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        text = f"percent; ring: {'best' if chosen is None else 'chosen on validation'}; bar: ± sd over seeds"
        text += "".join(f"; dashed: {name}" for name in lines or {})
        drawn.supxlabel(text, fontsize=8, x=0.01, ha="left")


def _draw_panel(
    axes: "Axes", names: Sequence[str], means: np.ndarray, sds: np.ndarray, highlighted: Sequence[str]
) -> None:
    for place, name in enumerate(names):
        colour, marker = OTHERS, "o"
        if name in highlighted:
            order = list(highlighted).index(name) + 1
            colour, marker = COLOURS[order % len(COLOURS)], MARKERS[order % len(MARKERS)]
        sd = np.nan_to_num(sds[place])
        axes.errorbar(means[place], place, xerr=sd, color=colour, marker=marker, markersize=6, capsize=2.5)
    axes.set_yticks(range(len(names)), [escaped(shortened(name, LETTERS)) for name in names], fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.margins(x=0.12)
    axes.grid(alpha=0.3)


def _draw_rings(axes: "Axes", names: Sequence[str], means: np.ndarray, chosen: Sequence[str] | None) -> None:
    if chosen is None:
        places = [] if np.isnan(means).all() else np.flatnonzero(means == np.nanmax(means)).tolist()
    else:
        places = [place for place, name in enumerate(names) if name in chosen]
    axes.plot(means[places], places, "o", markersize=11, markerfacecolor="none", color="black")
