"""STAC collections: what is written is valid by pystac's own schemas, without network, and comes back."""

import datetime
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pystac
import pytest
import shapely

from geo.tiffs import ramp, write_tiff
from marcir.errors import DataError
from marcir.geo import WindowGrid, footprints_of, list_scenes, windows_of
from marcir.geo.footprints import scene_footprint
from marcir.geo.stac_export import COLLECTION, StacCollection, file_finder, write_collection


@dataclass(frozen=True)
class Image:
    id: str
    bbox: tuple[float, float, float, float] | None = (11, 48, 11.1, 48.1)
    footprint: bytes | None = None
    date: datetime.date | None = datetime.date(2024, 5, 31)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def written(
    folder: Path, images: Sequence[Image], root: str = "/nowhere", tables: Sequence[str] = ()
) -> tuple[pystac.Collection, list[pystac.Item], StacCollection]:
    done = write_collection(folder, images, "naip", file_finder(root), tables)
    collection = pystac.Collection.from_file(str(folder / COLLECTION))
    assert collection.validate_all() == done.items  # by the schemas that pystac has on board
    return collection, sorted(collection.get_items(), key=lambda item: item.id), done


def test_a_scene_is_one_item_that_covers_its_windows(tmp_path: Path) -> None:
    write_tiff(tmp_path / "naip/a.tif", ramp(1, 200, 300))
    (scene,) = list_scenes(tmp_path).scenes
    windows = list(windows_of(scene, WindowGrid(64)))
    images = [
        Image(window.id, footprint.bbox, shapely.to_wkb(footprint.geometry))
        for window, footprint in zip(windows, footprints_of(windows), strict=True)
    ]
    (tmp_path / "out").mkdir()
    _, (item,), done = written(tmp_path / "out", images, str(tmp_path))
    assert str(done) == "1 items"
    whole = scene_footprint(scene)
    ground = shapely.from_geojson(json.dumps(item.geometry))
    assert ground.geom_type == "Polygon"
    assert shapely.symmetric_difference(ground, whole.geometry).area < 1e-4 * whole.geometry.area
    assert item.bbox == pytest.approx(whole.bbox, abs=1e-6)
    assert item.assets["data"].href == str(tmp_path / "naip/a.tif")
    assert item.assets["data"].media_type == pystac.MediaType.GEOTIFF
    assert (item.id, item.properties["title"]) == ("naip_a.tif", "naip/a.tif")


def test_a_window_without_an_area_has_no_place(tmp_path: Path) -> None:
    nowhere = shapely.to_wkb(shapely.GeometryCollection())
    images = [Image("a.tif@x=0,y=0,w=8,h=8", (-180, 90, 180, 90), nowhere), Image("photo.jpg")]
    _, items, done = written(tmp_path, images)
    assert [item.id for item in items] == ["photo.jpg"]
    assert done.without_place == 1


def test_images_with_places_are_items_and_the_table_is_an_asset_of_the_collection(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/images.parquet").write_bytes(b"PAR1")
    images = [
        Image("photo.jpg"),
        Image("gone.png", bbox=(12, 47, 12.1, 47.1), date=datetime.date(2023, 1, 1)),
    ]
    collection, (gone, photo), _ = written(tmp_path / "out", images, str(tmp_path), ["images.parquet"])
    assert collection.assets["images"].href == "images.parquet"
    assert collection.extent.spatial.bboxes == [[11, 47, 12.1, 48.1]]
    (interval,) = collection.extent.temporal.intervals
    assert [str(moment) for moment in interval] == ["2023-01-01 00:00:00+00:00", "2024-05-31 23:59:59+00:00"]
    assert photo.assets["data"].media_type == "image/jpeg"
    assert gone.assets == {}
    assert shapely.equals(shapely.from_geojson(json.dumps(photo.geometry)), shapely.box(11, 48, 11.1, 48.1))


def test_files_of_scenes_are_found_where_a_store_says_that_they_are(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 20, 30))
    file = str(tmp_path / "a.tif")
    assert file_finder(str(tmp_path))("a.tif") == file
    assert file_finder(file)("a.tif") == file
    assert file_finder(str(tmp_path))("gone.tif") is None
    assert file_finder("s3://bucket/tiles/")("a/b.png") == "s3://bucket/tiles/a/b.png"
    assert file_finder(str(tmp_path / "gone.json"))("a") is None


