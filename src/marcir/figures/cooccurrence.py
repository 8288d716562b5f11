"""Which labels occur together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.figures.canvas import figure


def draw_cooccurrence(counts: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Heat map: of the images with the row's label, the share that has the column's too.

    Args:
        counts: Images that carry both of two labels; the diagonal counts a label alone. (L, L)
        names: Label names.
        path: Where the PNG goes.
    """
    own = np.maximum(np.diag(counts), 1)[:, None]
    shares = counts / own
    side = max(4.0, 0.42 * len(names) + 2.0)
    with figure(path, side + 1.2, side) as drawn:
        axes = drawn.subplots()
        image = axes.imshow(shares, cmap="viridis", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=9)
        axes.set_yticks(
            range(len(names)),
            [f"{name} ({count})" for name, count in zip(names, np.diag(counts), strict=True)],
            fontsize=9,
        )
        if len(names) <= 25:
            for i, j in np.ndindex(shares.shape):
                if counts[i, j]:
                    colour = "black" if shares[i, j] > 0.6 else "white"
                    axes.text(
                        j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", fontsize=7, color=colour
                    )
        axes.set_title("Of the images with the row's label, % that also have the column's", fontsize=10)
        drawn.colorbar(image, shrink=0.8)
