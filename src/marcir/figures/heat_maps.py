"""Heat maps: the co-occurrence of labels, and scores with their numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a label, and of the largest map, in which labels get smaller.
_LABEL, _LARGEST = 0.42, 24.0
# Largest and smallest font size; where the smallest does not fit, some names are left out.
_LETTERS, _SMALLEST = 9.0, 5.0
# Number of labels up to which cells show numbers, and the longest name.
_NUMBERED, _NAME = 25, 40
_CELL = (0.62, 0.34)  # inches of a cell of a map of scores


def draw_cooccurrence(counts: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Draw a heat map: of the images with the row's label, the share with the column's, too.

    Without any label it is one empty cell.

    Args:
        counts: Images that carry both of two labels; the diagonal counts a label alone. (L, L)
        names: Label names.
        path: Where the PNG goes.
    """
    if not names:
        counts, names = np.zeros((1, 1), dtype=np.int64), ["no label"]
    own = np.diag(counts)
    shares = 100 * (counts / np.maximum(own, 1)[:, None])
    side = min(max(4.0, _LABEL * len(names) + 2.0), _LARGEST)
    with figure(path, side + 1.2, side) as drawn:
        axes = drawn.subplots()
        image = axes.imshow(shares, cmap="viridis", vmin=0, vmax=100, interpolation="nearest")
        _name_ticks(axes, names, own, pitch=72 * (side - 2) / len(names))
        if len(names) <= _NUMBERED:
            for i, j in np.argwhere(counts):
                _write_number(axes, i, j, f"{shares[i, j]:.0f}", 7, shares[i, j] > 60)
        axes.set_title("Of the images with the row's label, % that also have the column's", fontsize=10)
        drawn.colorbar(image, shrink=0.8, format="%g %%")


def _name_ticks(axes: "Axes", names: Sequence[str], own: np.ndarray, pitch: float) -> None:
    """Name rows and columns that are `pitch` points wide, as many as stay readable."""
    size = min(_LETTERS, max(0.7 * pitch, _SMALLEST))
    ticks = range(0, len(names), int(np.ceil(size / (0.7 * pitch))))
    shown = [escaped(shortened(names[k], _NAME)) for k in ticks]
    axes.set_xticks(ticks, shown, rotation=60, ha="right", fontsize=size)
    rows = [f"{name} ({own[k]})" for k, name in zip(ticks, shown, strict=True)]
    axes.set_yticks(ticks, rows, fontsize=size)


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
    names = max(len(shortened(name, _NAME)) for name in grid.rows)
    across = max(len(shortened(name, 16)) for name in grid.columns)
    width = len(panels) * (max(_CELL[0] * wanted[1], 2.2) + 0.5) + 0.07 * names + 0.5
    height = _CELL[1] * wanted[0] + 0.9 + (0.055 * across if across > 5 else 0.2)
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
    for (i, j), value in np.ndenumerate(values):
        missing = bool(np.isnan(value))
        bright = missing or value - low > 0.6 * (high - low)
        _write_number(axes, i, j, "-" if missing else f"{value:.1f}", 8, bright)
    if grid.framed is not None:
        i, j = grid.framed
        for colour, line in (("white", 3.6), ("black", 1.6)):
            axes.add_patch(
                Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, color=colour, linewidth=line)
            )
    texts = [escaped(shortened(name, 16)) for name in grid.columns]
    axes.set_xticks(range(len(texts)), texts, fontsize=8)
    if max(len(name) for name in grid.columns) > 5:
        for name in axes.get_xticklabels():
            name.set(rotation=45, ha="right", rotation_mode="anchor")
    names = [escaped(shortened(name, _NAME)) for name in grid.rows]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlabel(escaped(grid.column_title))


def _write_number(axes: "Axes", i: int, j: int, text: str, size: float, bright: bool) -> None:
    """Write into a cell, in black where the cell is bright."""
    axes.text(j, i, text, ha="center", va="center", fontsize=size, color="black" if bright else "white")
