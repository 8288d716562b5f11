"""Radar charts: one spoke per metric, one polygon per setting."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import figure
from marcir.figures.series import draw_legend, line_look, series_styles
from marcir.figures.texts import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_PER_ROW = 3


def draw_radars(
    columns: Sequence[str], panels: Mapping[str, Mapping[str, np.ndarray]], path: str | Path
) -> None:
    """Draw one radar per method. A spoke has the range of all panels, which its label shows.

    The rim is the best value found, the centre lies a quarter of the range under the worst.

    Args:
        columns: The spokes, three or more. (C,)
        panels: By method and setting, values in 0..1; nan where there is none. (C,)
        path: Where the PNG goes.

    Raises:
        ConfigError: Without panels, or where lengths differ.
    """
    values = [np.asarray(row, dtype=float) for panel in panels.values() for row in panel.values()]
    if len(columns) < 3 or not values or any(row.shape != (len(columns),) for row in values):
        raise ConfigError("radars: give three columns or more, and one value of each for every setting.")
    table = np.stack(values)
    low, high = (np.where(np.isnan(table), fill, table) for fill in (np.inf, -np.inf))
    least, most = low.min(0), high.max(0)
    spokes = [
        f"{escaped(name)}\n{100 * a:.1f} to {100 * b:.1f}"
        for name, a, b in zip(columns, least, most, strict=True)
    ]
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    across = min(len(panels), PANELS_PER_ROW)
    down = -(-len(panels) // PANELS_PER_ROW)
    with figure(path, 4.6 * across + 1.6, 4.2 * down + 0.2) as drawn:
        grid: Any = drawn.subplots(down, across, squeeze=False, subplot_kw={"projection": "polar"}).ravel()
        for axes, (title, panel) in zip(grid, panels.items(), strict=False):
            span = np.where(most > least, most - least, 1.0)
            rows = {name: (np.asarray(row) - least) / span * 0.8 + 0.2 for name, row in panel.items()}
            _draw_radar(axes, spokes, rows, names)
            axes.set_title(escaped(title), fontsize=10, loc="left", pad=22)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        draw_legend(drawn, names)


def _draw_radar(
    axes: "Axes", spokes: Sequence[str], rows: Mapping[str, np.ndarray], names: Sequence[str]
) -> None:
    angles = np.linspace(0, 2 * np.pi, len(spokes), endpoint=False)
    styles = series_styles(names)
    for name, row in rows.items():
        around = np.append(row, row[0])
        axes.plot(np.append(angles, angles[0]), around, **line_look(styles[name]))
        axes.fill(angles, np.nan_to_num(row), color=styles[name].colour, alpha=0.06)
    axes.set_xticks(angles, spokes, fontsize=7.5)
    axes.tick_params(axis="x", pad=2)
    for text, angle in zip(axes.get_xticklabels(), angles, strict=True):  # away from the rim
        side = round(float(np.cos(angle)), 6)
        text.set(ha="left" if side > 0.3 else "right" if side < -0.3 else "center")
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0.2, 0.6, 1.0], [])
    axes.grid(alpha=0.4)
