"""Images and their augmented versions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.figures.canvas import escaped, figure, shortened

# Letters of a title that fit the width of an image.
_LETTERS = 24


def draw_samples(rows: Sequence[Sequence[np.ndarray]], titles: Sequence[str], path: str | Path) -> None:
    """Draw one row per image: the original, then its augmented versions.

    Args:
        rows: Images as floats or bytes. (H, W, C)
        titles: The titles of the rows.
        path: Where the PNG goes.
    """
    columns = max(len(row) for row in rows)
    with figure(path, 1.6 * columns, 1.85 * len(rows)) as drawn:
        lines = drawn.subfigures(len(rows), 1, squeeze=False)[:, 0]
        for line, row, title in zip(lines, rows, titles, strict=True):
            line.suptitle(escaped(shortened(title, _LETTERS * columns)), fontsize=8, x=0.01, ha="left")
            grid = line.subplots(1, columns, squeeze=False)[0]
            for axes in grid:
                axes.set_axis_off()
            for axes, image in zip(grid, row, strict=False):
                axes.imshow(displayable(image), cmap="gray")


def displayable(image: np.ndarray) -> np.ndarray:
    """Convert an image of any bands and range for display: 0..1, one band or three.

    >>> displayable(np.zeros((2, 2, 5))).shape
    (2, 2, 3)
    """
    pixels = image.astype(np.float64)
    if image.dtype == np.uint8:
        pixels = pixels / 255
    elif pixels.min() < 0 or pixels.max() > 1:
        low, high = np.percentile(pixels, (2, 98))
        pixels = (pixels - low) / max(high - low, 1e-12)
    shown = pixels[:, :, 0] if image.shape[2] < 3 else pixels[:, :, :3]
    clipped: np.ndarray = np.clip(shown, 0, 1)
    return clipped


def display_bytes(image: np.ndarray) -> np.ndarray:
    """An image as `displayable` shows it, in bytes. (H, W) or (H, W, 3)

    >>> display_bytes(np.full((1, 1, 4), 200, np.uint8))
    array([[[200, 200, 200]]], dtype=uint8)
    """
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image[:, :, 0] if image.shape[2] < 3 else image[:, :, :3])
    shown: np.ndarray = (255 * displayable(image)).astype(np.uint8)
    return shown
