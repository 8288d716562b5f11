"""Footprints: where windows are on the Earth, as polygons in WGS84.

Edges are densified before they are reprojected. A footprint across the date line is a MultiPolygon with one
part on each side (RFC 7946, 3.1.9), and its bbox has west > east (RFC 7946, 5.2). A footprint that contains a
pole reaches up to it along all longitudes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from marcir.errors import DataError, needs
from marcir.geo.scene import Scene, to_wgs84
from marcir.geo.windows import Window

with needs("geo"):
    import pyproj
    import shapely
    from affine import Affine
    from pyproj.exceptions import ProjError
    from shapely import MultiPolygon, Point, Polygon, affinity

# Pieces per edge. At 77 km and 45 degrees the true edge is within half a metre of them.
_PIECES = 16
# Degrees, about 0.1 m: straight edges keep their corners only.
_STRAIGHT = 1e-6


@dataclass(frozen=True)
class Footprint:
    """Where a window is.

    Attributes:
        geometry: Longitude and latitude in degrees, within -180 to 180; exterior rings run counter-clockwise.
        bbox: West, south, east, north in degrees; west > east across the date line.
    """

    geometry: Polygon | MultiPolygon
    bbox: tuple[float, float, float, float]

    @property
    def outline(self) -> Polygon | MultiPolygon:
        """The geometry, with the corners only where its edges are straight."""
        return shapely.simplify(self.geometry, _STRAIGHT)

    @property
    def wkb(self) -> bytes:
        """The outline as well-known binary."""
        return bytes(shapely.to_wkb(self.outline))


def footprints_of(windows: Sequence[Window]) -> list[Footprint]:
    """Footprints of windows, in their order; fastest for many windows of one scene.

    Raises:
        DataError: If a window's edge has no longitude and latitude.
    """
    found: list[Footprint | None] = [None] * len(windows)
    by_scene: dict[str, list[int]] = {}
    for place, window in enumerate(windows):
        by_scene.setdefault(window.scene.id, []).append(place)
    for places in by_scene.values():
        some = [windows[place] for place in places]
        corners = np.array([_corners(window.affine, window.width, window.height) for window in some])
        for place, footprint in zip(places, _outlines(some[0].scene, corners), strict=True):
            found[place] = footprint
    return [footprint for footprint in found if footprint is not None]


def scene_footprint(scene: Scene) -> Footprint:
    """Footprint of a whole scene.

    Raises:
        DataError: If its edge has no longitude and latitude.
    """
    return _outlines(scene, _corners(scene.affine, scene.width, scene.height)[None])[0]


def _corners(affine: Affine, width: int, height: int) -> np.ndarray:
    """The four corners in the CRS, in the order of the ring. (4, 2)"""
    return np.array([affine @ corner for corner in ((0, 0), (0, height), (width, height), (width, 0))])


def _outlines(scene: Scene, corners: np.ndarray) -> list[Footprint]:
    """Footprints of parallelograms, given by their corners. (N, 4, 2)"""
    steps = np.arange(_PIECES)[:, None] / _PIECES  # (P, 1)
    edges = [
        corners[:, None, k] * (1 - steps) + corners[:, None, (k + 1) % 4] * steps for k in range(4)
    ]  # 4 x (N, P, 2)
    rings = np.concatenate([*edges, corners.mean(1, keepdims=True)], axis=1)  # (N, 4 * P + 1, 2)
    degrees = _reproject(scene, rings)
    plain = _are_plain(scene, rings, degrees)
    polygons = iter(shapely.orient_polygons(shapely.polygons(degrees[plain, :-1])))
    boxes = iter(np.concatenate([degrees[plain, :-1].min(1), degrees[plain, :-1].max(1)], 1).tolist())
    found = []
    for k in range(len(rings)):
        if plain[k]:
            found.append(Footprint(next(polygons), tuple(next(boxes))))
        else:
            outline = _through_poles(scene, rings[k, :-1], degrees[k, :-1], degrees[k, -1, 0])
            found.append(_footprint(scene, rings[k, :-1], outline))
    return found


def _are_plain(scene: Scene, rings: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Which rings are far from the date line and the poles: nearly all. (N,)"""
    longitudes, latitudes = degrees[..., 0], degrees[..., 1]
    plain: np.ndarray = (np.abs(longitudes) <= 180).all(1) & (np.abs(latitudes) <= 90).all(1)
    plain &= np.ptp(longitudes, axis=1) < 180
    centres = rings[:, -1]
    radius = np.linalg.norm(rings - centres[:, None], axis=2).max(1)
    for _, pole in _poles(scene.crs):
        plain &= np.linalg.norm(centres - pole, axis=1) > 1.01 * radius
    return plain


def _reproject(scene: Scene, points: np.ndarray) -> np.ndarray:
    """Longitude and latitude. (..., 2) -> (..., 2)"""
    flat = points.reshape(-1, 2)
    try:
        longitudes, latitudes = to_wgs84(scene.crs).transform(flat[:, 0], flat[:, 1], errcheck=True)
        if not np.isfinite(longitudes).all() or not np.isfinite(latitudes).all():
            raise ProjError("not every projection has an error for it")
    except ProjError as error:
        raise DataError(
            f"{scene.id}: a part of it lies outside of its projection and has no longitude and latitude. "
            "Crop or reproject it."
        ) from error
    return np.stack([longitudes, latitudes], -1).reshape(points.shape)