def test_files_of_a_catalog_are_the_assets_that_were_chosen(tmp_path: Path) -> None:
    write_tiff(tmp_path / "cat/red.tif", ramp(1, 20, 30))
    write_tiff(tmp_path / "cat/nir.tif", ramp(1, 20, 30))
    time = datetime.datetime(2024, 5, 31, tzinfo=datetime.UTC)
    item = pystac.Item("x", shapely.geometry.mapping(shapely.box(0, 0, 1, 1)), [0, 0, 1, 1], time, {})
    for name in ("red", "nir"):
        item.add_asset(name, pystac.Asset(f"./{name}.tif", media_type=pystac.MediaType.GEOTIFF))
    (tmp_path / "cat/item.json").write_text(json.dumps(item.to_dict(include_self_link=False)))
    root = str(tmp_path / "cat/item.json")
    assert file_finder(root, ("nir",))("x") == str(tmp_path / "cat/nir.tif")
    assert file_finder(root)("x") is None  # several assets, and none was chosen


def test_a_day_is_a_range_of_time_and_a_known_moment_is_the_datetime(tmp_path: Path) -> None:
    day, moment = Image("a.png"), Image("b.png", metadata={"time": "2024-05-31T10:20:30+00:00"})
    odd = Image("c.png", metadata={"time": "noon"})
    _, (first, second, third), _ = written(tmp_path, [day, moment, odd])
    assert first.datetime is None
    assert first.properties["start_datetime"] == "2024-05-31T00:00:00Z"
    assert first.properties["end_datetime"] == third.properties["end_datetime"] == "2024-05-31T23:59:59Z"
    assert second.properties["datetime"] == "2024-05-31T10:20:30Z"


def test_what_has_no_place_or_no_date_is_left_out_and_counted(tmp_path: Path) -> None:
    images = [Image("a.png"), Image("b.png", bbox=None), Image("c.png", date=None), Image("d.png", date=None)]
    _, items, done = written(tmp_path, images)
    assert [item.id for item in items] == ["a.png"]
    assert str(done) == "1 items\nleft out: 1 without a place\nleft out: 2 without a date"


@pytest.mark.parametrize(
    ("image", "what"), [(Image("a", bbox=None), "place"), (Image("a", date=None), "date")]
)
def test_an_archive_without_places_or_dates_is_refused(tmp_path: Path, image: Image, what: str) -> None:
    with pytest.raises(
        DataError, match=f"--stac: no image of the store has a {what}, and STAC items need one."
    ):
        write_collection(tmp_path, [image], "x", file_finder("/nowhere"))


def test_an_item_across_the_date_line_has_west_above_east(tmp_path: Path) -> None:
    across = Image("a.png", bbox=(179, -10, -179.5, -9))
    _, (item,), _ = written(tmp_path, [across])
    assert item.bbox == [179, -10, -179.5, -9]
    assert item.geometry is not None
    assert item.geometry["type"] == "MultiPolygon"


def test_hostile_ids_stay_inside_the_folder_and_apart_from_each_other(tmp_path: Path) -> None:
    ids = ["../../etc/passwd", "..", "a/b", "a:b", "A_b", "/abs", "x" * 400, "é", "<script>"]
    out = tmp_path / "out"
    out.mkdir()
    _, items, _ = written(out, [Image(each) for each in ids])
    assert len(items) == len(ids)
    assert {item.properties["title"] for item in items} == set(ids)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(list((out / "items").iterdir())) == len(ids)
