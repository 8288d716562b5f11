"""Filters by place and date in every store, against loops over shapely."""

import datetime
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import shapely

from contracts.test_stores import KINDS, unit
from marcir.errors import ConfigError, StoreError
from marcir.search import Filter, Hit, Row, Store
from marcir.search.area import Area, Box, box_wkb, parts_of
from marcir.search.queries import SearchableArchive, SearchResult

DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]


def tilted(longitude: float, latitude: float, half: float, angle: float) -> bytes:
    """A square turned by an angle, as WKB."""
    corners = [(math.cos(angle + k * math.pi / 2), math.sin(angle + k * math.pi / 2)) for k in range(4)]
    points = [(longitude + half * x, latitude + half * y) for x, y in corners]
    return shapely.to_wkb(shapely.Polygon(points))


def some_rows() -> list[Row]:
    """Tilted squares around the origin and the date line, plain boxes, and images without a place or date."""
    rng = np.random.default_rng(0)
    rows = []
    for k in range(60):
        vector = unit(*rng.normal(size=4).tolist())
        date = None if k % 7 == 0 else DAYS[k % 3]
        if k % 5 == 0:
            rows.append(Row(f"none{k:02}", vector, date=date))
            continue
        x, y = rng.uniform(-4, 4, 2).tolist()
        if k % 5 == 1:  # around the date line, as boxes
            west, east = 180 + x - 0.5, 180 + x + 0.5
            box = ((west + 180) % 360 - 180, y - 0.5, (east + 180) % 360 - 180, y + 0.5)
            rows.append(Row(f"line{k:02}", vector, ("sea",), bbox=box, date=date))
            continue
        footprint = tilted(x, y, 0.6, k)
        bounds = shapely.from_wkb(footprint).bounds
        rows.append(Row(f"tilt{k:02}", vector, ("land",), bbox=bounds, date=date, footprint=footprint))
    return rows


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    found: Store = request.param(some_rows(), tmp_path_factory.mktemp("places"))
    return found


def shape_of(row: Row) -> shapely.Geometry | None:
    if row.footprint is not None:
        return shapely.from_wkb(row.footprint)
    if row.bbox is None:
        return None
    return shapely.union_all([shapely.box(*part) for part in parts_of(row.bbox)])


def expected(
    wanted: shapely.Geometry | None, first: datetime.date | None, last: datetime.date | None
) -> list[str]:
    found = []
    for row in some_rows():
        shape = shape_of(row)
        if wanted is not None and (shape is None or not shape.intersects(wanted)):
            continue
        if (first or last) and row.date is None:
            continue
        if (first and row.date < first) or (last and row.date > last):
            continue
        found.append(row.id)
    return sorted(found)


BOXES: list[Box] = [
    (-1, -1, 1, 1),
    (0.3, 0.3, 0.4, 0.4),
    (-4, -4, 4, 4),
    (179, -2, -179, 2),
    (-180, -90, 180, 90),
    (-179.9, -1, -178, 1),
    (178, -1, 179.9, 1),
    (50, 50, 51, 51),
    (0, 0, 0, 0),
]
TRIANGLE = {"type": "Polygon", "coordinates": [[[-3, -3], [3, -3], [-3, 3], [-3, -3]]]}


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_a_box_finds_what_touches_it(store: Store, box: Box) -> None:
    wanted = shapely.union_all([shapely.box(*part) for part in parts_of(box)])
    where = Filter(bbox=box)
    names = expected(wanted, None, None)
    assert store.ids(where) == names
    assert store.count(where) == len(names)
    hits = store.search(unit(1, 2, 3, 4)[None], 100, where)[0]
    assert sorted(hit.id for hit in hits) == names
    few = store.search(unit(1, 2, 3, 4)[None], 3, where)[0]
    assert [hit.id for hit in few] == [hit.id for hit in hits[:3]]
    assert sorted(store.sample(100, 0, where)) == names
    assert sum(store.label_counts(where).values()) == sum(not name.startswith("none") for name in names)


def test_an_area_finds_footprints_and_not_their_boxes(store: Store) -> None:
    area = Area.from_geojson(json.dumps(TRIANGLE))
    names = expected(shapely.geometry.shape(TRIANGLE), None, None)
    assert store.ids(Filter(within=area)) == names
    assert store.count(Filter(within=area)) == len(names)
    wanted = shapely.geometry.shape(TRIANGLE)
    boxes = [row.id for row in some_rows() if row.bbox and shapely.box(*row.bbox).intersects(wanted)]
    assert len(names) < len(boxes), "the areas of some boxes are reached, but not their footprints"


