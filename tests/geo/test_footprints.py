"""Footprints against pyproj in plain loops; the date line, the poles, rotation."""

import math
from dataclasses import replace

import numpy as np
import pyproj
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st

from marcir.errors import DataError
from marcir.geo.footprints import Footprint, footprints_of, scene_footprint
from marcir.geo.scene import Band, Scene
from marcir.geo.windows import Window, WindowGrid, windows_of
from marcir.search.area import inner_point, parts_of, wkb_to_geojson

GEOD = pyproj.Geod(ellps="WGS84")


def scene(crs: str, transform: Affine, width: int = 200, height: int = 100) -> Scene:
    return Scene("a.tif", crs, transform[:6], width, height, (Band("", 1),), "uint8", (1, 1))


def geodesic_area(footprint: Footprint) -> float:
    return abs(GEOD.geometry_area_perimeter(footprint.geometry)[0])


def inside_by_hand(window: Window, longitude: float, latitude: float) -> bool:
    """Whether a point of the Earth is inside the window, found in the scene's CRS."""
    back = pyproj.Transformer.from_crs("EPSG:4326", window.scene.crs, always_xy=True)
    x, y = back.transform(longitude, latitude)
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    column, row = ~window.affine @ (x, y)
    return 0 <= column <= window.width and 0 <= row <= window.height


def check(window: Window, footprint: Footprint, points: int = 200) -> None:
    """Points drawn in and around the window are in the footprint exactly if they are in the window."""
    assert footprint.geometry.is_valid
    forth = pyproj.Transformer.from_crs(window.scene.crs, "EPSG:4326", always_xy=True)
    rng = np.random.default_rng(0)
    west, south, east, north = footprint.bbox
    checked = 0
    for _ in range(points):
        column = rng.uniform(-0.5, 1.5) * window.width
        row = rng.uniform(-0.5, 1.5) * window.height
        border = min(abs(column), abs(row), abs(column - window.width), abs(row - window.height)) / max(
            window.width, window.height
        )
        longitude, latitude = forth.transform(*(window.affine @ (column, row)))
        if border < 0.01 or not math.isfinite(longitude) or not inside_again(window, column, row):
            continue
        longitude = (longitude + 180) % 360 - 180
        wanted = inside_by_hand(window, longitude, latitude)
        assert footprint.geometry.covers(shapely.Point(longitude, latitude)) == wanted
        if wanted:
            assert south <= latitude <= north
            assert west <= longitude <= east if west <= east else longitude >= west or longitude <= east
            checked += 1
    assert checked > points / 10


def inside_again(window: Window, column: float, row: float) -> bool:
    """Whether a point comes back to its place: outside of its area, a projection does not have an inverse."""
    forth = pyproj.Transformer.from_crs(window.scene.crs, "EPSG:4326", always_xy=True)
    x, y = window.affine @ (column, row)
    again = forth.transform(*forth.transform(x, y), direction="INVERSE")
    return math.hypot(again[0] - x, again[1] - y) < 1e-3 * math.hypot(window.affine.a, window.affine.b) * 100


def test_footprints_are_the_reprojected_edges_by_hand() -> None:
    of = scene("EPSG:32614", Affine(300, 0, 400_000, 0, -300, 5_200_000), 500, 300)
    forth = pyproj.Transformer.from_crs("EPSG:32614", "EPSG:4326", always_xy=True)
    windows = list(windows_of(of, WindowGrid(128)))
    for window, footprint in zip(windows, footprints_of(windows), strict=True):
        ring = []
        corners = [(0, 0), (0, window.height), (window.width, window.height), (window.width, 0)]
        for k in range(4):
            (c0, r0), (c1, r1) = corners[k], corners[(k + 1) % 4]
            for step in range(200):
                share = step / 200
                x = 400_000 + 300 * (window.x + c0 + (c1 - c0) * share)
                y = 5_200_000 - 300 * (window.y + r0 + (r1 - r0) * share)
                ring.append(forth.transform(x, y))
        exact = shapely.Polygon(ring)
        difference = footprint.geometry.symmetric_difference(exact).area / exact.area
        assert difference < 2e-5
        assert footprint.bbox == pytest.approx(exact.bounds, abs=1e-5)
        assert footprint.geometry.exterior.is_ccw


