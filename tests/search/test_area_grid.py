"""Filters by areas with many rows, against a test of every footprint."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from marcir.search import places
from marcir.search.area import Area, box_wkb
from marcir.search.area_grid import AreaGrid, grid_of
from marcir.search.arrow import CORNERS, FOOTPRINT
from marcir.search.places import PlaceIndex
from marcir.search.records import Filter


def star(x: float, y: float, radius: float, points: int) -> shapely.Polygon:
    """A star of many points, with a hole."""
    angles = np.arange(2 * points) * math.pi / points
    radii = np.where(np.arange(2 * points) % 2, radius, radius / 2)
    ring = np.stack([x + radii * np.cos(angles), y + radii * np.sin(angles)], 1)
    return shapely.Polygon(ring, [shapely.Point(x, y).buffer(radius / 5).exterior.coords])


def table_of(corners: np.ndarray, footprints: list[bytes | None]) -> pa.Table:
    columns = {name: pa.array(corners[:, place]) for place, name in enumerate(CORNERS)}
    count = len(corners)
    return pa.table(
        {
            **columns,
            "date": pa.nulls(count, pa.date32()),
            FOOTPRINT: pa.array(footprints, pa.binary()),
        }
    )


def plain(area: Area, corners: np.ndarray, footprints: list[bytes | None]) -> np.ndarray:
    boxes = [box_wkb(tuple(box)) for box in corners.tolist()]
    found = [footprint or box for footprint, box in zip(footprints, boxes, strict=True)]
    return area.touches(np.array(found, object))


AREAS = {
    "a box": shapely.box(0, 0, 16, 8),
    "a triangle": shapely.Polygon([(0, 0), (16, 0), (0, 16)]),
    "a star with a hole": star(3, 3, 8, 9),
    "two parts": shapely.union(shapely.box(0, 0, 4, 4), star(12, 12, 3, 5)),
    "half of the Earth": shapely.box(-90, -80, 90, 80),
    "the Earth": shapely.box(-180, -90, 180, 90),
    "at the date line": shapely.box(176, -4, 180, 4),
    "a tiny one": shapely.box(3, 3, 3 + 1e-12, 3 + 1e-12),
}


@pytest.mark.parametrize("name", AREAS)
@given(seed=st.integers(0, 2**32 - 1), step=st.sampled_from([0.0625, 0.25, 1, math.pi / 10]))
def test_a_grid_finds_what_a_test_of_every_footprint_finds(name: str, seed: int, step: float) -> None:
    """Corners are multiples of a step, so many boxes and footprints touch the area in an edge or a corner."""
    area = Area.from_geojson(shapely.to_geojson(AREAS[name]))
    rng = np.random.default_rng(seed)
    low = rng.integers(-4, 20, (60, 2)) * rng.choice([step, 1.0], (60, 1))
    corners = np.concatenate([low, low + rng.integers(0, 5, (60, 2)) * step], 1)
    corners[:6] = [178, 2, -178, 3]  # across the date line
    corners[3:6, 1::2] += 3
    footprints: list[bytes | None] = [None] * 60
    for k in range(6, 40):  # the diagonal half of its box
        west, south, east, north = corners[k]
        if west < east and south < north:
            footprints[k] = shapely.to_wkb(shapely.Polygon([(west, south), (east, south), (west, north)]))
    wanted = plain(area, corners, footprints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_MANY", 0)
        found = PlaceIndex(table_of(corners, footprints)).mask(Filter(within=area))
    assert found.tolist() == wanted.tolist()


def test_most_boxes_are_decided_by_cells_and_a_grid_is_made_once() -> None:
    area = Area.from_geojson(json.dumps(shapely.geometry.mapping(star(0, 0, 50, 7))))
    low = np.random.default_rng(0).uniform(-60, 60, (10_000, 2))
    inside, outside = AreaGrid(area).place(np.concatenate([low, low + 0.01], 1).T)
    assert (inside | outside).mean() > 0.95
    assert not (inside & outside).any()
    again = Area.from_geojson(json.dumps(shapely.geometry.mapping(star(0, 0, 50, 7))))
    assert grid_of(area) is grid_of(again)
