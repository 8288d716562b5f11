"""Curves of a training run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marcir.figures.canvas import figure

_VALIDATION = "validation "


def draw_history(history: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw loss, validation scores, learning rate and gradient norm by epoch.

    Args:
        history: One row per epoch.
        path: Where the PNG goes.
    """
    epochs = [row["epoch"] for row in history]
    with figure(path, 10, 6.5) as drawn:
        grid = drawn.subplots(2, 2, sharex=True)
        for axes, name in (
            (grid[0, 0], "loss"),
            (grid[1, 0], "learning_rate"),
            (grid[1, 1], "gradient_norm"),
        ):
            axes.plot(epochs, [row.get(name) for row in history], marker=".")
            axes.set_title(name.replace("_", " "), fontsize=10, loc="left")
        scores = [name for name in history[-1] if name.startswith(_VALIDATION)] if history else []
        for name, marker in zip(scores, "osv^Dx+", strict=False):
            values = [100 * row[name] if row.get(name) is not None else None for row in history]
            grid[0, 1].plot(epochs, values, marker=marker, markersize=3, label=name.removeprefix(_VALIDATION))
        grid[0, 1].set_title("validation scores, %", fontsize=10, loc="left")
        if scores:
            grid[0, 1].legend(fontsize=7)
        for axes in grid.flat:
            axes.grid(alpha=0.3)
        for axes in grid[1]:
            axes.set_xlabel("epoch")
