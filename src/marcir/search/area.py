"""Places: boxes, areas and points in degrees (WGS84), as they are written, and as filters use them.

Edges belong to a place: what only touches it is found, too.
"""

import datetime
import itertools
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marcir.errors import ConfigError, needs
from marcir.files import reason

# West, south, east, north in degrees; west > east across the date line.
Box = tuple[float, float, float, float]
_MAX_POINTS = 100_000
_POLYGON, _MULTIPOLYGON = 3, 6  # types of WKB


def parse_bbox(text: str) -> Box:
    """Read a box `W,S,E,N`.

    Raises:
        ConfigError: If it is not four numbers in range.

    >>> parse_bbox("170,-20,-170,-10")
    (170.0, -20.0, -170.0, -10.0)
    """
    advice = "give W,S,E,N in degrees: longitudes -180 to 180, latitudes -90 to 90, south below north"
    numbers = _numbers(text, 4, f"bbox '{text}': {advice}.")
    return check_box((numbers[0], numbers[1], numbers[2], numbers[3]), f"bbox '{text}': {advice}.")


def check_box(box: Box, problem: str) -> Box:
    """Refuse a box that is not one on the Earth, with this problem as the error's text."""
    west, south, east, north = box
    if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
        raise ConfigError(problem)
    return box


def parse_point(text: str) -> tuple[float, float]:
    """Read a point `LON,LAT`.

    Raises:
        ConfigError: If it is not two numbers in range.

    >>> parse_point("-97.3,47.1")
    (-97.3, 47.1)
    """
    problem = f"point '{text}': give LON,LAT in degrees: longitude -180 to 180, latitude -90 to 90."
    longitude, latitude = _numbers(text, 2, problem)
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):
        raise ConfigError(problem)
    return longitude, latitude


def parse_date(text: str) -> datetime.date:
    """Read a date `2024-05-31`.

    Raises:
        ConfigError: If it is none.
    """
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"date '{text}': write it as 2024-05-31.") from None


