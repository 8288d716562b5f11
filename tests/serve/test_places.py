"""Filters by place and time, and searches by a point on the ground."""

import datetime
import json
from typing import Any

import pytest

from marcir.errors import DependencyError
from marcir.search.area import Area
from marcir.serve.settings import MAX_AREA_POINTS, MAX_AREA_TEXT
from serve.server_process import Server, until
from serve.small_archive import NASTY

# Image, box and date, as the table of the small archive has them.
PLACES = [
    *(
        (
            f"images/{place:06}.png",
            (-150 + 8 * place, -10, -130 + 8 * place if -150 + 8 * place < 160 else -170, 10),
            datetime.date(2024, 5, 1 + place % 28),
        )
        for place in range(0, 40, 3)
    ),
    (NASTY[2], (7, 50, 8, 51), datetime.date(2023, 1, 2)),
]
BOW = json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]})
COMB = json.dumps(
    {
        "type": "Polygon",
        "coordinates": [[[0, 1], *([place, place % 2] for place in range(MAX_AREA_POINTS)), [0, 1]]],
    }
)
ACROSS = next(name for name, box, _ in PLACES if box[0] > box[2])


def overlap(box: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes touch, by cutting both at the date line."""

    def spans(west: float, east: float) -> list[tuple[float, float]]:
        return [(west, east)] if west <= east else [(west, 180), (-180, east)]

    across = any(
        a[0] <= b[1] and b[0] <= a[1] for a in spans(box[0], box[2]) for b in spans(other[0], other[2])
    )
    return across and box[1] <= other[3] and other[1] <= box[3]


def found(server: Server, **filters: str) -> list[str]:
    return sorted(hit["id"] for hit in server.get("/api/sample", limit=200, **filters)["hits"])


@pytest.mark.parametrize(
    "box", ["-180,-90,180,90", "0,0,30,5", "170,-5,-175,5", "7.5,50.5,7.6,50.6", "8,51,9,52"]
)
def test_a_box_finds_the_images_that_touch_it(server: Server, box: str) -> None:
    numbers = tuple(map(float, box.split(",")))
    wanted = sorted(name for name, place, _ in PLACES if overlap(place, numbers))
    assert found(server, bbox=box) == wanted
    assert server.get("/api/labels", bbox=box)["images"] == len(wanted)
    # A search leaves out the image that it searches with.
    hits = server.get("/api/search", id="images/000001.png", bbox=box, limit=200)
    assert (sorted(hit["id"] for hit in hits["hits"]), hits["total"]) == (wanted, len(wanted))


def test_an_area_and_dates_narrow_together(server: Server) -> None:
    triangle = {"type": "Polygon", "coordinates": [[[-150, -10], [-100, -10], [-150, 40], [-150, -10]]]}
    inside = found(server, within=json.dumps(triangle))
    # The right edge of a box of this triangle is at -100; the hypotenuse leaves out what begins beyond it.
    assert inside == sorted(name for name, box, _ in PLACES if overlap(box, (-150, -10, -100, 10)))
    first, last = "2024-05-04", "2024-05-10"
    dated = {
        name
        for name, _, date in PLACES
        if datetime.date.fromisoformat(first) <= date <= datetime.date.fromisoformat(last)
    }
    assert found(server, **{"from": first, "to": last}) == sorted(dated)
    assert found(server, within=json.dumps(triangle), **{"from": first, "to": last}) == sorted(
        dated & set(inside)
    )


def test_the_archive_says_where_and_when(server: Server) -> None:
    about = server.get("/api/archive")
    assert about["extent"][1::2] == [-10, 51]
    assert (about["first_date"], about["last_date"]) == ("2023-01-02", "2024-05-28")
    assert about["basemap"] is None


def test_the_image_at_a_point_is_the_query(server: Server) -> None:
    answer = server.get("/api/search", at="7.5,50.5", limit=5)
    same = server.get("/api/search", id=NASTY[2], limit=5)
    assert answer["query"]["kind"] == "place"
    assert answer["query"]["images"] == same["query"]["images"] == [NASTY[2]]
    assert answer["hits"] == same["hits"]
    assert server.get("/api/search", at="-175,0")["query"]["images"] == [ACROSS]


def test_hits_have_footprints_only_where_they_are_known(server: Server) -> None:
    hits = server.get("/api/sample", limit=200)["hits"]
    assert {hit["footprint"] for hit in hits} == {None}  # a table has boxes alone


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"bbox": "1,2,3"}, "bbox '1,2,3': give W,S,E,N in degrees"),
        ({"bbox": "0,10,1,5"}, "bbox '0,10,1,5': give W,S,E,N in degrees"),
        ({"bbox": "0,0,nan,5"}, "give W,S,E,N in degrees"),
        ({"within": "polygon"}, "within: not GeoJSON"),
        (
            {"within": '{"type": "Point", "coordinates": [1, 2]}'},
            "within: a 'Point' has no area. Give polygons.",
        ),
        ({"within": "[" * 20_000}, "within: not GeoJSON"),
        ({"within": BOW}, "within: a polygon is not valid (Self-intersection[1 1]). Correct it."),
        ({"within": COMB}, f"within: more than {MAX_AREA_POINTS:,} points. Simplify it."),
        ({"from": "yesterday"}, "date 'yesterday': write it as 2024-05-31."),
        ({"from": "1700000000"}, "date '1700000000': write it as 2024-05-31."),
        ({"from": "2024-02-02", "to": "2024-02-01"}, "give the earlier one first."),
        ({"fron": "2024-02-02"}, "unknown parameter 'fron'. Did you mean 'from'?"),
        ({"date_from": "2024-02-02"}, "unknown parameter 'date_from'."),
        ({"bbox": ["0,0,1,1", "0,0,2,2"]}, "bbox: given 2 times. Give it once."),
    ],
)
@pytest.mark.parametrize("path", ["/api/sample", "/api/labels", "/api/search"])
def test_places_and_dates_that_are_none_are_refused_in_one_line(
    server: Server, path: str, parameters: dict[str, Any], text: str
) -> None:
    query = {"id": "images/000000.png"} if path == "/api/search" else {}
    status, sentence = server.refusal(path, **query, **parameters)
    assert status == 422
    assert text in sentence


def test_a_package_that_the_service_lacks_is_no_mistake_of_the_request(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object, **__: object) -> Area:
        raise DependencyError("shapely is not installed. Install it with: pip install 'marcir[geo]'")

    monkeypatch.setattr(Area, "from_geojson", lacking)
    status, text = server.refusal("/api/sample", within="{}")
    assert (status, "shapely" in text) == (500, False)
    until(lambda: "shapely is not installed" in server.log.read_text(), "the reason is logged")


def test_an_area_has_the_same_limits_in_a_body(editing_server: Server) -> None:
    for within, text in (
        (BOW, "not valid"),
        (COMB, "points"),
        (" " * (MAX_AREA_TEXT + 1), "filter.within: "),
    ):
        reply = editing_server.post("/api/collections", {"name": "x", "filter": {"within": within}})
        assert (reply.status, text in reply.error) == (422, True), reply.error


def test_an_area_is_read_once_in_a_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    read, original = [], Area.from_geojson

    def count(text: str, where: str = "area", max_points: int = 0) -> Area:
        read.append(text)
        return original(text, where, max_points)

    monkeypatch.setattr(Area, "from_geojson", count)
    triangle = json.dumps({"type": "Polygon", "coordinates": [[[7, 50], [9, 50], [9, 52], [7, 50]]]})
    assert server.get("/api/search", at="7.5,50.5", within=triangle)["query"]["images"] == [NASTY[2]]
    assert len(read) == 1


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("1", "point '1': give LON,LAT in degrees"),
        ("200,0", "point '200,0': give LON,LAT in degrees"),
        ("100,80", "no image of the store shows 100,80."),
    ],
)
def test_points_that_are_none_or_that_no_image_shows_are_refused(server: Server, at: str, text: str) -> None:
    status, sentence = server.refusal("/api/search", at=at)
    assert status == 422
    assert text in sentence


def test_a_point_is_one_kind_of_query(server: Server) -> None:
    status, sentence = server.refusal("/api/search", at="7.5,50.5", label="tree")
    assert (status, sentence) == (422, "a search needs one of id, vector, like, label and at, and only one.")


def test_what_a_form_leaves_empty_is_no_filter(server: Server) -> None:
    empty = {"bbox": "", "within": "", "from": "", "to": ""}
    assert server.get("/api/sample", **empty) == server.get("/api/sample")


def test_places_and_dates_are_logged(server: Server) -> None:
    server.get("/api/search", at="7.5,50.5", bbox="0,0,1,1", **{"from": "2020-01-01"})
    logged = "at='7.5,50.5' bbox='0,0,1,1' from='2020-01-01'"
    until(lambda: logged in server.log.read_text(), "the search is logged")