@given(
    st.floats(-179, 179),
    st.floats(-75, 75),
    st.floats(0, 360),
    st.sampled_from([1, 10, 300]),
    st.sampled_from([-1, 1]),
)
def test_areas_agree_with_the_pixels_anywhere_and_at_any_rotation(
    longitude: float, latitude: float, angle: float, metres: float, flip: int
) -> None:
    crs = f"+proj=laea +lon_0={longitude} +lat_0={latitude} +datum=WGS84"  # keeps areas
    turned = Affine.rotation(angle) @ Affine.scale(metres, flip * metres)
    window = Window(scene(crs, turned), 20, 30, 100, 50)
    (footprint,) = footprints_of([window])
    assert footprint.geometry.is_valid
    assert geodesic_area(footprint) == pytest.approx(100 * 50 * metres**2, rel=1e-3)


def test_a_rotated_window_is_where_its_geotransform_puts_it() -> None:
    turned = Affine.translation(500_000, 5_000_000) @ Affine.rotation(33) @ Affine.scale(10, -20)
    window = Window(scene("EPSG:32614", turned), 50, 20, 60, 40)
    (footprint,) = footprints_of([window])
    check(window, footprint)


def test_windows_with_stride_equal_window_tile_the_scene() -> None:
    of = scene("EPSG:32614", Affine(30, 0, 400_000, 0, -30, 5_200_000), 500, 300)
    parts = footprints_of(list(windows_of(of, WindowGrid(128))))
    whole = scene_footprint(of)
    assert sum(geodesic_area(part) for part in parts) == pytest.approx(geodesic_area(whole), rel=1e-6)
    assert len(parts) == 12


def test_a_window_across_the_date_line_has_a_part_on_each_side_and_west_above_east() -> None:
    window = Window(
        scene("EPSG:32601", Affine(1000, 0, 166_000 - 50_000, 0, -1000, 10_000), 100, 20), 0, 0, 100, 20
    )
    (footprint,) = footprints_of([window])
    assert footprint.geometry.geom_type == "MultiPolygon"
    assert len(footprint.geometry.geoms) == 2
    west, _, east, _ = footprint.bbox
    assert 179 < west < 180
    assert -180 < east < -179
    assert geodesic_area(footprint) == pytest.approx(100 * 20 * 1e6, rel=0.01)
    check(window, footprint)
    for part in footprint.geometry.geoms:
        assert part.exterior.is_ccw
        assert part.bounds[0] >= -180
        assert part.bounds[2] <= 180


@pytest.mark.parametrize(
    ("crs", "lowest", "highest"),
    [
        ("EPSG:32660", 1, 75),
        ("EPSG:32601", 1, 75),
        ("EPSG:32701", -75, -1),
        ("EPSG:32760", -75, -1),
        ("EPSG:3460", -20, -13),
        ("EPSG:3832", -60, 60),
        ("EPSG:3413", 62, 85),
    ],
)
@given(data=st.data())
def test_windows_at_the_date_line_are_valid_and_fill_their_boxes(
    crs: str, lowest: float, highest: float, data: st.DataObject
) -> None:
    metres = data.draw(st.floats(3, 400))
    shift = data.draw(st.floats(-0.3, 0.3)) * 256 * metres / 111_000
    forth = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    x, y = forth.transform(180 - shift, data.draw(st.floats(lowest, highest)))
    transform = Affine.translation(x - 128 * metres, y + 128 * metres) @ Affine.scale(metres, -metres)
    (footprint,) = footprints_of([Window(scene(crs, transform, 256, 256), 0, 0, 256, 256)])
    assert footprint.geometry.is_valid
    boxes = [shapely.box(*part) for part in parts_of(footprint.bbox)]
    assert footprint.geometry.bounds == pytest.approx(shapely.union_all(boxes).bounds, abs=1e-9)
    assert len(boxes) == len(shapely.get_parts(footprint.geometry))
    for part, box in zip(reversed(sorted_parts(footprint)), boxes, strict=True):
        assert part.bounds[::2] == pytest.approx(box.bounds[::2], abs=1e-9)


