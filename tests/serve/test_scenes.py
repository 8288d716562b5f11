"""Windows of scenes with their surroundings, and the files of scenes: what is shown, and what never is."""

import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from PIL import Image

from geo.tiffs import ramp, served, write_tiff
from marcir.errors import ConfigError
from marcir.geo import SceneArchive, WindowGrid
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.serve import scenes as scenes_module
from marcir.serve.errors import RequestError
from marcir.serve.scenes import ServedScenes
from marcir.serve.service import Service
from marcir.serve.settings import Settings
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread
from serve.small_archive import write_model

MIDDLE, CORNER = "below/a.tif@x=32,y=32,w=32,h=32", "below/a.tif@x=96,y=64,w=4,h=16"
NAMES = ("red", "green", "blue", "infrared", "")
# Ids of a store that somebody else made: they lead nowhere.
HOSTILE = (
    "../secret.tif@x=0,y=0,w=32,h=32",
    "/etc/passwd@x=0,y=0,w=1,h=1",
    "below/a.tif@x=0,y=0,w=1000000,h=1000000",
    "below/a.tif@x=99999999999999999999,y=0,w=32,h=32",
    "below/a.tif@x=0,y=0,w=0,h=32",
    "below/a.tif@x=0,y=0,w=64,h=64",
    "below/a.tif@x=0,y=0,w=32,h=32,r=0.0000000001",
    "below/a.tif@x=0,y=0,w=32,h=32,r=" + "9" * 400,
    "below/a.tif",
    "/vsicurl/http://127.0.0.1:1/a.tif@x=0,y=0,w=32,h=32",
    "link.tif@x=0,y=0,w=32,h=32\n",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene of five bands, a link to a scene outside of the folder, and a secret beside it."""
    place = tmp_path_factory.mktemp("scenes")
    write_tiff(place / "secret.tif", ramp(3, 32, 32))
    write_tiff(place / "scenes" / "below" / "a.tif", ramp(5, 80, 100), names=NAMES, photometric="MINISBLACK")
    (place / "scenes" / "link.tif").symlink_to(place / "secret.tif")
    return place / "scenes"


@pytest.fixture(scope="module")
def store(folder: Path, served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scenes-store") / "store"
    done = index(SceneArchive(folder, WindowGrid(32), [3, 2, 1]), made, model=served_model)
    assert done.rows == 13
    rows = LanceStore(made).get([MIDDLE])
    LanceStore(made).add([replace(rows[0], id=name) for name in HOSTILE])
    return made


@pytest.fixture(scope="module")
def scene_server(folder: Path, store: Path, served_model: Path, served_cache: Path) -> Iterator[Server]:
    with serving_in_a_thread(store, folder, served_model, served_cache, scenes=str(folder)) as running:
        yield running


def picture(server: Server, **parameters: str) -> np.ndarray:
    reply = server.ask("/api/window", parameters)
    assert (reply.status, reply.headers["content-type"]) == (200, "image/png"), reply.body
    return np.asarray(Image.open(io.BytesIO(reply.body)))


def pixels_of(folder: Path) -> np.ndarray:
    with rasterio.open(folder / "below" / "a.tif") as file:
        pixels: np.ndarray = file.read().transpose(1, 2, 0)
    return pixels


def test_an_image_says_which_scene_it_is_a_window_of(scene_server: Server) -> None:
    found = scene_server.get("/api/image", id=CORNER)
    assert found["original"] is None
    assert found["scene"] == {
        "id": "below/a.tif",
        "href": "/api/scene?id=below%2Fa.tif%40x%3D96%2Cy%3D64%2Cw%3D4%2Ch%3D16",
        "bands": [{"number": number, "name": name} for number, name in enumerate(NAMES, 1)],
        "shown": [3, 2, 1],
        "crs": "EPSG:32614",
        "resolution": [10, 10],
        "window": [96, 64, 4, 16],
        "size": [100, 80],
        "cut": 32,
    }


@pytest.mark.parametrize(
    ("image", "around", "rows", "columns"),
    [
        (MIDDLE, 0, (32, 64), (32, 64)),
        (MIDDLE, 1, (0, 80), (0, 96)),
        (MIDDLE, 4, (0, 80), (0, 100)),
        (CORNER, 0, (64, 80), (96, 100)),
        (CORNER, 1, (32, 80), (64, 100)),
    ],
)
def test_a_window_is_shown_with_its_surroundings_up_to_the_edge_of_the_scene(
    scene_server: Server,
    folder: Path,
    image: str,
    around: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    expected = pixels_of(folder)[slice(*rows), slice(*columns)]
    for bands in ("5,4,1", "2"):
        numbers = [int(each) - 1 for each in bands.split(",")]
        shown = picture(scene_server, id=image, bands=bands, around=str(around))
        assert np.array_equal(shown.reshape(*shown.shape[:2], -1), expected[:, :, numbers])
    assert np.array_equal(picture(scene_server, id=image, around=str(around)), expected[:, :, [2, 1, 0]])


def test_a_browser_keeps_a_window_until_it_is_another(scene_server: Server) -> None:
    reply = scene_server.ask("/api/window", {"id": MIDDLE})
    given = {"If-None-Match": reply.headers["etag"]}
    assert scene_server.ask("/api/window", {"id": MIDDLE}, headers=given).status == 304
    assert scene_server.ask("/api/window", {"id": MIDDLE, "bands": "1"}, headers=given).status == 200
    assert scene_server.ask("/api/window", {"id": MIDDLE, "around": "1"}, headers=given).status == 200


@pytest.mark.parametrize(
    "bands", ["", "0", "6", "1,2", "1,2,3,4", "red", "1,,2", "-1", "1e3", "٣", "1," * 40]
)
def test_other_bands_are_refused_in_one_sentence(scene_server: Server, bands: str) -> None:
    status, text = scene_server.refusal("/api/window", id=MIDDLE, bands=bands)
    assert status == 422
    assert text == "bands: give one number or three, from 1 to 5, such as 1 or 3,2,1."


@pytest.mark.parametrize("around", ["-1", "5", "x", "1.5"])
def test_other_surroundings_are_refused(scene_server: Server, around: str) -> None:
    status, text = scene_server.refusal("/api/window", id=MIDDLE, around=around)
    assert status == 422
    assert text.startswith("around: ")


@pytest.mark.parametrize("address", ["/api/window", "/api/scene"])
@pytest.mark.parametrize("image", [*HOSTILE, "not in the store"])
def test_ids_that_lead_elsewhere_show_nothing(scene_server: Server, address: str, image: str) -> None:
    status, _ = scene_server.refusal(address, id=image)
    assert status == 404
    if image in HOSTILE:
        assert scene_server.get("/api/image", id=image)["scene"] is None


def test_the_file_of_a_scene_is_an_attachment_and_files_outside_are_not(
    scene_server: Server, folder: Path
) -> None:
    href = scene_server.get("/api/image", id=MIDDLE)["scene"]["href"]
    reply = scene_server.ask(href)
    assert reply.body == (folder / "below" / "a.tif").read_bytes()
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''a.tif"
    assert reply.headers["content-type"] == "application/octet-stream"
    linked = "link.tif@x=0,y=0,w=32,h=32"
    status, text = scene_server.refusal("/api/scene", id=linked)
    assert (status, text) == (404, f"the scene of '{linked}' is not in the folder of scenes.")


def test_without_scenes_no_windows_are_shown(server: Server) -> None:
    image = "images/000000.png"
    assert server.get("/api/image", id=image)["scene"] is None
    for address in ("/api/window", "/api/scene"):
        assert server.refusal(address, id=image) == (
            404,
            "the service was started without --scenes and shows no windows.",
        )


def test_a_scene_that_has_changed_since_the_start_is_not_shown(
    folder: Path, store: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(folder / "below", tmp_path / "scenes" / "below")).parent
    scenes = ServedScenes(str(copied), LanceStore(store).about)
    assert scenes.picture(scenes.find(MIDDLE, None, 0)).startswith(b"\x89PNG")
    os.utime(copied / "below" / "a.tif", ns=(1, 1))
    with pytest.raises(ValueError, match="has changed since the service was started"):
        scenes.find(MIDDLE, None, 0)


def test_large_surroundings_are_read_coarser_and_too_large_ones_refused(
    folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes_module, "_MAX_SIDE", 48)
    scenes = ServedScenes(str(folder), LanceStore(store).about)
    shown = np.asarray(Image.open(io.BytesIO(scenes.picture(scenes.find(MIDDLE, "1", 4)))))
    assert max(shown.shape) == 48
    monkeypatch.setattr(scenes_module, "_MAX_PIXELS", 2000)
    with pytest.raises(RequestError, match="80 pixels are too many"):
        scenes.find(MIDDLE, None, 4)


def test_scenes_on_a_server_have_their_own_address(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(3, 40, 40))
    item = {
        **{"type": "Feature", "stac_version": "1.0.0", "id": "item", "links": [], "geometry": None},
        **{"assets": {"data": {"href": "./a.tif"}}, "properties": {"datetime": "2021-03-04T05:06:07Z"}},
    }
    (tmp_path / "item.json").write_text(json.dumps(item))
    model = write_model(tmp_path / "model")
    with served(tmp_path) as (address, _):
        source = f"{address}/item.json"
        index(SceneArchive(source, WindowGrid(32)), tmp_path / "store", model=model)
        scenes = ServedScenes(source, LanceStore(tmp_path / "store").about)
        image = "item@x=0,y=0,w=32,h=32"
        described = scenes.describe(image)
        assert described is not None
        assert described.href == f"{address}/a.tif"
        assert scenes.picture(scenes.find(image, None, 1)).startswith(b"\x89PNG")
        with pytest.raises(ValueError, match="is on a server. Use its own address"):
            scenes.open(image)


def test_a_store_of_files_and_scenes_of_others_are_pointed_out(
    folder: Path, store: Path, served_store: Path, served_images: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="the store holds images that are files. Give --images."):
        ServedScenes(str(folder), LanceStore(served_store).about)
    with pytest.raises(ConfigError, match="--images and --scenes exclude each other"):
        Settings(str(store), served_images, scenes=str(folder))
    write_tiff(tmp_path / "other" / "b.tif", ramp(3, 40, 40))
    service = Service(Settings(str(store), scenes=str(tmp_path / "other")))
    assert "holds none of the files of the store" in str(service.files_warning())
