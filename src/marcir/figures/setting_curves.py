"""Scores by setting: curves, one line per method, and radars, one spoke per metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure
from marcir.figures.series import SeriesStyle, draw_legend, line_look, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 30  # above this ratio of the largest to the smallest value the axis is logarithmic
RADARS_PER_ROW = 3


@dataclass(frozen=True)
class Curve:
    """A method's scores by setting.

    Attributes:
        x: The setting's values, rising. (S,)
        mean: Scores in 0..1. (S,)
        sd: Their standard deviations; nan where unknown. (S,)
    """

    x: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True)
class CurvePanel:
    """One pair of axes.

    Attributes:
        title: The column that is shown.
        setting: The setting of the x axis.
        curves: By method.
        flat: By method, a score that does not depend on the setting: a dotted line.
        flat_text: Explanation of the dotted lines, if the legend does not suffice.
        measure: What the y axis shows, where the title does not say it.
    """

    title: str
    setting: str
    curves: Mapping[str, Curve]
    flat: Mapping[str, float] = field(default_factory=dict)
    flat_text: str = ""
    measure: str = "test images"


def draw_setting_curves(
    panels: Sequence[Sequence[CurvePanel]], path: str | Path, same_range: bool = False
) -> None:
    """Draw rows of panels with one legend; error bars are standard deviations.

    Args:
        panels: Rows of equal length; the last may be shorter.
        path: Where the PNG goes.
        same_range: All panels show the same measure and share their range; else those of a column do.

    Raises:
        ConfigError: Without panels, or where one has neither curves nor flat lines.
    """
    if not panels or not panels[0]:
        raise ConfigError("setting curves: no panels. Give at least one.")
    names: dict[str, None] = {}
    curves: set[str] = set()
    for panel in chain.from_iterable(panels):
        if not panel.curves and not panel.flat:
            raise ConfigError(f"setting curves: '{panel.title}' has no curves. Give at least one.")
        names |= dict.fromkeys((*panel.curves, *panel.flat))
        curves |= panel.curves.keys()
    styles = series_styles(list(names))
    width, height = 3.9 * len(panels[0]) + 2.4, max(3.1 * len(panels) + 0.2, 0.19 * len(names) + 0.5)
    with figure(path, width, height) as drawn:
        # Panels share their range, so that small effects look small.
        shared: Literal["all", "col"] = "all" if same_range else "col"
        grid = drawn.subplots(len(panels), len(panels[0]), squeeze=False, sharey=shared)
        for row, axes_of_row in zip(panels, grid, strict=True):
            for panel, axes in zip(row, axes_of_row, strict=False):
                _draw_panel(axes, panel, styles)
            for axes in axes_of_row[len(row) :]:
                axes.set_axis_off()
        draw_legend(drawn, list(names), dotted=names.keys() - curves)


def _draw_panel(axes: "Axes", panel: CurvePanel, styles: Mapping[str, SeriesStyle]) -> None:
    for name, curve in panel.curves.items():
        look = line_look(styles[name])
        sd = 100 * np.nan_to_num(np.asarray(curve.sd, dtype=float))
        mean = 100 * np.asarray(curve.mean, dtype=float)
        axes.errorbar(curve.x, mean, sd, capsize=2, elinewidth=0.9, ecolor=(look["color"], 0.5), **look)
    for name, value in panel.flat.items():
        axes.axhline(100 * value, color=styles[name].colour, linestyle="dotted", linewidth=1.8)
    x = np.unique(np.concatenate([curve.x for curve in panel.curves.values()] or [np.array([1.0])]))
    if x.min() > 0 and x.max() / x.min() > WIDE:
        axes.set_xscale("log")
        axes.set_xticks([], minor=True)
    axes.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
    axes.set_title(escaped(panel.title), fontsize=10, loc="left")
    dotted = f"  (dotted: {panel.flat_text})" if panel.flat_text else ""
    axes.set_xlabel(escaped(panel.setting + dotted), fontsize=9)
    axes.set_ylabel(f"{panel.measure}, %", fontsize=9)
    axes.grid(alpha=0.3)


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
    least, most = np.fmin.reduce(table, initial=np.inf), np.fmax.reduce(table, initial=-np.inf)
    spokes = [
        f"{escaped(name)}\n{100 * a:.1f} to {100 * b:.1f}"
        for name, a, b in zip(columns, least, most, strict=True)
    ]
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    across = min(len(panels), RADARS_PER_ROW)
    down = -(-len(panels) // RADARS_PER_ROW)
    with figure(path, 4.6 * across + 1.6, 4.2 * down + 0.2) as drawn:
        grid: Any = drawn.subplots(down, across, squeeze=False, subplot_kw={"projection": "polar"}).ravel()
        for axes, (title, panel) in zip(grid, panels.items(), strict=False):
            span = np.where(most > least, most - least, 1.0)
            rows = {name: (np.asarray(row) - least) / span * 0.8 + 0.2 for name, row in panel.items()}
            _draw_radar(axes, spokes, rows, series_styles(names))
            axes.set_title(escaped(title), fontsize=10, loc="left", pad=22)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        draw_legend(drawn, names)


def _draw_radar(
    axes: "Axes", spokes: Sequence[str], rows: Mapping[str, np.ndarray], styles: Mapping[str, SeriesStyle]
) -> None:
    angles = np.linspace(0, 2 * np.pi, len(spokes), endpoint=False)
    for name, row in rows.items():
        axes.plot(np.append(angles, angles[0]), np.append(row, row[0]), **line_look(styles[name]))
        axes.fill(angles, np.nan_to_num(row), color=styles[name].colour, alpha=0.06)
    axes.set_xticks(angles, spokes, fontsize=7.5)
    axes.tick_params(axis="x", pad=2)
    for text, angle in zip(axes.get_xticklabels(), angles, strict=True):  # away from the rim
        side = round(float(np.cos(angle)), 6)
        text.set(ha="left" if side > 0.3 else "right" if side < -0.3 else "center")
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0.2, 0.6, 1.0], [])
    axes.grid(alpha=0.4)
