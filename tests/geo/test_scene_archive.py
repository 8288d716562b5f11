"""Scenes in a store: which windows it has, what is known of them, and how it follows changes of scenes."""

import io
import json
import os
import pickle
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
import shapely
from affine import Affine
from PIL import Image

from geo.tiffs import UTM, ramp, served, write_tiff
from marcir.cli import main
from marcir.errors import DataError, StoreError
from marcir.geo import SceneArchive, WindowGrid, WindowReader, reading, scene_archive
from marcir.geo import scene as scene_module
from marcir.geo.windows import parse_window_id
from marcir.model.encoder import Encoder
from marcir.processes import processors
from marcir.search import index as index_module
from marcir.search.index import Indexed, index
from marcir.search.lance import LanceStore
from marcir.search.records import Row
from marcir.search.store_info import store_info
from search.index_process import BATCH, STEPS, announcing_index
from search.processes import start_process
from serve.small_archive import write_images, write_model

GRID = WindowGrid(32)
TIME = "2012:07:31 10:00:00"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of three 8-bit bands."""
    return write_model(tmp_path_factory.mktemp("model") / "rgb")


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    """Two scenes of three bands: 3 x 4 windows with a date, and 2 x 2."""
    folder = tmp_path / "scenes"
    write_tiff(folder / "a.tif", ramp(3, 80, 100), time=TIME, tiled=True, blockxsize=32, blockysize=32)
    write_tiff(folder / "below" / "b.tif", ramp(3, 50, 40), "EPSG:4326", Affine(1e-4, 0, 7, 0, -1e-4, 50))
    return folder


def rows_of(store: Path) -> dict[str, Row]:
    opened = LanceStore(store)
    return {row.id: row for row in opened.get(opened.ids())}


def counts(done: Indexed) -> tuple[int, ...]:
    """Added, changed, up to date, skipped, pruned, gone."""
    return done.added, done.changed, done.unchanged, done.skipped, done.pruned, done.gone


def touch(path: Path) -> None:
    time = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(time, time))


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The first arguments that a function is called with."""
    calls: list[Any] = []
    run: Callable[..., Any] = getattr(owner, name)

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return run(*arguments)

    monkeypatch.setattr(owner, name, counted)
    return calls


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.rstrip("\n")


# ---- What a store has ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 100), (32, 32), (5, 7), (64, 33)])
def test_windows_of_a_store_cover_every_pixel_once(
    model: Path, tmp_path: Path, shape: tuple[int, int]
) -> None:
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(3, *shape))
    index(SceneArchive(tmp_path / "scenes", GRID), tmp_path / "store", model=model)
    covered = np.zeros(shape, int)
    for name, row in rows_of(tmp_path / "store").items():
        scene, (x, y, width, height), _ = parse_window_id(name)
        assert (scene, row.width, row.height) == ("a.tif", width, height)
        covered[y : y + height, x : x + width] += 1
    assert (covered == 1).all()


def test_a_row_has_the_place_date_and_scene_of_its_window(model: Path, scenes: Path, tmp_path: Path) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    rows = rows_of(tmp_path / "store")
    assert len(rows) == 12 + 4
    metres = {"a.tif": 10, "below/b.tif": 9}
    for name, row in rows.items():
        scene, (x, y, width, height), _ = parse_window_id(name)
        with rasterio.open(scenes / scene) as file:
            to_degrees = pyproj.Transformer.from_crs(file.crs, "EPSG:4326", always_xy=True)
            corners = [file.transform @ (x + dx, y + dy) for dx in (0, width) for dy in (0, height)]
        found = shapely.from_wkb(row.footprint)
        assert found.geom_type == "Polygon"
        for corner in corners:
            point = shapely.Point(to_degrees.transform(*corner))
            assert min(point.distance(shapely.Point(each)) for each in found.exterior.coords) < 1e-6
        assert row.bbox == pytest.approx(found.bounds, abs=2e-6)
        assert row.metadata["scene"] == scene
        assert row.metadata["crs"] == ("EPSG:32614" if scene == "a.tif" else "EPSG:4326")
        assert row.metadata["metres_per_pixel"] == pytest.approx(metres[scene], rel=0.02)
        assert str(row.date) == ("2012-07-31" if scene == "a.tif" else "None")
        assert Image.open(io.BytesIO(row.thumbnail)).size == (width, height)
        assert np.linalg.norm(row.vector) == pytest.approx(1, abs=1e-5)


