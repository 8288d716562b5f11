"""Heat maps with numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import figure
from marcir.figures.texts import escaped, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = (0.62, 0.34)  # inches of a cell
LETTERS = 40  # of a row's name


@dataclass(frozen=True)
class Grid:
    """Rows and columns of a heat map.

    Attributes:
        rows: Names of the rows. (R,)
        columns: Names of the columns. (C,)
        row_title: Label of the y axis, such as "alpha".
        column_title: Label of the x axis.
        framed: Row and column of a framed cell.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str = ""
    column_title: str = ""
    framed: tuple[int, int] | None = None


def draw_value_maps(grid: Grid, panels: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Draw heat maps side by side, each with its own colour range and its numbers.

    Args:
        grid: Rows and columns, the same in every panel.
        panels: By title, values in 0..1, shown in percent; nan where there is none. (R, C)
        path: Where the PNG goes.

    Raises:
        ConfigError: Where a panel is not as large as the grid.
    """
    wanted = (len(grid.rows), len(grid.columns))
    for title, values in panels.items():
        if np.shape(values) != wanted or not np.size(values):
            raise ConfigError(f"value maps: '{title}' has shape {np.shape(values)}, the grid is {wanted}.")
    names = max(len(shortened(name, LETTERS)) for name in grid.rows)
    across = max(len(shortened(name, 16)) for name in grid.columns)
    width = len(panels) * (max(CELL[0] * wanted[1], 2.2) + 0.5) + 0.07 * names + 0.5
    height = CELL[1] * wanted[0] + 0.9 + (0.055 * across if across > 5 else 0.2)
    with figure(path, width, height) as drawn:
        axes_of = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, values) in zip(axes_of, panels.items(), strict=True):
            _draw_map(axes, 100 * np.asarray(values, dtype=float), grid)
            axes.set_title(escaped(fill(title, max(24, 8 * wanted[1]))), fontsize=10, loc="left")
        axes_of[0].set_ylabel(escaped(grid.row_title))


def _draw_map(axes: "Axes", values: np.ndarray, grid: Grid) -> None:
    from matplotlib.patches import Rectangle

    known = values[~np.isnan(values)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    axes.set_facecolor("#e4e4e4")
    axes.imshow(values, cmap="viridis", vmin=low, vmax=max(high, low + 1e-9), aspect="auto")
    for i, j in np.ndindex(values.shape):
        missing = np.isnan(values[i, j])
        bright = missing or values[i, j] - low > 0.6 * (high - low)
        text = "-" if missing else f"{values[i, j]:.1f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color="black" if bright else "white")
    if grid.framed is not None:
        i, j = grid.framed
        for colour, line in (("white", 3.6), ("black", 1.6)):
            axes.add_patch(
                Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, color=colour, linewidth=line)
            )
    level = max(len(name) for name in grid.columns) <= 5
    texts = [escaped(shortened(name, 16)) for name in grid.columns]
    axes.set_xticks(range(len(texts)), texts, fontsize=8)
    if not level:
        for name in axes.get_xticklabels():
            name.set(rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(
        range(len(grid.rows)), [escaped(shortened(name, LETTERS)) for name in grid.rows], fontsize=8
    )
    axes.set_xlabel(escaped(grid.column_title))