@cache
def _poles(crs: str) -> list[tuple[float, np.ndarray]]:
    """Latitude and coordinates of the poles that are points of a projected CRS."""
    if pyproj.CRS.from_user_input(crs).is_geographic:
        return []
    found = []
    for latitude in (90.0, -90.0):
        # A cylindrical projection has the pole as a line, or nowhere: then two longitudes differ.
        x, y = to_wgs84(crs).transform([0.0, 90.0], [latitude] * 2, direction="INVERSE")
        if np.isfinite([x, y]).all() and abs(x[0] - x[1]) + abs(y[0] - y[1]) < 1e-3:
            found.append((latitude, np.array([x[0], y[0]])))
    return found


def _through_poles(scene: Scene, ring: np.ndarray, outline: np.ndarray, centre: float) -> np.ndarray:
    """Follow the pole's latitude from one edge to the next where the outline runs through a pole.

    A pole has no longitude: there the outline turns from the longitude of the edge before to that of the edge
    after, through that of the centre (the window is convex, so the centre lies between them).

    Args:
        scene: The scene.
        ring: The outline in the CRS. (M, 2)
        outline: The outline in degrees. (M, 2)
        centre: Longitude of the centre.
    """
    for latitude, pole in _poles(scene.crs):
        outline = _through_pole(ring, outline, latitude, pole, centre)
    return outline


def _through_pole(
    ring: np.ndarray, outline: np.ndarray, latitude: float, pole: np.ndarray, centre: float
) -> np.ndarray:
    following = np.roll(ring, -1, 0)
    side = following - ring
    length = np.linalg.norm(side, axis=1)
    offset = pole - ring
    along = (offset * side).sum(1) / length**2
    away = np.abs(side[:, 0] * offset[:, 1] - side[:, 1] * offset[:, 0]) / length
    near = 1e-6 * length.max()
    on = np.flatnonzero((away < near) & (along * length > -near) & (along * length < length - near))
    if not len(on):
        return outline
    k = int(on[0])
    at_vertex = abs(along[k]) * length[k] < near
    before = outline[k - 1 if at_vertex else k]
    after = outline[(k + 1) % len(outline)]
    turn = [[longitude, latitude] for longitude in (before[0], centre, after[0])]
    return np.concatenate([outline[: k if at_vertex else k + 1], turn, outline[k + 1 :]])


def _footprint(scene: Scene, ring: np.ndarray, outline: np.ndarray) -> Footprint:
    """Footprint of a window that may cross the date line or contain a pole.

    Args:
        scene: The scene.
        ring: The outline in the CRS. (M, 2)
        outline: The outline in degrees, with turns at poles. (N, 2)
    """
    longitudes = np.unwrap(np.append(outline[:, 0], outline[0, 0]), period=360)  # (M + 1,)
    degrees = np.column_stack([longitudes, np.append(outline[:, 1], outline[0, 1])])
    if abs(longitudes[-1] - longitudes[0]) > 180:
        pole = _pole_inside(scene, ring, outline)
        degrees = np.vstack([degrees, [[longitudes[-1], pole], [longitudes[0], pole]]])
    else:
        degrees[-1] = degrees[0]  # rounding in `unwrap` would leave a gap, and an invalid polygon
    degrees[:, 1] = degrees[:, 1].clip(-90, 90)
    polygon = Polygon(degrees)
    if not polygon.is_valid:
        polygon = shapely.make_valid(polygon, method="structure", keep_collapsed=False)
    if not polygon.area:
        raise DataError(f"{scene.id}: a part of it has no area on the Earth. Crop it to latitudes -90 to 90.")
    west, south, east, north = polygon.bounds
    if east - west >= 360 - 1e-9:
        bbox = (-180.0, south, 180.0, north)
    else:
        bbox = (_normal(west), south, -_normal(-east), north)
    return Footprint(_split(polygon), bbox)


def _pole_inside(scene: Scene, ring: np.ndarray, outline: np.ndarray) -> float:
    """Latitude of the pole that is inside an outline; the nearer one where both are lines of the CRS."""
    window = Polygon(ring)
    inside = (latitude for latitude, pole in _poles(scene.crs) if window.contains(Point(pole)))
    return next(inside, math.copysign(90.0, outline[:, 1].mean()))


def _normal(longitude: float) -> float:
    """The same longitude in -180 <= x < 180.

    >>> _normal(190), _normal(-180), -_normal(-180)
    (-170.0, -180.0, 180.0)
    """
    return float((longitude + 180) % 360 - 180)


def _split(polygon: Polygon | MultiPolygon) -> Polygon | MultiPolygon:
    """Cut a valid polygon at the date line, and move each part to -180..180."""
    west, _, east, _ = polygon.bounds
    if west >= -180 and east <= 180:
        return shapely.orient_polygons(polygon)
    parts: list[Polygon] = []
    for turn in range(int(np.floor((west + 180) / 360)), int(np.ceil((east - 180) / 360)) + 1):
        piece = polygon.intersection(shapely.box(turn * 360 - 180, -90, turn * 360 + 180, 90))
        moved = affinity.translate(piece, -360.0 * turn)
        parts += [part for part in getattr(moved, "geoms", [moved]) if part.area > 0]
    # Parts that meet at the meridian where an outline around a pole starts become one.
    return shapely.orient_polygons(shapely.union_all(parts))