def test_vectors_are_those_of_the_mirrored_pixels(model: Path, scenes: Path, tmp_path: Path) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    from marcir.model.model import load_model

    with rasterio.open(scenes / "a.tif") as file:
        corner = file.read()[:, 64:, 96:].transpose(1, 2, 0)
    mirrored = np.pad(corner, ((0, 32 - 16), (0, 32 - 4), (0, 0)), mode="symmetric")
    (expected,) = load_model(model).embed([mirrored])
    found = rows_of(tmp_path / "store")["a.tif@x=96,y=64,w=4,h=16"].vector
    assert np.allclose(found, expected, atol=1e-5)


def test_windows_are_read_at_a_resolution_and_with_a_stride(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    grid = WindowGrid(16, stride=8, resolution=20)
    index(SceneArchive(scenes / "a.tif", grid), tmp_path / "store", model=model)
    rows = rows_of(tmp_path / "store")
    assert "a.tif@x=8,y=0,w=16,h=16,r=20" in rows
    assert {row.metadata["metres_per_pixel"] for row in rows.values()} == {20.0}
    assert (
        "cut: windows of 16 px, stride 8, resolution 20 m, bands all, missing pixels up to 0.2"
        in store_info(tmp_path / "store")
    )


def test_a_stac_catalog_gives_scenes_by_item_with_its_date(model: Path, tmp_path: Path) -> None:
    write_catalog(tmp_path / "stac")
    done = index(
        SceneArchive(tmp_path / "stac" / "catalog.json", GRID, ["red", "green", "blue"]),
        tmp_path / "store",
        model=model,
    )
    rows = rows_of(tmp_path / "store")
    assert not done.broken
    assert {str(row.date) for row in rows.values()} == {"2021-03-04"}
    assert {row.metadata["scene"] for row in rows.values()} == {"item"}
    again = index(
        SceneArchive(tmp_path / "stac" / "catalog.json", GRID, ["red", "green", "blue"]),
        tmp_path / "store",
        model=model,
    )
    assert counts(again) == (0, 0, 4, 0, 0, 0)


def test_scenes_on_a_server_are_indexed_and_are_up_to_date_by_their_headers(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_catalog(tmp_path / "stac")
    with served(tmp_path / "stac") as (address, _):
        for expected in ((4, 0, 0, 0, 0, 0), (0, 0, 4, 0, 0, 0)):
            source = SceneArchive(f"{address}/catalog.json", GRID, ["red", "green", "blue"])
            assert source.reading_threads(1) == 16
            assert counts(index(source, tmp_path / "store", model=model)) == expected
            monkeypatch.setattr(WindowReader, "read", None)


def write_catalog(folder: Path) -> None:
    """A catalog with one item of three assets, 2 x 2 windows."""
    assets = {}
    for number, name in enumerate(("red", "green", "blue")):
        write_tiff(folder / f"{name}.tif", ramp(3, 50, 40)[number : number + 1])
        assets[name] = {"href": f"./{name}.tif", "type": "image/tiff; application=geotiff"}
    item = {
        **{"type": "Feature", "stac_version": "1.0.0", "id": "item", "links": [], "assets": assets},
        **{"geometry": None, "properties": {"datetime": "2021-03-04T05:06:07Z"}},
    }
    catalog = {"type": "Catalog", "stac_version": "1.0.0", "id": "c", "description": "d"}
    link = {"rel": "item", "href": "./item.json"}
    (folder / "item.json").write_text(json.dumps(item))
    (folder / "catalog.json").write_text(json.dumps({**catalog, "links": [link]}))


def test_footprints_are_computed_for_the_windows_that_are_read_together(
    model: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counting(monkeypatch, scene_archive, "footprints_of")
    scene_archive._footprints.cache_clear()
    assert index(SceneArchive(scenes, GRID), tmp_path / "store", model=model).rows == 16
    assert sorted(len(windows) for (windows,) in calls) == [8, 8]


def test_a_window_without_a_footprint_takes_no_others_with_it(model: Path, tmp_path: Path) -> None:
    disc = "+proj=ortho +lon_0=0 +lat_0=0 +datum=WGS84"
    place = Affine(125_000, 0, -8_000_000, 0, -125_000, 2_000_000)
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(3, 32, 128), disc, place)
    done = index(SceneArchive(tmp_path / "scenes", GRID), tmp_path / "store", model=model)
    (line,) = done.broken.values()
    assert "lies outside of its projection" in line
    assert sorted(rows_of(tmp_path / "store")) == ["a.tif@x=32,y=0,w=32,h=32", "a.tif@x=64,y=0,w=32,h=32"]


def test_scenes_without_any_pixels_are_refused_and_no_store_is_created(
    model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiff(tmp_path / "none" / "a.tif", np.zeros((3, 80, 100), np.uint8), nodata=0)
    store = tmp_path / "store"
    line = refusal(capsys, "index", "--scenes", tmp_path / "none", "--store", store, "--model", model)
    assert "more pixels are missing in all 1 windows than --nodata-max 0.2 allows" in line
    assert not store.exists()
    # What is in a store already stays: the scenes are skipped, and that is said.
    index(SceneArchive(scenes, GRID), store, model=model)
    write_tiff(scenes / "a.tif", np.zeros((3, 80, 100), np.uint8), nodata=0)
    assert index(SceneArchive(scenes, GRID), store, model=model).skipped == 12


def test_the_example_of_what_cannot_be_read_is_of_the_commonest_kind(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    item = json.loads((tmp_path / "item.json").read_text())
    links = [{"rel": "item", "href": None}]
    for number in range(3):
        item["assets"] = {"data": {"href": f"https://example.org/{number}/a.tif"}}
        (tmp_path / f"{number}.json").write_text(json.dumps(item))
        links.append({"rel": "item", "href": f"./{number}.json"})
    top = json.loads((tmp_path / "catalog.json").read_text())
    (tmp_path / "catalog.json").write_text(json.dumps({**top, "links": links}))
    with pytest.raises(
        DataError, match=r"none of its 4 scenes can be read, for example: .*0.json: the href 'ht"
    ):
        SceneArchive(tmp_path / "catalog.json", GRID)


# ---- Following changes ---------------------------------------------------------------------------


def test_scenes_as_recorded_are_not_read(
    model: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    version = LanceStore(tmp_path / "store")._table.version
    monkeypatch.setattr(WindowReader, "read", None)
    monkeypatch.setattr(scene_module, "_file_digest", None)
    done = index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    assert counts(done) == (0, 0, 16, 0, 0, 0)
    assert LanceStore(tmp_path / "store")._table.version == version


def test_a_touched_scene_is_hashed_once_and_not_embedded(
    model: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    before = rows_of(tmp_path / "store")
    touch(scenes / "a.tif")
    monkeypatch.setattr(WindowReader, "read", None)
    hashed = counting(monkeypatch, scene_module, "_file_digest")
    for calls in (1, 1):  # the new time is recorded
        done = index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
        assert counts(done) == (0, 0, 16, 0, 0, 0)
        assert len(hashed) == calls
    after = rows_of(tmp_path / "store")
    assert all(np.array_equal(after[name].vector, row.vector) for name, row in before.items())
    assert all(
        (after[name].footprint, after[name].metadata) == (row.footprint, row.metadata)
        for name, row in before.items()
    )


def test_a_changed_scene_is_read_again_and_keeps_what_tables_said(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    first = "a.tif@x=0,y=0,w=32,h=32"
    (tmp_path / "labels.csv").write_text(f'path,labels\n"{first}",forest;?water\n')
    (tmp_path / "more.csv").write_text(f'path,note,date\n"{first}",hello,2000-01-01\n')
    index(
        SceneArchive(scenes, GRID),
        tmp_path / "store",
        model=model,
        labels=tmp_path / "labels.csv",
        metadata=tmp_path / "more.csv",
    )
    row = rows_of(tmp_path / "store")[first]
    assert (row.labels, row.unknown, str(row.date)) == (("forest",), ("water",), "2000-01-01")
    assert (row.metadata["note"], row.metadata["scene"]) == ("hello", "a.tif")
    write_tiff(scenes / "a.tif", 255 - ramp(3, 80, 100), transform=UTM @ Affine.translation(5, 5))
    done = index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    assert counts(done) == (0, 12, 4, 0, 0, 0)
    changed = rows_of(tmp_path / "store")[first]
    assert not np.array_equal(changed.vector, row.vector)
    assert changed.footprint != row.footprint
    assert changed.bbox != row.bbox
    assert (changed.labels, changed.metadata["note"], str(changed.date)) == (
        ("forest",),
        "hello",
        "2000-01-01",
    )


def test_metadata_may_name_a_scene_for_its_windows_and_a_window_has_its_own(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    own, table, store = "a.tif@x=32,y=0,w=32,h=32", tmp_path / "dates.csv", tmp_path / "store"
    table.write_text(
        "path,date,flight\n"
        f'"{own}",2020-05-06,\nbelow/b.tif,2018-01-02,7\na.tif,2019-03-04,8\ngone.tif,2019-03-04,9\n'
    )
    done = index(SceneArchive(scenes, GRID), store, model=model, metadata=table)
    assert any("names 1 that are not windows" in note and "'gone.tif'" in note for note in done.notes)
    for name, row in rows_of(store).items():
        if name == own:
            assert (str(row.date), row.metadata.get("flight")) == ("2020-05-06", None)
        else:
            wanted = ("2019-03-04", "8") if name.startswith("a.tif@") else ("2018-01-02", "7")
            assert (str(row.date), row.metadata["flight"]) == wanted
    assert counts(index(SceneArchive(scenes, GRID), store, model=model, metadata=table))[2] == 16
    table.write_text(table.read_text().replace("2018-01-02", "2018-01-03"))
    assert counts(index(SceneArchive(scenes, GRID), store, model=model, metadata=table))[2] == 12
    table.write_text("path,west,south,east,north\na.tif,1,2,3,4\n")
    with pytest.raises(DataError, match="windows have the place of their scene"):
        index(SceneArchive(scenes, GRID), store, model=model, metadata=table)


def test_other_bands_of_an_item_are_read_again(model: Path, tmp_path: Path) -> None:
    write_catalog(tmp_path / "stac")
    source = SceneArchive(tmp_path / "stac" / "item.json", GRID, ["red", "green", "blue"])
    index(source, tmp_path / "store", model=model)
    item = json.loads((tmp_path / "stac" / "item.json").read_text())
    item["assets"]["red"]["href"] = "./blue.tif"
    (tmp_path / "stac" / "item.json").write_text(json.dumps(item))
    source = SceneArchive(tmp_path / "stac" / "item.json", GRID, ["red", "green", "blue"])
    assert counts(index(source, tmp_path / "store", model=model)) == (0, 4, 0, 0, 0, 0)


def test_prune_removes_windows_of_scenes_that_are_gone_or_smaller(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    index(SceneArchive(scenes, GRID), store, model=model)
    (scenes / "below" / "b.tif").unlink()
    write_tiff(scenes / "a.tif", ramp(3, 40, 32))
    done = index(SceneArchive(scenes, GRID), store, model=model)
    assert counts(done) == (1, 1, 0, 0, 0, 15)
    done = index(SceneArchive(scenes, GRID), store, model=model, prune=True)
    assert counts(done) == (0, 0, 2, 0, 15, 0)
    assert sorted(rows_of(store)) == ["a.tif@x=0,y=0,w=32,h=32", "a.tif@x=0,y=32,w=32,h=8"]


def test_prune_keeps_windows_of_a_scene_that_cannot_be_read_now(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    index(SceneArchive(scenes, GRID), store, model=model)
    whole = (scenes / "a.tif").read_bytes()
    (scenes / "a.tif").write_bytes(whole[:100])
    done = index(SceneArchive(scenes, GRID), store, model=model, prune=True)
    assert counts(done) == (0, 0, 4, 0, 0, 0)
    assert len(done.broken) == 1
    assert done.rows == 16


def test_windows_without_pixels_are_skipped_counted_and_not_read_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes, store = tmp_path / "scenes", tmp_path / "store"
    pixels = ramp(3, 64, 96)
    pixels[:, :, 40:] = 0  # of the second column of windows, a quarter is left
    write_tiff(scenes / "a.tif", pixels, nodata=0)
    write_tiff(scenes / "empty.tif", np.zeros((3, 40, 40), np.uint8), nodata=0)
    done = index(SceneArchive(scenes, GRID, nodata_max=0.7), store, model=model)
    assert counts(done) == (2, 0, 0, 8, 0, 0)
    assert "left out: 8 windows with too many missing pixels" in str(done)
    assert "empty.tif: too many pixels are missing in all of its 4 windows" in str(done)
    with monkeypatch.context() as patch:
        patch.setattr(WindowReader, "read", None)
        assert counts(index(SceneArchive(scenes, GRID, nodata_max=0.7), store, model=model)) == (
            0,
            0,
            2,
            8,
            0,
            0,
        )
    write_tiff(scenes / "a.tif", pixels[:, ::-1, ::-1].copy(), nodata=0)  # now the last column has pixels
    done = index(SceneArchive(scenes, GRID, nodata_max=0.7), store, model=model)
    assert counts(done) == (2, 0, 0, 8, 0, 2)
    done = index(SceneArchive(scenes, GRID, nodata_max=0.7), store, model=model, prune=True)
    assert counts(done) == (0, 0, 2, 8, 2, 0)
    assert sorted(rows_of(store)) == ["a.tif@x=64,y=0,w=32,h=32", "a.tif@x=64,y=32,w=32,h=32"]


def test_a_scene_is_opened_once_for_many_windows(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(3, 320, 320))
    source = SceneArchive(tmp_path / "scenes", WindowGrid(16))
    opened = counting(monkeypatch, reading, "open_dataset")
    assert index(source, tmp_path / "store", model=model).added == 400
    assert len(opened) <= processors() + 1  # once per thread, and once to see that there are pixels


# ---- Shards and kills ----------------------------------------------------------------------------


def test_shards_fill_one_store_and_rows_of_windows_stay_together(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "whole", model=model)
    added = [
        index(SceneArchive(scenes, GRID), tmp_path / "store", model=model, shard=(part, 3)).added
        for part in range(3)
    ]
    assert sum(added) == 16
    found, expected = rows_of(tmp_path / "store"), rows_of(tmp_path / "whole")
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert np.allclose(row.vector, found[name].vector, atol=1e-5)
        assert (row.content, row.footprint) == (found[name].content, found[name].footprint)
    source = SceneArchive(scenes, GRID)
    assert len({source.group_of(image) for image in source.ids}) == 3 + 2


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(8))
def test_killed_at_any_moment_and_run_again_the_store_is_that_of_an_unbroken_run(
    model: Path, tmp_path: Path, moment: int
) -> None:
    pixels = ramp(3, 96, 96)
    pixels[:, :32, :32] = 0
    write_tiff(tmp_path / "scenes" / "a.tif", pixels, nodata=0)
    write_tiff(tmp_path / "scenes" / "b.tif", ramp(3, 64, 96))
    source = SceneArchive(tmp_path / "scenes", GRID)
    index(source, tmp_path / "whole", model=model, batch_size=BATCH)
    process, connection = start_process(announcing_index, imported=["marcir.model.model"])
    assert connection.recv() == "ready"
    connection.send((model, source, tmp_path / "store", None))
    steps = [connection.recv() for _ in range(moment + 1)]
    process.kill()
    process.join()
    connection.close()
    assert process.exitcode == -signal.SIGKILL
    assert set(steps) <= {*STEPS, "done"}
    try:
        stored = len(LanceStore(tmp_path / "store").ids())
    except StoreError:
        stored = 0
    done = index(source, tmp_path / "store", model=model, batch_size=BATCH)
    assert (done.added, done.unchanged, done.skipped, done.rows) == (14 - stored, stored, 1, 14)
    found, expected = rows_of(tmp_path / "store"), rows_of(tmp_path / "whole")
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert np.allclose(row.vector, found[name].vector, atol=1e-6)
        assert (row.content, row.footprint, row.thumbnail) == (
            found[name].content,
            found[name].footprint,
            found[name].thumbnail,
        )


def test_windows_can_be_pickled_and_read_in_another_process(scenes: Path) -> None:
    image = SceneArchive(scenes, GRID).image(3)
    again = pickle.loads(pickle.dumps(image))  # noqa: S301
    first, second = image.read(), again.read()
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    assert np.array_equal(first.pixels, second.pixels)
    assert (first.bbox, first.metadata) == (second.bbox, second.metadata)


# ---- What is refused -----------------------------------------------------------------------------


def test_broken_scenes_are_listed_and_the_others_are_indexed(
    model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scenes / "cut.tif").write_bytes((scenes / "a.tif").read_bytes()[:300])
    write_tiff(scenes / "nowhere.tif", ramp(3, 40, 40), crs=None)
    write_tiff(scenes / "four.tif", ramp(4, 40, 40), photometric="MINISBLACK")
    write_tiff(scenes / "deep.tif", ramp(3, 40, 40, "uint16"))
    command = ["index", "--scenes", scenes, "--window", 32, "--store", tmp_path / "store", "--model", model]
    assert main([str(each) for each in command]) == 1
    printed = capsys.readouterr().out
    assert "16 windows in the store" in printed
    assert "4 broken scenes were left out:" in printed
    assert "nowhere.tif: there is no CRS in the file." in printed
    assert "four.tif: 4 bands, and the model takes 3. Choose 3 of them, such as --bands 1,2,3." in printed
    assert "deep.tif: pixels of uint16, and the model was trained on uint8." in printed
    assert "cut.tif" in printed


def test_a_scene_that_breaks_while_it_is_read_is_one_line(model: Path, scenes: Path, tmp_path: Path) -> None:
    source = SceneArchive(scenes, GRID)
    content = (scenes / "a.tif").read_bytes()
    (scenes / "a.tif").write_bytes(content[: len(content) // 2])
    done = index(source, tmp_path / "store", model=model)
    assert list(done.broken) == ["a.tif"]
    assert done.rows < 16
    assert {"below/b.tif"} <= {row.metadata["scene"] for row in rows_of(tmp_path / "store").values()}


def test_scenes_that_a_model_cannot_read_are_refused_before_anything_is_written(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiff(tmp_path / "four" / "a.tif", ramp(4, 40, 40), photometric="MINISBLACK")
    write_tiff(tmp_path / "deep" / "a.tif", ramp(3, 40, 40, "uint16"))
    command = ["index", "--store", tmp_path / "store", "--model", model, "--window", 32, "--scenes"]
    assert refusal(capsys, *command, tmp_path / "four").endswith(
        "a.tif: 4 bands, and the model takes 3. Choose 3 of them, such as --bands 1,2,3."
    )
    assert "pixels of uint16, and the model was trained on uint8" in refusal(
        capsys, *command, tmp_path / "deep"
    )
    assert not (tmp_path / "store").exists()
    assert main([str(each) for each in [*command, tmp_path / "four", "--bands", "4,2,1"]]) == 0


def test_without_a_trained_model_scenes_of_another_type_are_told_what_the_store_is_of(
    model: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "is_imagenet_only", lambda _: True)
    write_tiff(scenes / "deep.tif", ramp(3, 40, 40, "uint16"))
    write_tiff(scenes / "four.tif", ramp(4, 40, 40), photometric="MINISBLACK")
    done = index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    assert done.broken == {
        "deep.tif": "deep.tif: pixels of uint16, and the features of ImageNet in this store are of uint8. "
        "Index such scenes into another store, or convert them with gdal_translate -ot -scale.",
        "four.tif": "four.tif: 4 bands, and the features of ImageNet in this store are of 3. Choose 3 "
        "of them, such as --bands 1,2,3.",
    }


@pytest.mark.parametrize("dtype", ["uint16", "float32", "int32"])
def test_other_types_of_pixels_are_indexed_with_a_model_of_them(tmp_path: Path, dtype: str) -> None:
    model = write_model(tmp_path / "model", 4, "float32" if dtype == "int32" else dtype)
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(4, 40, 40, dtype))
    assert index(SceneArchive(tmp_path / "scenes", GRID), tmp_path / "store", model=model).added == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "give one of --images and --scenes"),
        (["--images", "a", "--scenes", "b"], "give one of --images and --scenes"),
        (["--images", "a", "--window", "64"], "--window goes with --scenes"),
        (["--images", "a", "--bands", "1"], "--bands goes with --scenes"),
        (["--scenes", "nowhere"], "nowhere: there is no such folder or file."),
        (["--scenes", ".", "--window", "0"], "window"),
        (["--scenes", ".", "--stride", "-1"], "stride"),
        (["--scenes", ".", "--nodata-max", "2"], "nodata_max"),
        (["--scenes", ".", "--resolution", "0"], "resolution"),
        (["--scenes", ".", "--bands", "0,1"], "--bands '0,1': give numbers from 1 or names"),
        (["--scenes", ".", "--bands", "9"], "there is no band 9; it has 3. Change --bands."),
        (["--scenes", "empty.json"], "the catalog has no items."),
        (["--scenes", "list.json"], "not a STAC item, collection or catalog"),
        (["--scenes", ".", "--store", "./inside"], "lies in the folder of images"),
        (["--scenes", ".", "--labels", "labels.csv"], "none of its ids is a window of"),
        (["--scenes", ".", "--metadata", "places.csv"], "windows have the place of their scene."),
    ],
)
def test_bad_input_is_one_line(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    text: str,
) -> None:
    folder = tmp_path / "scenes"
    write_tiff(folder / "a.tif", ramp(3, 40, 40))
    (folder / "empty.json").write_text(json.dumps({"type": "Catalog", "id": "x", "links": []}))
    (folder / "list.json").write_text("[]")
    (folder / "labels.csv").write_text("path,labels\nother.tif,forest\n")
    id_ = "a.tif@x=0,y=0,w=40,h=40"
    (folder / "places.csv").write_text(f'path,west,south,east,north\n"{id_}",1,2,3,4\n')
    monkeypatch.chdir(folder)
    defaults = [] if "--store" in options else ["--store", str(tmp_path / "store")]
    assert text in refusal(capsys, "index", "--model", model, *defaults, *options)
    assert not (tmp_path / "store").exists()


def test_another_cut_and_images_do_not_go_into_one_store(model: Path, scenes: Path, tmp_path: Path) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    with pytest.raises(StoreError, match="holds windows of 32 px.*this would be windows of 16 px"):
        index(SceneArchive(scenes, WindowGrid(16)), tmp_path / "store", model=model)
    with pytest.raises(StoreError, match="bands all.*bands 3,2,1"):
        index(SceneArchive(scenes, GRID, [3, 2, 1]), tmp_path / "store", model=model)
    images = write_images(tmp_path / "images", 4)
    with pytest.raises(StoreError, match="holds windows of 32 px.*this would be images that are files"):
        index(images, tmp_path / "store", model=model)
    index(images, tmp_path / "files", model=model)
    with pytest.raises(StoreError, match="holds images that are files; this would be windows of 32 px"):
        index(SceneArchive(scenes, GRID), tmp_path / "files", model=model)
    assert LanceStore(tmp_path / "store").about.version == 3


def test_the_header_of_a_store_of_images_has_nothing_new(model: Path, tmp_path: Path) -> None:
    index(write_images(tmp_path / "images", 4), tmp_path / "store", model=model)
    (header,) = LanceStore(tmp_path / "store")._db.open_table("about").to_arrow()["about"].to_pylist()
    assert sorted(json.loads(header)) == ["dim", "model", "root", "version"]
    assert json.loads(header)["version"] == 1


def test_a_scene_whose_edge_has_no_place_is_one_line(model: Path, tmp_path: Path) -> None:
    far = Affine(200_000, 0, -20_000_000, 0, -200_000, 8_000_000)
    write_tiff(tmp_path / "scenes" / "far.tif", ramp(3, 80, 200), "ESRI:54009", far)  # Mollweide
    write_tiff(tmp_path / "scenes" / "near.tif", ramp(3, 32, 32))
    done = index(SceneArchive(tmp_path / "scenes", GRID), tmp_path / "store", model=model)
    assert list(done.broken) == ["far.tif"]
    assert "outside of its projection" in done.broken["far.tif"]


def test_all_scenes_broken_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"no TIFF")
    with pytest.raises(DataError, match="none of its 1 scenes can be read, for example: "):
        SceneArchive(tmp_path)


# ---- Real scenes ---------------------------------------------------------------------------------


def test_naip_scenes_are_indexed_with_three_of_their_bands(
    model: Path, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "naip"
    folder.mkdir()
    for path in sorted((shared / "data" / "geo" / "naip").glob("*.tif"))[:2]:
        shutil.copy(path, folder)
    command = ["index", "--scenes", folder, "--model", model, "--store", tmp_path / "store"]
    assert "Choose 3 of them, such as --bands 1,2,3." in refusal(capsys, *command)
    assert main([str(each) for each in [*command, "--bands", "1,2,3"]]) == 0
    rows = rows_of(tmp_path / "store")
    assert len(rows) == 24
    assert {row.metadata["crs"] for row in rows.values()} == {"EPSG:26914"}


def test_scenes_of_16_bits_are_indexed_with_a_model_of_them(shared: Path, tmp_path: Path) -> None:
    found = SceneArchive(shared / "data" / "geo" / "other" / "mosaic_cog1.tif")
    model = write_model(tmp_path / "model", len(found.scenes[0].bands), "uint16")
    done = index(found, tmp_path / "store", model=model)
    assert done.added > 0
    assert done.added + done.skipped == len(found)
    assert all(row.footprint for row in rows_of(tmp_path / "store").values())


def test_embedding_again_is_not_needed_for_other_labels(
    model: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(SceneArchive(scenes, GRID), tmp_path / "store", model=model)
    image = "below/b.tif@x=0,y=0,w=32,h=32"
    (tmp_path / "labels.csv").write_text(f'path,labels\n"{image}",forest\n')
    monkeypatch.setattr(Encoder, "embed", None)
    done = index(SceneArchive(scenes, GRID), tmp_path / "store", model=model, labels=tmp_path / "labels.csv")
    assert (done.relabelled, done.unchanged) == (1, 15)
    row = rows_of(tmp_path / "store")[image]
    assert row.labels == ("forest",)
    assert row.footprint
