"""Boxes, areas and points as they are written."""

import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from marcir.errors import ConfigError
from marcir.search.area import (
    Area,
    Box,
    box_wkb,
    enclosing_box,
    inner_point,
    parse_bbox,
    parse_date,
    parse_point,
    parts_of,
    wkb_to_geojson,
)

SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]}
FAR = {"type": "Polygon", "coordinates": [[[10, 0], [11, 0], [11, 1], [10, 1], [10, 0]]]}


@pytest.mark.parametrize(
    "text",
    ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "0,10,1,5", "-181,0,0,1", "0,0,181,1", "0,-91,1,0", "nan,0,1,1"],
)
def test_a_box_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bbox '.*': give W,S,E,N in degrees") as error:
        parse_bbox(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "x,y", "181,0", "0,91", "inf,0"])
def test_a_point_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"point '.*': give LON,LAT in degrees"):
        parse_point(text)


def test_a_date_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="date '31.5.2024': write it as 2024-05-31"):
        parse_date("31.5.2024")


@pytest.mark.parametrize(
    "content",
    [
        SQUARE,
        {"type": "Feature", "properties": {}, "geometry": SQUARE},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": SQUARE}]},
        {"type": "GeometryCollection", "geometries": [SQUARE]},
        {"type": "MultiPolygon", "coordinates": [SQUARE["coordinates"]]},
    ],
    ids=lambda content: str(content["type"]),
)  # fmt: skip
def test_polygons_are_read_from_every_kind_of_geojson(content: dict[str, object]) -> None:
    area = Area.from_geojson(json.dumps(content))
    assert area.boxes == ((0.0, 0.0, 2.0, 2.0),)
    assert shapely.from_wkb(area.wkb).area == 4


def test_parts_of_an_area_have_boxes_of_their_own() -> None:
    both = {"type": "MultiPolygon", "coordinates": [SQUARE["coordinates"], FAR["coordinates"]]}
    assert sorted(Area.from_geojson(json.dumps(both)).boxes) == [(0, 0, 2, 2), (10, 0, 11, 1)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not GeoJSON"),
        ("[]", "not GeoJSON"),
        ("3", "not GeoJSON"),
        ("{}", "a None has no area"),
        ('{"type": "Point", "coordinates": [0, 0]}', "a 'Point' has no area. Give polygons."),
        ('{"type": "Polygon", "coordinates": "x"}', "cannot be read|not GeoJSON"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}', "cannot be read|not GeoJSON"),
        ('{"type": "Polygon", "coordinates": []}', "no polygon with an area"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [2, 0], [0, 0]]]}', "not valid"),
        ('{"type": "FeatureCollection", "features": []}', "no polygon with an area"),
        ('{"type": "FeatureCollection"}', "not GeoJSON"),
        ('{"type": "Polygon", "coordinates": [[[500, 0], [510, 0], [500, 1], [500, 0]]]}', "no degrees"),
        ("[" * 100_000, "not GeoJSON"),
        ('{"type": "Polygon", "coordinates": [[[NaN, 0], [1, 0], [1, 1], [NaN, 0]]]}', "not valid|read"),
    ],
)  # fmt: skip
def test_what_has_no_area_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        Area.from_geojson(text)
    assert "\n" not in str(error.value)


def test_an_area_with_too_many_points_is_refused() -> None:
    angles = np.linspace(0, 2 * np.pi, 100_002)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1).tolist()
    ring[-1] = ring[0]
    with pytest.raises(ConfigError, match="more than 100,000 points"):
        Area.from_geojson(json.dumps({"type": "Polygon", "coordinates": [ring]}))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a.geojson: cannot be read \(.*[Nn]o such file"):
        Area.read(tmp_path / "a.geojson")
    (tmp_path / "b.geojson").write_text("x")
    with pytest.raises(ConfigError, match=r"b.geojson: not GeoJSON"):
        Area.read(tmp_path / "b.geojson")


def test_a_polygon_that_crosses_itself_is_refused_with_the_place() -> None:
    bow = {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]}
    with pytest.raises(
        ConfigError, match=r"area: a polygon is not valid .*Self-intersection\[1 1\].* Correct"
    ):
        Area.from_geojson(json.dumps(bow))


def test_a_polygon_with_thousands_of_crossings_is_refused_before_anything_is_computed_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("make_valid", "union_all"):  # which would take minutes
        monkeypatch.delattr(shapely, name)
    angles = np.arange(202) % 201 * 100 * 2 * np.pi / 201
    star = {"type": "Polygon", "coordinates": [np.stack([np.cos(angles), np.sin(angles)], 1).tolist()]}
    with pytest.raises(ConfigError, match="a polygon is not valid"):
        Area.from_geojson(json.dumps(star))


boxes = st.tuples(*[st.floats(-180, 180)] * 2, *[st.floats(-90, 90)] * 2).map(
    lambda each: (each[0], min(each[2:]), each[1], max(each[2:]))
)


@given(boxes)
def test_boxes_as_wkb_are_what_shapely_reads(box: Box) -> None:
    expected = [shapely.box(*part) for part in parts_of(box)]
    found = shapely.from_wkb(box_wkb(box))
    assert [part.bounds for part in shapely.get_parts(found)] == [each.bounds for each in expected]
    assert wkb_to_geojson(box_wkb(box)) == json.loads(shapely.to_geojson(found))


@given(st.lists(boxes, min_size=1, max_size=6))
def test_the_enclosing_box_has_all_boxes_inside_and_none_is_narrower(given_boxes: list[Box]) -> None:
    found = enclosing_box(given_boxes)
    assert found is not None
    west, south, east, north = found
    width = (east - west) % 360 if (west, east) != (-180.0, 180.0) else 360.0
    for w, s, e, n in given_boxes:
        assert south <= s <= n <= north
        # From the western edge eastward, both ends of the box are met before the eastern edge.
        start, length = (w - west) % 360, (e - w) % 360 if w != e else 0.0
        assert start + length <= width + 1e-6 or width == 360 or start > 360 - 1e-6
    starts = [w for w, _, _, _ in given_boxes]
    assert width == 360 or any(abs((w - west + 180) % 360 - 180) < 1e-9 for w in starts)


@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=12), st.floats(-170, 170), st.booleans())
def test_the_inner_point_of_a_footprint_is_inside(radii: list[float], longitude: float, across: bool) -> None:
    angles = np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    star = shapely.Polygon(
        [(longitude + 9 * r * np.cos(a), 40 + r * np.sin(a)) for r, a in zip(radii, angles, strict=True)]
    )
    shape = star
    if across:
        shape = shapely.union(star, shapely.box(-179, 39.5, -178, 40.5))
    west, south, east, north = shape.bounds
    point = inner_point((west, south, east, north), json.loads(shapely.to_geojson(shape)))
    assert shape.distance(shapely.Point(point)) < 1e-6


def test_no_boxes_have_no_enclosing_box() -> None:
    assert enclosing_box([]) is None
