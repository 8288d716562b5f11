"""A grid over an area: most boxes are inside or outside of it by the cells that they lie in."""

from functools import lru_cache
from typing import Final

import numpy as np

from marcir.errors import needs
from marcir.search.area import Area

# Cells along each side: about one in a hundred is at the edge of a simple area.
_SIDE = 256
# Degrees: cells of a tiny area stay larger than rounding.
_LEAST = 1e-9
_EDGE, _INSIDE, _OUTSIDE = 0, 1, 2
# Sums have the number of cells inside in the lower bits, and of those outside above them.
_ABOVE: Final = 2**32


class AreaGrid:
    """A grid over an area, with its cells inside, outside and at the edge.

    Args:
        area: The area.
    """

    def __init__(self, area: Area) -> None:
        with needs("geo"):
            import shapely
        shape = shapely.from_wkb(area.wkb)
        shapely.prepare(shape)
        west, south, east, north = shape.bounds
        # Cells at the border reach beyond the area. So what is beyond the grid may count as in them.
        right, up = max((east - west) / _SIDE, _LEAST), max((north - south) / _SIDE, _LEAST)
        self._x = np.linspace(west - right, east + right, _SIDE + 1)
        self._y = np.linspace(south - up, north + up, _SIDE + 1)
        states = np.zeros((1, 1), dtype=np.int8)
        while len(states) < _SIDE:  # only cells at the edge are cut into four
            states = states.repeat(2, 0).repeat(2, 1)
            y, x = np.nonzero(states == _EDGE)
            size = _SIDE // len(states)
            left, low = x * size, y * size
            cells = shapely.box(self._x[left], self._y[low], self._x[left + size], self._y[low + size])
            states[y, x] = np.where(shapely.intersects(shape, cells), _EDGE, _OUTSIDE)
            states[y, x] += shapely.contains_properly(shape, cells)  # _EDGE to _INSIDE
        counts = (states == _INSIDE) + _ABOVE * (states == _OUTSIDE)
        self._sums = np.pad(counts.cumsum(0).cumsum(1), ((1, 0), (1, 0)))

    def place(self, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which boxes are inside the area, and which are outside, as far as cells show it. (4, N) -> 2 x (N,)

        Args:
            corners: West, south, east and north, with west <= east.
        """
        left, right = _cells(self._x, corners[0], corners[2])
        low, high = _cells(self._y, corners[1], corners[3])
        stride = _SIDE + 1
        sums = self._sums.ravel()
        found = sums[high * stride + right] - sums[low * stride + right]
        found += sums[low * stride + left] - sums[high * stride + left]
        count = (high - low) * (right - left)
        return found == count, found == _ABOVE * count


@lru_cache(maxsize=8)  # the pages of a search have one area
def grid_of(area: Area) -> AreaGrid:
    """The grid over an area."""
    return AreaGrid(area)


def _cells(edges: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first cell of spans, and the one after their last: these cells cover what is in the grid."""
    scale = _SIDE / (edges[-1] - edges[0])
    first = ((low - edges[0]) * scale).clip(0, _SIDE - 1).astype(np.int64)
    first -= (first > 0) & (edges[first] > low)  # rounding
    after = ((high - edges[0]) * scale).clip(0, _SIDE - 1).astype(np.int64) + 1
    after += (after < _SIDE) & (edges[after] < high)
    return first, after
