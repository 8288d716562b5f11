"""An archive with places: windows of one scene, which is turned, and one image across the date line."""

import datetime
import shutil
import struct
from dataclasses import replace
from pathlib import Path

from marcir.search.lance import LanceStore

WEST, NORTH = 13.30, 52.55  # of the first window
STEP = 0.02  # degrees from one window to the next
COLUMNS = 5
ACROSS = "images/000039.png"
ACROSS_BOX = (178.0, -18.0, -178.0, -16.0)
FIRST_DATE = datetime.date(2020, 1, 1)


def corners(place: int) -> list[tuple[float, float]]:
    """The corners of a window: a square that is turned a little, as those of scenes are."""
    west, north = WEST + STEP * (place % COLUMNS), NORTH - STEP * (place // COLUMNS)
    lean = STEP / 10
    return [
        (west, north - lean),
        (west + STEP - lean, north),
        (west + STEP, north - STEP + lean),
        (west + lean, north - STEP),
    ]


def middle(place: int) -> tuple[float, float]:
    """The middle of a window."""
    return WEST + STEP * (place % COLUMNS + 0.5), NORTH - STEP * (place // COLUMNS + 0.5)


def write_places(folder: Path, store: Path) -> Path:
    """A copy of the store of the small archive in which the scenes are windows of one place."""
    copied = Path(shutil.copytree(store, folder / "places.store"))
    archive = LanceStore(copied)
    rows = []
    for place, row in enumerate(archive.get([f"images/{number:06}.png" for number in range(39)])):
        ring = corners(place)
        longitudes, latitudes = zip(*ring, strict=True)
        box = (min(longitudes), min(latitudes), max(longitudes), max(latitudes))
        date = FIRST_DATE + datetime.timedelta(days=30 * place)
        rows.append(replace(row, bbox=box, footprint=_wkb([ring]), date=date))
    (across,) = archive.get([ACROSS])
    west, south, east, north = ACROSS_BOX
    parts = [
        [(low, south), (high, south), (high, north), (low, north)]
        for low, high in ((west, 180), (-180, east))
    ]
    rows.append(replace(across, bbox=ACROSS_BOX, footprint=_wkb(parts), date=None))
    archive.add(rows)
    return copied


def _wkb(rings: list[list[tuple[float, float]]]) -> bytes:
    """Polygons without holes as WKB."""
    polygons = []
    for ring in rings:
        closed = [*ring, ring[0]]
        points = b"".join(struct.pack("<2d", *point) for point in closed)
        polygons.append(struct.pack("<BIII", 1, 3, 1, len(closed)) + points)
    if len(polygons) == 1:
        return polygons[0]
    return struct.pack("<BII", 1, 6, len(polygons)) + b"".join(polygons)
