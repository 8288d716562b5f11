"""Static STAC catalogs: items, assets, times, hostile hrefs, servers."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geo.tiffs import ramp, served, write_tiff
from marcir.errors import DataError
from marcir.geo import stac
from marcir.geo.listing import list_scenes
from marcir.geo.reading import WindowReader
from marcir.geo.windows import WindowGrid, windows_of


def item(name: str, assets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "geometry": None,
        "properties": {"datetime": "2020-05-17T10:00:00Z"},
        "links": [],
        "assets": {key: {"href": href} if isinstance(href, str) else href for key, href in assets.items()},
    }
    return content | changes


def catalog(*links: tuple[str, str], kind: str = "Catalog") -> dict[str, Any]:
    return {
        "type": kind,
        "stac_version": "1.0.0",
        "id": "some",
        "description": "some scenes",
        "links": [{"rel": rel, "href": href} for rel, href in links],
    }


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def refusal(folder: Path, href: object) -> str:
    """The one line about an item whose only asset has this href."""
    asset = {"href": href, "type": "image/tiff; application=geotiff"}
    found = list_scenes(write_catalog(folder, item("a", {"data": asset})))
    assert not found.scenes
    (line,) = found.broken.values()
    assert "\n" not in line
    return line


def write_catalog(folder: Path, *items: dict[str, Any]) -> Path:
    for number, content in enumerate(items):
        write(folder / "items" / f"{number}.json", content)
    links = [("item", f"./items/{number}.json") for number in range(len(items))]
    return write(folder / "catalog.json", catalog(*links))


def test_every_item_of_a_catalog_and_its_children_is_a_scene(tmp_path: Path) -> None:
    write_tiff(tmp_path / "sub" / "files" / "one.tif", ramp(2, 8, 8), time="2001:01:01 00:00:00")
    write_tiff(tmp_path / "two scenes.tif", ramp(2, 8, 8))
    write(tmp_path / "sub" / "one.json", item("one", {"data": "files/one.tif"}, collection="c"))
    write(tmp_path / "sub" / "collection.json", catalog(("item", "./one.json"), kind="Collection"))
    two = item("two", {"data": "./two%20scenes.tif"}, properties={"datetime": "2021-01-02T23:00:00-05:00"})
    write(tmp_path / "two.json", two)
    top = catalog(("child", "./sub/collection.json"), ("item", "two.json"), ("self", "https://example.org"))
    found = list_scenes(write(tmp_path / "catalog.json", top))
    assert not found.broken
    assert [scene.id for scene in found.scenes] == ["c/one", "two"]
    assert found.scenes[0].time == datetime.datetime(2020, 5, 17, 10, tzinfo=datetime.UTC), "not the TIFF tag"
    assert found.scenes[1].time is not None
    assert found.scenes[1].time.isoformat() == "2021-01-03T04:00:00+00:00", "in UTC"
    assert found.scenes[1].date == datetime.date(2021, 1, 3), "the day in UTC, as of all other scenes"
    (alone,) = list_scenes(tmp_path / "two.json").scenes
    assert alone == found.scenes[1]


def test_the_tiff_tag_and_the_start_of_a_range_stand_in_for_a_missing_datetime(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 8, 8), time="2001:02:03 00:00:00")
    period = {
        "datetime": None,
        "start_datetime": "2019-01-01T00:00:00Z",
        "end_datetime": "2019-02-01T00:00:00Z",
    }
    (scene,) = list_scenes(write(tmp_path / "a.json", item("a", {"d": "a.tif"}, properties=period))).scenes
    assert str(scene.date) == "2019-01-01"
    unknown = item("a", {"d": "a.tif"}, properties={"datetime": None})
    found = list_scenes(write_catalog(tmp_path / "none", unknown))
    (line,) = found.broken.values()
    assert "not a valid STAC item" in line


def test_assets_of_one_band_each_are_the_bands_of_a_scene(tmp_path: Path) -> None:
    pixels = ramp(3, 20, 20, "uint16")
    for name, band in zip(("red", "nir", "swir"), pixels, strict=True):
        write_tiff(tmp_path / f"{name}.tif", band[None])
    write(tmp_path / "a.json", item("a", {name: f"{name}.tif" for name in ("red", "nir", "swir")}))
    (scene,) = list_scenes(tmp_path / "a.json", ["swir", "red"]).scenes
    assert [band.name for band in scene.bands] == ["swir", "red"]
    (window,) = windows_of(scene, WindowGrid(32))
    with WindowReader() as reader:
        found = reader.read(window)
    assert (found.pixels == pixels[[2, 0]].transpose(1, 2, 0)).all()
    assert scene.fingerprint.size == sum((tmp_path / f"{n}.tif").stat().st_size for n in ("red", "swir"))


def test_one_asset_may_have_several_bands(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(4, 8, 8, "uint16"))
    write_tiff(tmp_path / "small.tif", ramp(3, 4, 4))
    assets = {
        "visual": "a.tif",
        "preview": {"href": "small.tif", "roles": ["thumbnail"]},
        "meta": {"href": "a.xml", "type": "application/xml"},
    }
    write(tmp_path / "a.json", item("a", assets))
    for bands, wanted in ((None, [1, 2, 3, 4]), (["visual"], [1, 2, 3, 4]), ([4, 3, 2], [4, 3, 2])):
        (scene,) = list_scenes(tmp_path / "a.json", bands).scenes
        assert [band.index for band in scene.bands] == wanted


@pytest.mark.parametrize(
    ("bands", "text"),
    [
        (None, "the item has several assets. Choose with --bands: red, nir, coarse."),
        ([1], "the item has several assets. Choose with --bands: red, nir, coarse."),
        (["nirr"], "the item has no asset 'nirr'. Did you mean 'nir'?"),
        (["red", 1], "--bands mixes numbers and names of assets. Give one kind."),
        (["red", "coarse"], "the assets 'red' and 'coarse' differ in transform."),
    ],
)
def test_assets_that_cannot_be_chosen_are_one_line(tmp_path: Path, bands: Any, text: str) -> None:
    from affine import Affine

    for name in ("red", "nir"):
        write_tiff(tmp_path / "items" / f"{name}.tif", ramp(1, 8, 8))
    coarse = Affine(20, 0, 500_000, 0, -20, 5_000_000)
    write_tiff(tmp_path / "items" / "coarse.tif", ramp(1, 4, 4), transform=coarse)
    names = ("red", "nir", "coarse")
    top = write_catalog(tmp_path, item("a", {name: f"{name}.tif" for name in names}))
    (line,) = list_scenes(top, bands).broken.values()
    assert text in line


@pytest.mark.parametrize(
    "href",
    [
        "file:///etc/passwd.tif",
        "file:SECRET",
        "/etc/passwd.tif",
        "../../secret.tif",
        "%2e%2e/%2e%2e/secret.tif",
        "link.tif",
        "/vsicurl/http://127.0.0.1:1/a.tif",
        "/vsizip/../../a.zip/a.tif",
        "/VSIzip/a.zip/a.tif",
        "/vsimem/a.tif",
        "vrt://a.tif",
        "zip://a.zip!a.tif",
        "s3://bucket/a.tif",
        "http://127.0.0.1:1/a.tif",
        "//127.0.0.1/a.tif",
        "GTIFF_DIR:1:a.tif",
        "ftp://example.org/a.tif",
        "data:image/tiff;base64,AAAA",
        "a\0.tif",
        "",
        7,
        None,
    ],
)
def test_hrefs_that_leave_the_folder_of_the_catalog_are_refused(tmp_path: Path, href: object) -> None:
    write_tiff(tmp_path / "secret.tif", ramp(1, 8, 8))
    folder = tmp_path / "catalog"
    (folder / "items").mkdir(parents=True)
    (folder / "items" / "link.tif").symlink_to(tmp_path / "secret.tif")
    line = refusal(folder, href)
    assert "is refused" in line or "is not a path or address" in line or "not a valid STAC item" in line


@pytest.mark.parametrize(
    "href", ["../secret.json", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/a.json"]
)
def test_links_that_leave_the_folder_of_the_catalog_are_refused(tmp_path: Path, href: str) -> None:
    write(tmp_path / "secret.json", item("secret", {"data": "a.tif"}))
    top = write(tmp_path / "in" / "catalog.json", catalog(("item", href)))
    found = list_scenes(top)
    (line,) = found.broken.values()
    assert "is refused" in line
    assert not found.scenes


def test_a_self_link_does_not_move_the_assets(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 8, 8))
    content = item("a", {"data": "./a.tif"}, links=[{"rel": "self", "href": "http://127.0.0.1:1/x/a.json"}])
    (scene,) = list_scenes(write(tmp_path / "a.json", content)).scenes
    assert scene.hrefs == (str(tmp_path / "a.tif"),)


def test_old_items_do_not_make_pystac_read_other_files(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 8, 8))
    content = item("a", {"data": "a.tif"}, links=[{"rel": "collection", "href": "http://127.0.0.1:1/c.json"}])
    content["stac_version"] = "0.8.0"
    (scene,) = list_scenes(write(tmp_path / "a.json", content)).scenes
    assert scene.id == "a"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 8, 8))
    write(tmp_path / "a.json", item("a", {"data": "a.tif"}))
    write(tmp_path / "one.json", catalog(("child", "two.json"), ("child", "one.json"), ("item", "a.json")))
    write(tmp_path / "two.json", catalog(("child", "./one.json"), ("item", "./a.json")))
    assert [scene.id for scene in list_scenes(tmp_path / "one.json").scenes] == ["a"]


def test_unusual_ids_are_replaced_and_two_scenes_of_one_id_are_a_line(tmp_path: Path) -> None:
    write_tiff(tmp_path / "items" / "a.tif", ramp(1, 8, 8))
    items = [item(name, {"data": "a.tif"}) for name in ("../../a#b", ".._.._a_b", "fine")]
    found = list_scenes(write_catalog(tmp_path, *items))
    assert [scene.id for scene in found.scenes] == [".._.._a_b", "fine"]
    (line,) = found.broken.values()
    assert "a second scene with the id '.._.._a_b'" in line


def test_an_empty_catalog_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the catalog has no items"):
        list_scenes(write(tmp_path / "catalog.json", catalog()))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"type": "FeatureCollection"}', "[" * 100_000, '{"type": "Feature"}', "\xff"],
)
def test_what_is_not_stac_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError) as error:
        list_scenes(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_missing_item_is_a_line_and_the_others_are_listed(tmp_path: Path) -> None:
    write_tiff(tmp_path / "items" / "a.tif", ramp(1, 8, 8))
    top = write_catalog(tmp_path, item("a", {"data": "a.tif"}), item("b", {"data": "b.tif"}), item("c", {}))
    (tmp_path / "items" / "2.json").unlink()
    found = list_scenes(top)
    assert [scene.id for scene in found.scenes] == ["a"]
    assert found.broken.keys() == {"b", str(tmp_path / "items" / "2.json")}
    assert "there is no such file" in found.broken["b"]


def test_a_catalog_on_a_server_is_read_from_there(tmp_path: Path) -> None:
    pixels = ramp(3, 40, 40, "uint16")
    path = write_tiff(tmp_path / "items" / "a b.tif", pixels)
    write_catalog(tmp_path, item("a", {"data": "./a%20b.tif"}))
    with served(tmp_path) as (address, asked):
        found = list_scenes(f"{address}/catalog.json")
        assert not found.broken
        (scene,) = found.scenes
        assert scene.fingerprint.size == path.stat().st_size
        assert scene.fingerprint.content
        (window,) = windows_of(scene, WindowGrid(64))
        with WindowReader() as reader:
            assert (reader.read(window).pixels == pixels.transpose(1, 2, 0)).all()
    assert set(asked) == {"/catalog.json", "/items/0.json", "/items/a%20b.tif"}, "and no file beside them"


def test_what_a_server_does_not_have_is_one_line(tmp_path: Path) -> None:
    write_tiff(tmp_path / "items" / "a.tif", ramp(1, 8, 8))
    write_catalog(tmp_path, item("a", {"data": "a.tif"}), item("b", {"data": "gone.tif"}))
    links = [("item", "items/0.json"), ("item", "items/1.json"), ("item", "items/gone.json")]
    write(tmp_path / "catalog.json", catalog(*links))
    with served(tmp_path) as (address, _):
        found = list_scenes(f"{address}/catalog.json")
        assert [scene.id for scene in found.scenes] == ["a"]
        assert found.broken[f"{address}/items/gone.json"].endswith("the server answers 404 File not found.")
        assert found.broken["b"].startswith(f"{address}/items/gone.tif: cannot be read as a GeoTIFF (")
        assert "404" in found.broken["b"]
        with pytest.raises(DataError, match="the server answers 404"):
            list_scenes(f"{address}/none.json")
    with pytest.raises(DataError, match="Connection refused"):
        list_scenes(f"{address}/catalog.json")


def test_assets_of_a_local_catalog_may_be_on_a_server_where_that_is_allowed(tmp_path: Path) -> None:
    pixels = ramp(1, 40, 40)
    write_tiff(tmp_path / "server" / "a.tif", pixels)
    with served(tmp_path / "server") as (address, _):
        top = write_catalog(tmp_path / "local", item("a", {"data": f"{address}/a.tif"}))
        (line,) = list_scenes(top).broken.values()
        assert "--remote-assets allows assets on servers." in line
        (scene,) = list_scenes(top, remote_assets=True).scenes
        (window,) = windows_of(scene, WindowGrid(64))
        with WindowReader() as reader:
            assert (reader.read(window).pixels == pixels.transpose(1, 2, 0)).all()


@pytest.mark.parametrize(
    "href",
    [
        "file:///etc/passwd.tif",
        "/vsicurl/http://127.0.0.1:1/a.tif",
        "s3://bucket/a.tif",
        "ftp://a/b.tif",
        "//a/b.tif",
    ],
)
def test_remote_assets_are_of_http_alone_and_links_stay_local(tmp_path: Path, href: str) -> None:
    content = write_catalog(tmp_path, item("a", {"data": href}))
    (line,) = list_scenes(content, remote_assets=True).broken.values()
    assert "is refused" in line
    top = write(tmp_path / "catalog.json", catalog(("item", "http://127.0.0.1:1/a.json")))
    (line,) = list_scenes(top, remote_assets=True).broken.values()
    assert "is refused" in line


def test_items_that_a_stac_api_has_found_are_read_from_one_file(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 8, 8))
    features = [item("one", {"data": "a.tif"}), item("two", {"data": "a.tif"}), {"type": "Feature"}, None]
    found = list_scenes(write(tmp_path / "found.json", {"type": "FeatureCollection", "features": features}))
    assert [scene.id for scene in found.scenes] == ["one", "two"]
    path = tmp_path / "found.json"
    assert found.broken.keys() == {f"{path} feature 3", f"{path} feature 4"}


@pytest.mark.parametrize("limit", ["_MAX_DOCUMENTS", "_MAX_BYTES"])
def test_a_catalog_on_a_server_is_not_followed_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    write_tiff(tmp_path / "items" / "a.tif", ramp(1, 8, 8))
    top = write_catalog(tmp_path, *(item(f"{number}", {"data": "a.tif"}) for number in range(9)))
    size = top.stat().st_size + 2 * (tmp_path / "items" / "0.json").stat().st_size
    monkeypatch.setattr(stac, limit, 3 if limit == "_MAX_DOCUMENTS" else size)
    assert len(list_scenes(tmp_path / "catalog.json").scenes) == 9
    with served(tmp_path) as (address, _):
        found = list_scenes(f"{address}/catalog.json")
    (line,) = found.broken.values()
    assert len(found.scenes) == 2
    assert ": was not read, and 6 others: the catalog has more than" in line


def test_a_server_that_answers_no_ranges_is_named(tmp_path: Path) -> None:
    large = np.random.default_rng(0).integers(0, 255, (3, 400, 400)).astype(np.uint8)
    write_tiff(tmp_path / "items" / "a.tif", large)
    write_catalog(tmp_path, item("a", {"data": "a.tif"}))
    with served(tmp_path, ranges=False) as (address, _):
        (line,) = list_scenes(f"{address}/catalog.json").broken.values()
    assert line.startswith(f"{address}/items/a.tif: its server must answer ranges of bytes, and does not.")


@pytest.mark.parametrize(
    "href", ["file:///etc/passwd.tif", "/vsizip/a.zip/a.tif", "s3://bucket/a.tif", "ftp://a/b.tif"]
)
def test_a_catalog_on_a_server_may_not_point_to_local_files(tmp_path: Path, href: str) -> None:
    write_catalog(tmp_path, item("a", {"data": href}))
    with served(tmp_path) as (address, _):
        (line,) = list_scenes(f"{address}/catalog.json").broken.values()
    assert "is refused" in line


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1:1/a.json"])
def test_a_server_may_not_redirect_to_another_scheme(tmp_path: Path, target: str) -> None:
    with served(tmp_path) as (address, _), pytest.raises(DataError, match="not allowed|unknown url type"):
        list_scenes(f"{address}/redirect?{target}")


def test_a_server_may_redirect_to_another_address(tmp_path: Path) -> None:
    write_tiff(tmp_path / "items" / "a.tif", ramp(1, 8, 8))
    write_catalog(tmp_path, item("a", {"data": "./a.tif"}))
    with served(tmp_path) as (address, _):
        found = list_scenes(f"{address}/redirect?{address}/catalog.json")
    assert [scene.id for scene in found.scenes] == ["a"]
