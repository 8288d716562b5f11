"""Blocks of space: which windows go together into one part of a split."""

import math
from collections.abc import Sequence

import numpy as np

from marcir.data.archive import Place
from marcir.errors import needs
from marcir.geo.footprints import Footprint
from marcir.geo.scene import to_wgs84
from marcir.geo.windows import Window

with needs("geo"):
    import shapely

# Length of a meridian and of the equator (WGS84), in metres.
_MERIDIAN, _EQUATOR = 20_003_931.0, 40_075_017.0
# Shared areas below this share of a window are rounding at common edges.
_TOUCHES = 1e-3
_CHUNK = 4096


def block_at(longitude: float, latitude: float, side: float) -> str:
    """The block of a place: its row from the south pole, and its column from the date line.

    The grid covers the Earth, so scenes of any dates and CRSs have the same blocks. Each row has as many
    columns as make its blocks about square, without a seam at the date line.

    Args:
        longitude: In degrees.
        latitude: In degrees.
        side: Of a block, in metres.

    >>> block_at(180.0, 45.0, 5000), block_at(-180.0, 45.0, 5000)
    ('r3000c0', 'r3000c0')
    """
    rows = max(1, round(_MERIDIAN / side))
    row = min(rows - 1, int((latitude + 90) / 180 * rows))
    middle = math.radians((row + 0.5) / rows * 180 - 90)
    columns = max(1, round(_EQUATOR * math.cos(middle) / side))
    return f"r{row}c{int((longitude + 180) % 360 / 360 * columns) % columns}"


def places_of(windows: Sequence[Window], footprints: Sequence[Footprint], side: float) -> list[Place]:
    """The block of the centre of each window, and the other blocks whose windows overlap it."""
    blocks = [block_at(*_centre(window), side) for window in windows]
    shared: list[set[str]] = [set() for _ in windows]
    geometries = np.array([footprint.geometry for footprint in footprints], dtype=object)
    areas = shapely.area(geometries)
    numbers = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    block_of = np.array([numbers[block] for block in blocks])
    tree = shapely.STRtree(geometries)
    for start in range(0, len(windows), _CHUNK):
        left, right = tree.query(geometries[start : start + _CHUNK], predicate="intersects")
        left = left + start
        other = block_of[left] != block_of[right]
        left, right = left[other], right[other]
        common = shapely.area(shapely.intersection(geometries[left], geometries[right]))
        overlap = common > _TOUCHES * np.minimum(areas[left], areas[right])
        for here, there in zip(left[overlap].tolist(), right[overlap].tolist(), strict=True):
            shared[here].add(blocks[there])
    return [Place(block, frozenset(others)) for block, others in zip(blocks, shared, strict=True)]


def _centre(window: Window) -> tuple[float, float]:
    x, y = window.affine @ (window.width / 2, window.height / 2)
    longitude, latitude = to_wgs84(window.scene.crs).transform(x, y)
    return longitude, latitude