@pytest.mark.parametrize(
    ("first", "last"), [(DAYS[1], None), (None, DAYS[1]), (DAYS[1], DAYS[1]), (DAYS[2], None)]
)
def test_dates_are_inclusive_and_images_without_one_do_not_pass(
    store: Store, first: datetime.date | None, last: datetime.date | None
) -> None:
    assert store.ids(Filter(date_from=first, date_to=last)) == expected(None, first, last)


def test_place_date_and_labels_are_combined(store: Store) -> None:
    where = Filter(any=("land",), bbox=(-2, -2, 2, 2), date_to=DAYS[1])
    names = [name for name in expected(shapely.box(-2, -2, 2, 2), None, DAYS[1]) if name.startswith("tilt")]
    assert store.ids(where) == names
    assert store.count(where) == len(names) > 0


def test_the_extent_encloses_all_places_and_dates(store: Store) -> None:
    found = store.extent()
    assert (found.first, found.last) == (DAYS[0], DAYS[2])
    rows = [row for row in some_rows() if row.bbox]
    assert found.bbox is not None
    assert found.bbox[1] == pytest.approx(min(row.bbox[1] for row in rows if row.bbox))
    assert found.bbox[3] == pytest.approx(max(row.bbox[3] for row in rows if row.bbox))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_without_places_there_is_no_extent_and_nothing_passes(
    make: Callable[[Sequence[Row], Path], Store], tmp_path: Path
) -> None:
    store = make([Row("a", unit(1, 0, 0, 0))], tmp_path)
    assert store.extent() == type(store.extent())(None, None, None)
    assert store.ids(Filter(bbox=(-180, -90, 180, 90))) == []
    assert store.ids(Filter(date_from=DAYS[0])) == []


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_footprints_are_kept_and_replaced(
    make: Callable[[Sequence[Row], Path], Store], tmp_path: Path
) -> None:
    plain, placed = Row("a", unit(1, 0, 0, 0)), Row("b", unit(0, 1, 0, 0), footprint=box_wkb((0, 0, 1, 1)))
    store = make([plain], tmp_path)
    store.add([placed])
    assert [row.footprint for row in store.get(["a", "b"])] == [None, placed.footprint]
    assert [row.footprint for row in store.describe(["a", "b"])] == [None, placed.footprint]
    store.add([Row("b", unit(0, 1, 0, 0))])
    assert store.get(["b"])[0].footprint is None


def test_a_point_chooses_the_newest_and_then_the_nearest_centre(tmp_path: Path) -> None:
    def image(name: str, box: Box, day: int, vector: np.ndarray) -> Row:
        return Row(name, vector, bbox=box, date=DAYS[day], footprint=box_wkb(box))

    rows = [
        image("old", (0, 0, 1, 1), 0, unit(1, 0, 0, 0)),
        image("new-far", (0, 0, 1, 1), 2, unit(0, 1, 0, 0)),
        image("new-near", (0.5, 0.5, 1.5, 1.5), 2, unit(0, 0, 1, 0)),
        image("elsewhere", (5, 5, 6, 6), 2, unit(0, 0, 1, 0.1)),
    ]
    archive = SearchableArchive(KINDS["memory"](rows, tmp_path))
    assert archive.by_place(0.9, 0.9, k=1).hits[0].id == "elsewhere", "like new-near"
    before = archive.by_place(0.9, 0.9, where=Filter(date_to=DAYS[0]))
    assert [hit.id for hit in before.hits] == [], "old is the query, and all others are newer"
    with pytest.raises(StoreError, match=r"no image of the store shows 50,50\."):
        archive.by_place(50, 50)
    with pytest.raises(StoreError, match=r"shows 5.5,5.5 on these dates"):
        archive.by_place(5.5, 5.5, where=Filter(date_to=DAYS[0]))


@pytest.mark.parametrize(
    "wrong",
    [{"bbox": (0, 1, 1, 0)}, {"bbox": (0, 0, 200, 1)}, {"date_from": DAYS[1], "date_to": DAYS[0]}],
    ids=str,
)
def test_a_filter_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Filter(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("root", "path"), [("/scenes", "/scenes/naip/a.tif"), ("/scenes/catalog.json", None)], ids=str
)
def test_the_path_of_a_window_is_that_of_its_scene(root: str, path: str | None) -> None:
    row = Row("naip/a.tif@x=0,y=0,w=8,h=8", unit(1, 0, 0, 0), metadata={"scene": "naip/a.tif"})
    assert SearchResult((Hit.from_row(row),), root).as_json()["hits"][0]["path"] == path