def sorted_parts(footprint: Footprint) -> list[shapely.Polygon]:
    """Parts from west to east."""
    return sorted(shapely.get_parts(footprint.geometry).tolist(), key=lambda part: float(part.bounds[0]))


@pytest.mark.parametrize(
    ("left", "bbox"), [(179, (179, -1, -179, 1)), (180, (-180, -1, -178, 1)), (178, (178, -1, 180, 1))]
)
def test_degrees_beyond_180_and_edges_on_the_date_line(left: float, bbox: tuple[float, ...]) -> None:
    window = Window(scene("EPSG:4326", Affine(0.02, 0, left, 0, -0.02, 1), 100, 100), 0, 0, 100, 100)
    (footprint,) = footprints_of([window])
    assert footprint.bbox == pytest.approx(bbox)
    assert footprint.geometry.area == pytest.approx(4)
    assert (footprint.geometry.geom_type == "MultiPolygon") == (left == 179)


def test_a_scene_of_the_whole_earth_is_one_rectangle() -> None:
    for left in (-180, 0):
        footprint = scene_footprint(scene("EPSG:4326", Affine(1, 0, left, 0, -1, 90), 360, 180))
        assert footprint.bbox == (-180, -90, 180, 90)
        assert footprint.geometry.area == pytest.approx(360 * 180)
    mercator = Affine(400_750.1668, 0, -20_037_508.34, 0, -400_750.1668, 20_037_508.34)
    footprint = scene_footprint(scene("EPSG:3857", mercator, 100, 100))
    assert footprint.bbox == pytest.approx((-180, -85.05, 180, 85.05), abs=0.01)


@pytest.mark.parametrize(("crs", "sign"), [("EPSG:3995", 1), ("EPSG:3031", -1)])
def test_a_window_that_contains_a_pole_reaches_it_at_all_longitudes(crs: str, sign: int) -> None:
    window = Window(scene(crs, Affine(10_000, 0, -300_000, 0, -10_000, 500_000), 100, 100), 0, 0, 100, 100)
    (footprint,) = footprints_of([window])
    west, south, east, north = footprint.bbox
    assert (west, east) == (-180, 180)
    assert (north if sign > 0 else south) == 90 * sign
    assert footprint.geometry.geom_type == "Polygon"
    check(window, footprint)
    for longitude in range(-180, 181, 15):
        assert footprint.geometry.covers(shapely.Point(longitude, 89.9 * sign))
        assert footprint.geometry.covers(shapely.Point(longitude, 90 * sign))


@pytest.mark.parametrize("crs", ["EPSG:3995", "EPSG:3031", "EPSG:3413"])
def test_windows_with_a_corner_at_a_pole_are_quarters_of_the_cap(crs: str) -> None:
    of = scene(crs, Affine(10_000, 0, -500_000, 0, -10_000, 500_000), 100, 100)
    windows = list(windows_of(of, WindowGrid(50)))
    found = footprints_of(windows)
    for window, footprint in zip(windows, found, strict=True):
        check(window, footprint)
        assert geodesic_area(footprint) == pytest.approx(geodesic_area(found[0]), rel=1e-3)
        assert max(abs(footprint.bbox[1]), abs(footprint.bbox[3])) == 90
    together = shapely.union_all([footprint.geometry for footprint in found])
    assert together.area == pytest.approx(sum(footprint.geometry.area for footprint in found), rel=1e-6)


