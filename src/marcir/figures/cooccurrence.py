"""Heat map of the co-occurrence of labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.figures.canvas import figure
from marcir.figures.texts import escaped, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a label, and of the largest map, in which labels get smaller.
_LABEL, _LARGEST = 0.42, 24.0
# Largest and smallest font size; where the smallest does not fit, some names are left out.
_LETTERS, _SMALLEST = 9.0, 5.0
# Number of labels up to which cells show numbers, and the longest name.
_NUMBERED, _NAME = 25, 40


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
    shares = counts / np.maximum(own, 1)[:, None]
    side = min(max(4.0, _LABEL * len(names) + 2.0), _LARGEST)
    with figure(path, side + 1.2, side) as drawn:
        axes = drawn.subplots()
        image = axes.imshow(100 * shares, cmap="viridis", vmin=0, vmax=100, interpolation="nearest")
        _name_ticks(axes, names, own, pitch=72 * (side - 2) / len(names))
        if len(names) <= _NUMBERED:
            _write_numbers(axes, shares, counts)
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


def _write_numbers(axes: "Axes", shares: np.ndarray, counts: np.ndarray) -> None:
    """Write percentages into non-empty cells."""
    for i, j in np.ndindex(shares.shape):
        if counts[i, j]:
            colour = "black" if shares[i, j] > 0.6 else "white"
            text = f"{100 * shares[i, j]:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
