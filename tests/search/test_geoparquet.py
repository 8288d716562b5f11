"""GeoParquet: what is written comes back in geopandas, and the metadata are those of GeoParquet 1.1."""

import datetime
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pytest
import shapely
from pyarrow import parquet

import marcir
from marcir.errors import ConfigError, StoreError
from marcir.search import MemoryStore, Row, geoparquet
from marcir.search.geoparquet import as_geoparquet, write_geoparquet
from marcir.search.hilbert import codes_of_boxes
from marcir.search.hits import Hit
from marcir.search.lance import LanceStore
from marcir.search.records import About
from marcir.search.store import Store

DIM = 8
ABOUT = About(model="0123456789abcdef", dim=DIM, root="/data/archive")
TRIANGLE = shapely.Polygon([(11, 48), (11.2, 48), (11.1, 48.2)])
PLACES = (
    Row("plain.png", np.zeros(0), bbox=(11.5, 48.1, 11.6, 48.2), date=datetime.date(2024, 5, 31)),
    Row("a.tif@x=0,y=0,w=8,h=8", np.zeros(0), bbox=(11, 48, 11.2, 48.2), footprint=shapely.to_wkb(TRIANGLE)),
    Row("date line.png", np.zeros(0), bbox=(179, -10, -179, -9), date=datetime.date(1969, 12, 31)),
    Row("nowhere.png", np.zeros(0)),
)