@pytest.mark.parametrize("offset", [0, 7, 13])
def test_windows_with_an_edge_through_a_pole_are_halves(offset: int) -> None:
    of = scene("EPSG:3995", Affine(10_000, 0, -(500_000 + 10_000 * offset), 0, -10_000, 500_000), 100, 100)
    windows = [Window(of, 0, 0, 100, 50), Window(of, 0, 50, 100, 50)]
    for window, footprint in zip(windows, footprints_of(windows), strict=True):
        check(window, footprint)
        assert footprint.bbox[3] == 90


@pytest.mark.parametrize(("crs", "sign"), [("EPSG:6931", 1), ("EPSG:6932", -1)])
def test_a_window_of_more_than_a_hemisphere_reaches_its_own_pole(crs: str, sign: int) -> None:
    """EASE-Grid 2.0: the mean latitude of the outline lies beyond the equator."""
    of = scene(crs, Affine(25_000, 0, -9_000_000, 0, -25_000, 9_000_000), 720, 720)
    footprint = scene_footprint(of)
    _, south, _, north = footprint.bbox
    assert (north if sign > 0 else south) == 90 * sign
    corner = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(9e6, 9e6)
    assert (south if sign > 0 else north) == pytest.approx(corner[1])
    for longitude in range(-180, 181, 15):
        assert footprint.geometry.covers(shapely.Point(longitude, 45 * sign))
        assert not footprint.geometry.covers(shapely.Point(longitude, -86 * sign))
    check(Window(of, 0, 0, 720, 720), footprint)


@pytest.mark.parametrize("x", range(0, 256, 32))
def test_the_point_that_is_printed_of_a_window_near_a_pole_is_inside(x: int) -> None:
    of = scene("EPSG:3413", Affine(10_000, 0, -1_280_000, 0, -10_000, 1_280_000), 256, 256)
    for footprint in footprints_of([Window(of, x, y, 32, 32) for y in range(0, 256, 32)]):
        point = inner_point(footprint.bbox, wkb_to_geojson(footprint.wkb))
        assert footprint.geometry.covers(shapely.Point(point))


def test_a_window_beyond_a_pole_is_one_line() -> None:
    of = scene("EPSG:4326", Affine(1, 0, 0, 0, -1, 92), 50, 50)
    with pytest.raises(DataError, match=r"^a.tif: a part of it has no area on the Earth"):
        footprints_of([Window(of, 0, 0, 50, 1)])


def test_windows_keep_their_order_over_scenes() -> None:
    one = scene("EPSG:32614", Affine(10, 0, 500_000, 0, -10, 5_000_000))
    other = Scene("b.tif", "EPSG:4326", (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 9, 9, one.bands, "uint8", (1, 1))
    windows = [Window(one, 0, 0, 5, 5), Window(other, 0, 0, 5, 5), Window(one, 9, 9, 5, 5)]
    for window, footprint in zip(windows, footprints_of(windows), strict=True):
        assert footprint == footprints_of([window])[0]


def test_a_window_outside_of_its_projection_is_one_line() -> None:
    disc = "+proj=ortho +lon_0=0 +lat_0=0 +datum=WGS84"
    with pytest.raises(DataError, match=r"^a.tif: a part of it lies outside of its projection"):
        scene_footprint(scene(disc, Affine(200_000, 0, -8_000_000, 0, -200_000, 8_000_000), 80, 80))


def test_footprints_follow_the_resolution() -> None:
    of = scene("EPSG:32614", Affine(10, 0, 500_000, 0, -10, 5_000_000), 100, 100)
    of = replace(of, resolution=(10, 10))
    (coarse,) = footprints_of(list(windows_of(of, WindowGrid(64, resolution=30))))
    whole = scene_footprint(of)
    assert coarse.bbox == pytest.approx(whole.bbox, abs=1e-9)
    assert geodesic_area(coarse) == pytest.approx(geodesic_area(whole), rel=1e-6)