def _numbers(text: str, count: int, problem: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(problem) from None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ConfigError(problem)
    return numbers


@dataclass(frozen=True)
class Area:
    """Polygons in degrees.

    Attributes:
        wkb: The polygons as WKB.
        boxes: A box around each part.
    """

    wkb: bytes
    boxes: tuple[Box, ...]

    @classmethod
    def from_geojson(cls, text: str | bytes, where: str = "area", max_points: int = _MAX_POINTS) -> "Area":
        """Read polygons: a geometry, a feature or a collection of features, in longitude and latitude.

        Args:
            text: The GeoJSON.
            where: What errors call it.
            max_points: The most points that all polygons may have together.

        Raises:
            ConfigError: If it is not GeoJSON with valid polygons, or has more points.
        """
        with needs("geo"):
            import shapely
        try:
            content = json.loads(text)
            polygons = [each for each in _geometries(content, where) if each is not None]
            parsed = [shapely.from_geojson(json.dumps(each)) for each in polygons]
        except ConfigError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError(f"{where}: not GeoJSON ({reason(error)}).") from error
        except shapely.errors.ShapelyError as error:
            raise ConfigError(f"{where}: a polygon cannot be read ({reason(error)}).") from error
        if sum(map(shapely.get_num_coordinates, parsed)) > max_points:
            raise ConfigError(f"{where}: more than {max_points:,} points. Simplify it.")
        # To repair a polygon of a hundred edges that all cross takes minutes; to find one crossing does not.
        for each in parsed:
            if not shapely.is_valid(each):
                raise ConfigError(
                    f"{where}: a polygon is not valid ({shapely.is_valid_reason(each)}). Correct it."
                )
        union = shapely.union_all(parsed) if parsed else None
        if union is None or not union.area:
            raise ConfigError(f"{where}: there is no polygon with an area in it.")
        west, south, east, north = union.bounds
        if west < -180 or east > 180 or south < -90 or north > 90:
            raise ConfigError(
                f"{where}: reaches to {west:g},{south:g},{east:g},{north:g}, which are no degrees. GeoJSON "
                "has longitude -180 to 180 and latitude -90 to 90; cut areas in two at the date line."
            )
        parts = shapely.get_parts(union)
        boxes = tuple(tuple(bounds) for bounds in shapely.bounds(parts[shapely.area(parts) > 0]).tolist())
        return cls(shapely.to_wkb(shapely.force_2d(union)), boxes)

    @classmethod
    def read(cls, path: str | Path) -> "Area":
        """Read polygons from a GeoJSON file.

        Raises:
            ConfigError: If there is no such file, or it is not one.
        """
        try:
            return cls.from_geojson(Path(path).read_bytes(), str(path))
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({reason(error)}).") from error

    def touches(self, geometries: np.ndarray) -> np.ndarray:
        """Which geometries, as WKB, have a point in common with the area, bool. (N,)"""
        with needs("geo"):
            import shapely
        area = shapely.from_wkb(self.wkb)
        shapely.prepare(area)
        found: np.ndarray = shapely.intersects(area, shapely.from_wkb(geometries))
        return found


def _geometries(content: Any, where: str) -> list[Any]:
    """The polygons of GeoJSON, as they are written."""
    kind = content.get("type")
    if kind == "FeatureCollection":
        return [each for feature in content["features"] for each in _geometries(feature, where)]
    if kind == "Feature":
        return [] if content["geometry"] is None else _geometries(content["geometry"], where)
    if kind == "GeometryCollection":
        return [each for geometry in content["geometries"] for each in _geometries(geometry, where)]
    if kind not in ("Polygon", "MultiPolygon"):
        raise ConfigError(f"{where}: a {kind!r:.40} has no area. Give polygons.")
    return [content]


def parts_of(box: Box) -> list[Box]:
    """A box as boxes with west <= east: two across the date line.

    >>> parts_of((170, 0, -170, 1))
    [(170, 0, 180.0, 1), (-180.0, 0, -170, 1)]
    """
    west, south, east, north = box
    if west <= east:
        return [box]
    return [(west, south, 180.0, north), (-180.0, south, east, north)]


def centre_of(box: Box) -> tuple[float, float]:
    """Longitude and latitude of the centre of a box.

    >>> centre_of((170, 0, -170, 1))
    (-180.0, 0.5)
    """
    west, south, east, north = box
    width = east - west if west <= east else east + 360 - west
    return (west + width / 2 + 180) % 360 - 180, (south + north) / 2


def inner_point(box: Box, footprint: Mapping[str, Any] | None) -> tuple[float, float]:
    """Longitude and latitude of a point of a footprint: in its widest part at half the height of its box.

    Without a footprint, the centre of the box.

    >>> ring = [[0, 0], [8, 0], [8, 4], [6, 4], [6, 1], [0, 1], [0, 0]]  # the centre of its box is outside
    >>> inner_point((0, 0, 8, 4), {"type": "Polygon", "coordinates": [ring]})
    (7.0, 2.0)
    """
    middle = centre_of(box)
    if footprint is None:
        return middle
    latitude = middle[1]
    polygons = footprint["coordinates"] if footprint["type"] == "MultiPolygon" else [footprint["coordinates"]]
    crossings = sorted(
        x0 + (latitude - y0) / (y1 - y0) * (x1 - x0)
        for ring in itertools.chain.from_iterable(polygons)
        for (x0, y0), (x1, y1) in itertools.pairwise(ring)
        if (y0 < latitude) != (y1 < latitude)
    )
    inside = zip(crossings[::2], crossings[1::2], strict=True)
    west, east = max(inside, key=lambda span: span[1] - span[0], default=(middle[0], middle[0]))
    return (west + east) / 2, latitude


def box_wkb(box: Box) -> bytes:
    """A box as WKB: a polygon, or two across the date line."""
    polygons = []
    for west, south, east, north in parts_of(box):
        polygons.append([[(west, south), (east, south), (east, north), (west, north), (west, south)]])
    return _wkb(polygons, several=len(polygons) > 1)


def geojson_to_wkb(geometry: Mapping[str, Any]) -> bytes:
    """A polygon, or several, from GeoJSON to WKB; the inverse of `wkb_to_geojson`."""
    several = geometry["type"] == "MultiPolygon"
    return _wkb(geometry["coordinates"] if several else [geometry["coordinates"]], several)


def _wkb(polygons: Sequence[Sequence[Sequence[Sequence[float]]]], several: bool) -> bytes:
    parts = []
    for rings in polygons:
        parts.append(struct.pack("<BII", 1, _POLYGON, len(rings)))
        for ring in rings:
            parts += [struct.pack("<I", len(ring)), *(struct.pack("<2d", *point) for point in ring)]
    start = struct.pack("<BII", 1, _MULTIPOLYGON, len(polygons)) if several else b""
    return start + b"".join(parts)


def wkb_to_geojson(wkb: bytes) -> dict[str, Any]:
    """A polygon, or several, from WKB to GeoJSON.

    >>> wkb_to_geojson(box_wkb((1, 2, 3, 4)))["coordinates"]
    [[[1.0, 2.0], [3.0, 2.0], [3.0, 4.0], [1.0, 4.0], [1.0, 2.0]]]
    >>> wkb_to_geojson(box_wkb((170, 0, -170, 1)))["type"]
    'MultiPolygon'
    """
    (kind,) = struct.unpack_from("<I", wkb, 1)
    if kind == _POLYGON:
        return {"type": "Polygon", "coordinates": _rings(wkb, 0)[0]}
    (count,) = struct.unpack_from("<I", wkb, 5)
    at, polygons = 9, []
    for _ in range(count):
        rings, at = _rings(wkb, at)
        polygons.append(rings)
    return {"type": "MultiPolygon", "coordinates": polygons}


def _rings(wkb: bytes, at: int) -> tuple[list[list[list[float]]], int]:
    """The rings of the polygon that begins at a byte, and where it ends."""
    (count,) = struct.unpack_from("<I", wkb, at + 5)
    at, rings = at + 9, []
    for _ in range(count):
        (points,) = struct.unpack_from("<I", wkb, at)
        coordinates = np.frombuffer(wkb, "<f8", 2 * points, at + 4).reshape(-1, 2)
        rings.append(coordinates.tolist())
        at += 4 + 16 * points
    return rings, at


def enclosing_box(boxes: Sequence[Box] | np.ndarray) -> Box | None:
    """The smallest box around boxes; it crosses the date line where that is shorter. None without any. (N, 4)

    >>> enclosing_box([(170, 0, 175, 1), (-175, -1, -170, 0)])
    (170.0, -1.0, -170.0, 1.0)
    """
    found = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not len(found):
        return None
    order = np.argsort(found[:, 0], kind="stable")
    west, east = found[order, 0], found[order, 2]
    end = np.maximum.accumulate(np.where(east < west, east + 360, east))
    end = np.maximum(end, end[-1] - 360)  # what reaches around the Earth covers the first ones, too
    gaps = np.append(west[1:], west[0] + 360) - end  # after each box: free longitudes
    widest = int(np.argmax(gaps))
    south, north = float(found[:, 1].min()), float(found[:, 3].max())
    if gaps[widest] <= 0:
        return -180.0, south, 180.0, north
    last = float(end[widest])
    return float(west[(widest + 1) % len(west)]), south, last if last <= 180 else last - 360, north