def rows(count: int = 0) -> list[Row]:
    """Rows with and without a place, and as many at random places."""
    rng = np.random.default_rng(0)
    corners = [(w, s, w + 0.1, s + 0.1) for w, s in rng.uniform([-170, -80], [170, 80], (count, 2)).tolist()]
    some = [*PLACES, *(Row(f"{n:05}", np.zeros(0), bbox=box) for n, box in enumerate(corners))]
    vectors = rng.normal(size=(len(some), DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = [("tree", "grass"), (), ("ship",), ()]
    return [
        replace(row, vector=vector, labels=labels[k % 4], unknown=("car",) if k % 4 == 1 else (), width=64)
        for k, (row, vector) in enumerate(zip(some, vectors, strict=True))
    ]


def filled(store: Store, given: list[Row]) -> Store:
    store.add(given[: len(given) // 2])
    store.add(given[len(given) // 2 :])
    return store


@pytest.fixture(params=["memory", "lance"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore(ABOUT)
    return LanceStore.create(tmp_path / "a.store", ABOUT, {"config.json": b"{}"})


def test_an_archive_comes_back_from_geopandas(empty: Store, tmp_path: Path) -> None:
    given = {row.id: row for row in rows(20)}
    store, out = filled(empty, [*given.values()]), tmp_path / "out.parquet"
    store.delete(["00003"])
    del given["00003"]
    assert write_geoparquet(store, out) == len(given)
    frame = geopandas.read_parquet(out)
    assert frame.crs == "OGC:CRS84"
    assert sorted(frame["id"]) == sorted(given)
    # geopandas leaves out the column of boxes, which is part of the geometries for it.
    assert frame.columns.tolist() == [
        *("id", "date", "datetime", "labels", "unknown", "width", "height", "geometry", "embedding")
    ]
    for found in frame.to_dict("records"):
        row = given[found["id"]]
        assert np.array_equal(found["embedding"], row.vector)
        assert (tuple(found["labels"]), tuple(found["unknown"])) == (row.labels, row.unknown)
        assert (found["date"] or None, found["width"]) == (row.date, row.width)
        assert shapely.equals(found["geometry"], expected_geometry(row)) or row.bbox is None
        assert (found["geometry"] is None) == (row.bbox is None)


def expected_geometry(row: Row) -> Any:
    if row.footprint is not None:
        return shapely.from_wkb(row.footprint)
    if row.bbox is None:
        return None
    west, south, east, north = row.bbox
    if west <= east:
        return shapely.box(*row.bbox)
    return shapely.MultiPolygon([shapely.box(west, south, 180, north), shapely.box(-180, south, east, north)])


def test_rows_follow_the_curve_and_those_without_a_place_are_last(empty: Store, tmp_path: Path) -> None:
    given = {row.id: row for row in rows(50)}
    write_geoparquet(filled(empty, [*given.values()]), tmp_path / "out.parquet")
    ids = parquet.read_table(tmp_path / "out.parquet")["id"].to_pylist()
    assert ids[-1] == "nowhere.png"
    boxes = np.array([given[image].bbox for image in ids[:-1]]).T
    assert (np.diff(codes_of_boxes(boxes).astype(np.int64)) >= 0).all()


def test_metadata_are_those_of_geoparquet_1_1_and_name_the_model(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    write_geoparquet(filled(MemoryStore(ABOUT), rows()), out)
    metadata = parquet.read_metadata(out).metadata
    assert json.loads(metadata[b"geo"]) == {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {
            "geometry": {
                "encoding": "WKB",
                "geometry_types": ["MultiPolygon", "Polygon"],
                "edges": "planar",
                "orientation": "counterclockwise",
                "bbox": [-180, -10, 180, 48.2],
                "covering": {
                    "bbox": {corner: ["bbox", corner] for corner in ("xmin", "ymin", "xmax", "ymax")}
                },
            }
        },
    }
    assert json.loads(metadata[b"emb"]) == {
        "column": "embedding",
        "model": ABOUT.model,
        "dim": DIM,
        "distance": "cosine",
        "normalized": True,
        "marcir": marcir.__version__,
    }
    assert parquet.read_schema(out).field("embedding").type == pa.list_(pa.float32(), DIM)


def test_a_box_selects_rows_through_the_covering(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    write_geoparquet(filled(MemoryStore(ABOUT), rows(30)), out)
    frame = geopandas.read_parquet(out, bbox=(179.5, -9.5, 179.6, -9.4))
    assert frame["id"].tolist() == ["date line.png"]
    frame = geopandas.read_parquet(out, bbox=(-179.6, -9.5, -179.5, -9.4))
    assert frame["id"].tolist() == ["date line.png"]


def test_row_groups_are_small_and_each_is_a_region(
    empty: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geoparquet, "_GROUP_ROWS", 64)
    write_geoparquet(filled(empty, rows(500)), tmp_path / "out.parquet")
    file = parquet.ParquetFile(tmp_path / "out.parquet")
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert sizes == [64] * 7 + [56]
    spans = []
    for n in range(file.num_row_groups - 1):  # the last has the rows at the date line
        boxes = file.read_row_group(n, ["bbox"])["bbox"].combine_chunks()
        west, east = (np.asarray(boxes.field(name)) for name in ("xmin", "xmax"))
        south, north = (np.asarray(boxes.field(name)) for name in ("ymin", "ymax"))
        spans.append((east.max() - west.min()) * (north.max() - south.min()))
    assert np.median(spans) < 340 * 160 / 4


def test_metadata_become_columns_of_their_type_and_overwrite_none_of_ours(tmp_path: Path) -> None:
    first, second, *_ = rows()
    one = {
        "sensor": "S2",
        "cloud": 1,
        "id": "x",
        "scene": True,
        "mixed": "text",
        "shape": [1, 2],
        "big": 2**70,
    }
    two = {"sensor": "S1", "cloud": 0.5, "mixed": 3, "none": None, "embedding": "y"}
    store = MemoryStore(ABOUT)
    store.add([replace(first, metadata=one), replace(second, metadata=two)])
    write_geoparquet(store, tmp_path / "out.parquet")
    found = {row["id"]: row for row in parquet.read_table(tmp_path / "out.parquet").to_pylist()}
    a, b = found[first.id], found[second.id]
    assert (a["sensor"], a["cloud"], a["metadata.id"], a["scene"]) == ("S2", 1.0, "x", True)
    assert (a["mixed"], b["mixed"], a["shape"], a["big"]) == ("text", "3", "[1, 2]", str(2**70))
    assert (b["cloud"], b["none"], b["scene"], b["metadata.embedding"]) == (0.5, None, None, "y")


@pytest.mark.parametrize("large", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_integers_that_no_float_can_hold_become_texts_beside_floats_alone(large: int) -> None:
    images = rows()[:3]
    values: list[dict[str, object]] = [
        {"mixed": large, "ints": large, "floats": 2**53},
        {"mixed": 0.5, "ints": 1, "floats": 0.5},
        {"floats": -(2**53)},
    ]
    found = [Hit.from_row(replace(row, metadata=each)) for row, each in zip(images, values, strict=True)]
    table = parquet.read_table(io.BytesIO(as_geoparquet(found)))
    assert table["mixed"].to_pylist() == [str(large), "0.5", None]
    assert table["ints"].to_pylist() == [large, 1, None]
    assert table["floats"].to_pylist() == [2.0**53, 0.5, -(2.0**53)]


def test_moments_are_a_column_of_times_in_utc(tmp_path: Path) -> None:
    texts = ["2012-07-31T23:30:00-05:00", "2012-07-31T10:00:00", "at noon", None]
    given = [replace(row, metadata={"time": text}) for row, text in zip(rows(), texts, strict=True)]
    store = MemoryStore(ABOUT)
    store.add(given)
    write_geoparquet(store, tmp_path / "out.parquet")
    hits = io.BytesIO(as_geoparquet([Hit.from_row(row) for row in given]))
    for table in (parquet.read_table(tmp_path / "out.parquet"), parquet.read_table(hits)):
        assert table.schema.field("datetime").type == pa.timestamp("ms", "UTC")
        found = {row["id"]: row["datetime"] for row in table.to_pylist()}
        assert [found[row.id] for row in given] == [
            datetime.datetime(2012, 8, 1, 4, 30, tzinfo=datetime.UTC),
            datetime.datetime(2012, 7, 31, 10, tzinfo=datetime.UTC),
            *(None, None),
        ]
        assert {row["id"]: row["time"] for row in table.to_pylist()}[given[0].id] == texts[0]


def test_an_archive_without_places_is_exported_without_geometries(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    write_geoparquet(filled(MemoryStore(ABOUT), [replace(row, bbox=None) for row in rows()[2:]]), out)
    about = json.loads(parquet.read_metadata(out).metadata[b"geo"])["columns"]["geometry"]
    assert about["geometry_types"] == []
    assert "bbox" not in about
    assert geopandas.read_parquet(out).geometry.isna().all()


def test_footprints_without_an_area_and_numbers_that_are_none_are_exported(tmp_path: Path) -> None:
    """Stores of earlier versions have both, of scenes in metres that were tagged as degrees."""
    store = LanceStore.create(tmp_path / "a.store", ABOUT, {"config.json": b"{}"})
    nowhere = shapely.to_wkb(shapely.GeometryCollection())
    bad = replace(rows()[0], bbox=(-180, 90, 180, 90), footprint=nowhere, metadata={"metres": float("nan")})
    store.add([bad, rows()[1]])
    assert write_geoparquet(store, tmp_path / "out.parquet") == 2
    found = {row["id"]: row for row in parquet.read_table(tmp_path / "out.parquet").to_pylist()}
    assert found[bad.id]["metres"] is None
    (row,) = store.get([bad.id])
    assert json.loads(json.dumps(Hit.from_row(row).as_json(), allow_nan=False))["metadata"] == {
        "metres": None
    }
    as_geoparquet([Hit.from_row(row)])


def test_an_empty_store_and_a_folder_as_file_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no images, so there is nothing to export"):
        write_geoparquet(MemoryStore(ABOUT), tmp_path / "out.parquet")
    with pytest.raises(ConfigError, match="is a folder"):
        write_geoparquet(filled(MemoryStore(ABOUT), rows()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_as_it_is_if_the_export_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"
    out.write_bytes(b"before")

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", fails)
    with pytest.raises(ConfigError, match="out.parquet: cannot be written \\(No space left on device\\)"):
        write_geoparquet(filled(MemoryStore(ABOUT), rows()), out)
    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]


def test_hits_come_back_from_geopandas_best_first() -> None:
    found = [Hit.from_row(row, 1 - k / 10) for k, row in enumerate(rows())]
    frame = geopandas.read_parquet(io.BytesIO(as_geoparquet(found)))
    assert frame.crs == "OGC:CRS84"
    assert frame["id"].tolist() == [row.id for row in rows()]
    assert frame["similarity"].tolist() == [1.0, 0.9, 0.8, 0.7]
    assert frame["labels"].map(tuple).tolist() == [row.labels for row in rows()]
    for geometry, row in zip(frame.geometry[:3], rows(), strict=False):
        assert shapely.equals(geometry, expected_geometry(row))
    assert frame.geometry[3] is None


def test_hits_without_a_place_are_refused_as_geoparquet() -> None:
    with pytest.raises(StoreError, match="no hit of this page has a bounding box"):
        as_geoparquet([Hit.from_row(rows()[-1])])
