"""Curves of scores over a setting, one line per method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import figure
from marcir.figures.series import SeriesStyle, draw_legend, line_look, series_styles
from marcir.figures.texts import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 30  # above this ratio of the largest to the smallest value the axis is logarithmic


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
        flat_text: Explanation of the dotted lines.
    """

    title: str
    setting: str
    curves: Mapping[str, Curve]
    flat: Mapping[str, float] = field(default_factory=dict)
    flat_text: str = ""


def draw_setting_curves(panels: Sequence[Sequence[CurvePanel]], path: str | Path) -> None:
    """Draw rows of panels with one legend; error bars are standard deviations.

    Args:
        panels: Rows of equal length.
        path: Where the PNG goes.

    Raises:
        ConfigError: Without panels, or where one has neither curves nor flat lines.
    """
    if not panels or not panels[0]:
        raise ConfigError("setting curves: no panels. Give at least one.")
    for panel in (each for row in panels for each in row):
        if not panel.curves and not panel.flat:
            raise ConfigError(f"setting curves: '{panel.title}' has no curves. Give at least one.")
    names = list(dict.fromkeys(name for row in panels for each in row for name in (*each.curves, *each.flat)))
    styles = series_styles(names)
    width, height = 3.9 * len(panels[0]) + 2.4, max(3.1 * len(panels) + 0.2, 0.19 * len(names) + 0.5)
    with figure(path, width, height) as drawn:
        # Panels of a column share their range, so that small effects look small.
        grid = drawn.subplots(len(panels), len(panels[0]), squeeze=False, sharey="col")
        for row, line in zip(panels, grid, strict=True):
            for panel, axes in zip(row, line, strict=True):
                _draw_panel(axes, panel, styles)
        draw_legend(drawn, names)


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
    axes.set_xlabel(
        escaped(panel.setting + (f"  (dotted: {panel.flat_text})" if panel.flat else "")), fontsize=9
    )
    axes.set_ylabel("test images, %", fontsize=9)
    axes.grid(alpha=0.3)
