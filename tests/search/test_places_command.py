"""Places and dates on the command line: search, info and export."""

import datetime
import json
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pystac
import pytest
import shapely

from marcir.cli import main
from marcir.search import Row
from marcir.search.lance import LanceStore
from marcir.search.records import About

DAYS = (datetime.date(2020, 1, 1), datetime.date(2021, 6, 15), datetime.date(2022, 12, 31))
ABOUT = About(model="0123456789abcdef", dim=2, root="/data/scenes")


def vector(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


def window(column: int, day: int) -> Row:
    """A window in a row from -100 degrees to the east, on one of three days; similar in the order of both."""
    west = -100.0 + column
    box = (west, 40.0, west + 1, 41.0)
    return Row(
        f"day{day}.tif@x={8 * column},y=0,w=8,h=8",
        vector(0.1 * column + 0.01 * day),
        ("water",) if column % 2 else ("forest",),
        8,
        8,
        bbox=box,
        date=DAYS[day],
        footprint=shapely.to_wkb(shapely.box(*box)),
        metadata={"time": f"{DAYS[day]}T10:00:00+00:00"},
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four windows of three scenes, and an image without place and date."""
    folder = tmp_path_factory.mktemp("places") / "scenes.store"
    windows = [window(column, day) for column in range(4) for day in range(3)]
    LanceStore.create(folder, ABOUT, {"config.json": b"{}"}).add([*windows, Row("nowhere.png", vector(0.35))])
    return folder


def ids(column: int, *days: int) -> list[str]:
    return [window(column, day).id for day in days]


def searched(capsys: pytest.CaptureFixture[str], store: Path, *arguments: object) -> dict[str, Any]:
    """What a search prints as JSON."""
    capsys.readouterr()
    assert main(["search", "--store", str(store), "--json", *map(str, arguments)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def found_ids(capsys: pytest.CaptureFixture[str], store: Path, *arguments: object) -> list[str]:
    hits = searched(capsys, store, *arguments, "--k", 100)["hits"]
    return sorted(hit["id"] for hit in hits)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    try:
        code = main([*map(str, arguments)])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
    return printed.err.rstrip("\n")


@pytest.mark.parametrize("given", [["--at", "-99.5,40.5"], ["--at=-99.5,40.5"]])
def test_the_newest_window_at_a_point_is_the_query(
    capsys: pytest.CaptureFixture[str], store: Path, given: list[str]
) -> None:
    found = searched(capsys, store, *given)
    assert found["query_images"] == ids(0, 2)
    assert found["hits"][0]["id"] == window(0, 1).id
    assert searched(capsys, store, *given, "--to", "2021-06-15")["query_images"] == ids(0, 1)


@pytest.mark.parametrize("given", [["--bbox", "-98.9,40.2,-98.1,40.3"], ["--bbox=-98.9,40.2,-98.1,40.3"]])
def test_a_box_may_begin_with_a_minus(
    capsys: pytest.CaptureFixture[str], store: Path, given: list[str]
) -> None:
    assert found_ids(capsys, store, "--id", "nowhere.png", *given) == ids(1, 0, 1, 2)


def test_a_box_without_hits_beside_the_point_is_explained(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    capsys.readouterr()
    assert main(["search", "--store", str(store), "--at", "-99.5,40.5", "--bbox", "10,50,11,51"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "nothing found",
        "--bbox 10,50,11,51 filters the hits, wherever --at is: no other image is in it.",
    ]


@pytest.mark.parametrize("command", [["export"], ["search", "--id", "nowhere.png"]])
def test_a_file_of_geoparquet_has_a_name_that_says_so(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path, command: list[str]
) -> None:
    out = tmp_path / "x.txt"
    line = refusal(capsys, *command, "--store", store, "--geoparquet", out)
    assert f"--geoparquet {out}: use a name that ends in .parquet or .geoparquet." in line


def test_a_store_that_is_missing_may_be_one_of_scenes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "--images DIR (or --scenes DIR)" in refusal(
        capsys, "search", "--store", tmp_path / "nope", "--id", "a.tif"
    )


def test_dates_are_inclusive(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    box = ("--id", "nowhere.png", "--bbox", "-98.9,40.2,-98.1,40.3")
    assert found_ids(capsys, store, *box, "--from", "2021-06-15") == ids(1, 1, 2)
    assert found_ids(capsys, store, *box, "--from", "2021-06-15", "--to", "2021-06-15") == ids(1, 1)


def test_an_area_finds_what_touches_it(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    area = tmp_path / "area.geojson"
    triangle = shapely.Polygon([(-98.5, 40.5), (-97.9, 40.5), (-98.5, 40.9)])
    area.write_text(shapely.to_geojson(triangle))
    given = ("--id", "nowhere.png", "--within", area, "--to", "2020-01-01")
    assert found_ids(capsys, store, *given) == sorted([*ids(1, 0), *ids(2, 0)])


def test_text_has_the_image_at_the_point_and_dates_and_centres_of_hits(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    assert main(["search", "--store", str(store), "--at", "-99.5,40.5", "--k", "13"]) == 0
    first, second, *others = capsys.readouterr().out.splitlines()
    assert first == f"like {window(0, 2).id}, which shows -99.5,40.5"
    assert second.split() == ["1", "1.000", window(0, 1).id, "2021-06-15", "-99.50000,40.50000", "forest"]
    (line,) = [line for line in others if "nowhere.png" in line]
    assert line.split()[2:] == ["nowhere.png", "-"]


def test_hits_are_written_as_geojson_and_geoparquet(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "hits.geojson", tmp_path / "hits.parquet"
    found = searched(capsys, store, "--at", "-99.5,40.5", "--geojson", first, "--geoparquet", second)
    expected = [hit["id"] for hit in found["hits"]]
    assert [feature["id"] for feature in json.loads(first.read_bytes())["features"]] == expected
    frame = geopandas.read_parquet(second)
    assert frame["id"].tolist() == expected
    assert frame["similarity"].tolist() == [hit["similarity"] for hit in found["hits"]]
    for geometry, hit in zip(frame.geometry, found["hits"], strict=True):
        expected_geometry = hit["footprint"] and shapely.geometry.shape(hit["footprint"])
        assert geometry == expected_geometry


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--at", "1,2", "--id", "x"], "needs exactly one of --image, --id, --at, --like and --by-labels"),
        (["--at", "-99.5"], "point '-99.5': give LON,LAT in degrees"),
        (["--at", "-99.5,95"], "point '-99.5,95': give LON,LAT in degrees"),
        (["--at", "10,10"], "no image of the store shows 10,10."),
        (
            ["--at", "-99.5,40.5", "--to", "2019-01-01"],
            "no image of the store shows -99.5,40.5 on these dates.",
        ),
        (["--id", "nowhere.png", "--bbox", "-1,2,3"], "bbox '-1,2,3': give W,S,E,N in degrees"),
        (["--id", "nowhere.png", "--bbox", "1,3,2,2"], "bbox '1,3,2,2': give W,S,E,N in degrees"),
        (["--id", "nowhere.png", "--bbox"], "argument --bbox: expected one argument"),
        (["--id", "nowhere.png", "--from", "yesterday"], "date 'yesterday': write it as 2024-05-31."),
        (["--id", "nowhere.png", "--from", "2021-01-02", "--to", "2021-01-01"], "give the earlier one first"),
        (["--id", "nowhere.png", "--within", "none.geojson"], "none.geojson: cannot be read"),
        (["--id", "nowhere.png", "--geojson", "s3://a/b"], "--geojson s3://a/b: must be on a disk."),
        (
            ["--id", "nowhere.png", "--min-similarity", "1", "--geoparquet", "x.parquet"],
            "geoparquet: no hit of this page has a bounding box.",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert text in refusal(capsys, "search", "--store", store, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_an_area_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    area = tmp_path / "area.geojson"
    area.write_text(shapely.to_geojson(shapely.box(-100, 40, -96, 41)))
    before = area.read_bytes()
    given = ("--at", "-99.5,40.5", "--within", area, "--geojson", tmp_path / "." / "area.geojson")
    assert "this file belongs to the query" in refusal(capsys, "search", "--store", store, *given)
    assert area.read_bytes() == before


def test_info_has_extent_and_dates_where_they_are_known(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    assert main(["info", str(store)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["extent: -100.00000,40.00000,-96.00000,41.00000", "dates: 2020-01-01 to 2022-12-31"]
    LanceStore.create(tmp_path / "a.store", ABOUT, {"config.json": b"{}"}).add([Row("a.png", vector(0))])
    assert main(["info", str(tmp_path / "a.store")]) == 0
    assert "extent: " not in capsys.readouterr().out


def test_an_archive_is_exported_as_geoparquet(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "archive.parquet"
    assert main(["export", "--store", str(store), "--geoparquet", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 13 images\n"
    frame = geopandas.read_parquet(out).set_index("id")
    assert np.array_equal(frame.loc[ids(2, 1)[0], "embedding"], window(2, 1).vector)
    assert frame.geometry.isna().sum() == 1


def test_an_archive_is_exported_as_stac_with_an_item_per_scene(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stac"
    assert main(["export", "--store", str(store), "--stac", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 3 items\nleft out: 1 without a place\n"
    collection = pystac.Collection.from_file(str(out / "collection.json"))
    assert collection.validate_all() == 3
    assert [item.bbox for item in collection.get_items()] == [[-100, 40, -96, 41]] * 3
    assert {str(item.datetime) for item in collection.get_items()} == {
        f"{day} 10:00:00+00:00" for day in DAYS
    }
    asset = out / collection.assets["images"].href
    assert len(geopandas.read_parquet(asset)) == 13
    assert [path.name for path in tmp_path.iterdir()] == ["stac"]


def test_stac_needs_a_new_folder_and_leaves_nothing_behind_when_it_fails(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert "is there already and not an empty folder" in refusal(
        capsys, "export", "--store", store, "--stac", tmp_path
    )
    undated = tmp_path / "a.store"
    LanceStore.create(undated, ABOUT, {"config.json": b"{}"}).add([Row("a", vector(0), bbox=(1, 2, 3, 4))])
    text = refusal(capsys, "export", "--store", undated, "--stac", tmp_path / "out")
    assert text == "marcir: --stac: no image of the store has a date, and STAC items need one."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.store", "mine.txt"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "needs exactly one of --onnx, --geoparquet and --stac"),
        (["--onnx", "a", "--stac", "b"], "needs exactly one of --onnx, --geoparquet and --stac"),
        (["--onnx", "a"], "--onnx needs --model"),
        (["--geoparquet", "a"], "--geoparquet needs --store"),
        (["--stac", "a", "--store", "s", "--model", "m"], "--model does not go with --stac"),
        (["--onnx", "a", "--store", "s", "--model", "m"], "--store does not go with --onnx"),
        (["--geoparquet", "a", "--store", "nowhere"], "nowhere: there is no such store"),
        (["--stac", "s3://a/b", "--store", "nowhere"], "--stac s3://a/b: must be on a disk."),
    ],
)
def test_exports_that_cannot_be_made_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert text in refusal(capsys, "export", *arguments)
