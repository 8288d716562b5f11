"""Pixels of windows: the same as rasterio reads, missing ones marked, from any thread and process."""

import json
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.enums import Resampling

from geo.tiffs import UTM, ramp, write_tiff
from marcir.errors import BrokenImageError, ConfigError
from marcir.geo import datasets
from marcir.geo.listing import list_scenes
from marcir.geo.reading import WindowCounts, WindowPixels, WindowReader, read_windows
from marcir.geo.scene import Scene
from marcir.geo.windows import Window, WindowGrid, windows_of

TILED = {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"}


def scene_of(path: Path, bands: tuple[int, ...] | None = None) -> Scene:
    (scene,) = list_scenes(path, bands).scenes
    return scene


def put_together(scene: Scene, grid: WindowGrid) -> tuple[np.ndarray, np.ndarray]:
    """All windows, each in its place: (H, W, C) and the mask (H, W)."""
    pixels = np.zeros((scene.height, scene.width, len(scene.bands)), scene.dtype)
    mask = np.zeros(pixels.shape[:2], bool)
    with WindowReader() as reader:
        for window in windows_of(scene, grid):
            found = reader.read(window)
            rows = slice(window.y, window.y + window.height)
            columns = slice(window.x, window.x + window.width)
            pixels[rows, columns], mask[rows, columns] = found.pixels, found.mask
    return pixels, mask


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "uint32", "float32", "float64"])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_windows_put_together_are_the_scene(tmp_path: Path, dtype: str, interleave: str) -> None:
    pixels = ramp(4, 70, 53, dtype)
    path = write_tiff(tmp_path / "a.tif", pixels, interleave=interleave, **TILED)
    found, mask = put_together(scene_of(path, (1, 2, 3, 4)), WindowGrid(24))
    assert found.dtype == dtype
    assert (found == pixels.transpose(1, 2, 0)).all()
    assert mask.all()


def test_bands_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    pixels = ramp(4, 20, 20)
    path = write_tiff(tmp_path / "a.tif", pixels)
    found, _ = put_together(scene_of(path, (4, 1, 4)), WindowGrid(16))
    assert (found == pixels[[3, 0, 3]].transpose(1, 2, 0)).all()


def test_a_pixel_is_missing_when_no_band_has_data_and_missing_values_are_zero(tmp_path: Path) -> None:
    pixels = ramp(2, 20, 20, "int16")
    pixels[:, :5] = -999
    pixels[0, 10] = -999  # one band of two
    path = write_tiff(tmp_path / "a.tif", pixels, nodata=-999)
    found, mask = put_together(scene_of(path), WindowGrid(16))
    assert not mask[:5].any()
    assert mask[5:].all()
    assert (found[:5] == 0).all()
    assert (found[10, :, 0] == 0).all()
    assert (found[10, :, 1] == pixels[1, 10]).all()


def test_a_band_of_a_valid_pixel_keeps_a_value_that_marks_missing_pixels_too(tmp_path: Path) -> None:
    pixels = ramp(3, 20, 20)
    pixels[:, 4, 5] = (255, 124, 209)  # saturated in one band
    pixels[:, 7] = 255
    expected = pixels.transpose(1, 2, 0).copy()
    expected[7] = 0
    together = write_tiff(tmp_path / "a" / "a.tif", pixels, nodata=255)
    found, mask = put_together(scene_of(together), WindowGrid(16))
    assert (found == expected).all()
    assert np.argwhere(~mask.all(1)).tolist() == [[7]]
    assets = {}
    for name, band in zip("rgb", pixels, strict=True):
        assets[name] = {"href": write_tiff(tmp_path / f"{name}.tif", band[None], nodata=255).name}
    item = {
        **{"type": "Feature", "stac_version": "1.0.0", "id": "a", "links": [], "geometry": None},
        **{"assets": assets, "properties": {"datetime": "2021-03-04T05:06:07Z"}},
    }
    (tmp_path / "item.json").write_text(json.dumps(item))
    (scene,) = list_scenes(tmp_path / "item.json", ["r", "g", "b"]).scenes
    found, mask = put_together(scene, WindowGrid(16))
    assert (found == expected).all()
    assert np.argwhere(~mask.all(1)).tolist() == [[7]]


def test_missing_pixels_are_zero_in_all_bands(tmp_path: Path) -> None:
    pixels = ramp(2, 20, 20, "float32")
    pixels[0, 3, 4] = np.nan
    found, mask = put_together(scene_of(write_tiff(tmp_path / "a.tif", pixels)), WindowGrid(16))
    assert not mask[3, 4]
    assert found[3, 4].tolist() == [0, 0]


@pytest.mark.parametrize("nodata", [None, float("nan"), -3.4028234663852886e38])
def test_pixels_that_are_not_finite_are_missing(tmp_path: Path, nodata: float | None) -> None:
    pixels = ramp(2, 20, 20, "float32")
    pixels[0, 3, 4], pixels[1, 5, 6] = np.nan, np.inf
    if nodata is not None:
        pixels[:, 7] = nodata
    path = write_tiff(tmp_path / "a.tif", pixels, nodata=nodata)
    found, mask = put_together(scene_of(path), WindowGrid(16))
    assert np.isfinite(found).all()
    missing = np.argwhere(~mask).tolist()
    row = [] if nodata is None else [[7, x] for x in range(20)]
    assert missing == sorted([[3, 4], [5, 6], *row])


def test_a_mask_in_the_file_and_an_alpha_band_say_which_pixels_are_missing(tmp_path: Path) -> None:
    mask = np.full((20, 20), 255, np.uint8)
    mask[:4] = 0
    path = write_tiff(tmp_path / "mask.tif", ramp(3, 20, 20), mask=mask)
    found, valid = put_together(scene_of(path), WindowGrid(16))
    assert (valid == (mask > 0)).all()
    assert (found[:4] == 0).all()
    pixels = np.concatenate([ramp(3, 20, 20), mask[None]])
    path = write_tiff(tmp_path / "alpha.tif", pixels, photometric="RGB", alpha="YES")
    found, valid = put_together(scene_of(path), WindowGrid(16))
    assert (valid == (mask > 0)).all()
    assert found.shape == (20, 20, 3)


def test_a_coarser_resolution_is_the_mean_of_the_pixels_that_have_data(tmp_path: Path) -> None:
    pixels = ramp(2, 64, 48, "float32")
    pixels[:, 10:14, 20:24] = -1  # four missing squares
    pixels[:, 0, 0] = -1  # one missing pixel of four
    path = write_tiff(tmp_path / "a.tif", pixels, nodata=-1)
    blocks = np.where(pixels == -1, np.nan, pixels).reshape(2, 32, 2, 24, 2)
    blocks[:, 5:7, :, 10:12] = 0
    wanted = np.nanmean(blocks, axis=(2, 4)).transpose(1, 2, 0)
    scene = scene_of(path)
    with WindowReader() as reader:
        found = [reader.read(window) for window in windows_of(scene, WindowGrid(10, resolution=20))]
    for each in found:
        y, x = each.window.y, each.window.x
        h, w = each.mask.shape
        assert np.allclose(each.pixels, wanted[y : y + h, x : x + w])
    assert sum(np.count_nonzero(~each.mask) for each in found) == 4


def test_overviews_are_read_where_the_file_has_them(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", ramp(1, 64, 64), **TILED)
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2], Resampling.nearest)
        wanted = file.read(1)[::2, ::2]
    (window,) = windows_of(scene_of(path), WindowGrid(32, resolution=20))
    with WindowReader() as reader:
        assert (reader.read(window).pixels[..., 0] == wanted).all(), "the mean would be other values"


def test_a_finer_resolution_is_interpolated(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", np.full((1, 8, 8), 9, np.uint8))
    (window,) = windows_of(scene_of(path), WindowGrid(16, resolution=5))
    with WindowReader() as reader:
        found = reader.read(window)
    assert found.pixels.shape == (16, 16, 1)
    assert (found.pixels == 9).all()


def test_edge_windows_are_mirrored_to_the_full_size(tmp_path: Path) -> None:
    pixels = ramp(2, 20, 18)
    pixels[:, 19] = 0
    scene = scene_of(write_tiff(tmp_path / "a.tif", pixels, nodata=0))
    with WindowReader() as reader:
        last = reader.read(list(windows_of(scene, WindowGrid(16)))[-1])
    assert last.pixels.shape == (4, 2, 2)
    assert last.missing == 0.25, "of the pixels inside the scene"
    padded = last.padded(16)
    assert padded.pixels.shape == (16, 16, 2)
    assert padded.mask.shape == (16, 16)
    assert (padded.pixels[:4, :2] == last.pixels).all()
    assert (padded.pixels[4:8, :2] == last.pixels[::-1]).all()
    assert (padded.pixels[:4, 2:4] == last.pixels[:, ::-1]).all()
    assert not padded.mask[4].any()
    assert padded.padded(16) is padded


def test_windows_with_too_many_missing_pixels_are_skipped_and_counted(tmp_path: Path) -> None:
    pixels = ramp(1, 32, 32)
    pixels[:, :16] = 0
    pixels[:, 16:20, :16] = 0  # a quarter of the third window
    scene = scene_of(write_tiff(tmp_path / "a.tif", pixels, nodata=0))
    windows = list(windows_of(scene, WindowGrid(16)))
    for nodata_max, read in ((0.2, 1), (0.25, 2), (1.0, 4)):
        counts = WindowCounts()
        with WindowReader() as reader:
            found = list(read_windows(reader, windows, nodata_max, counts))
        assert len(found) == counts.read["a.tif"] == read
        assert counts.skipped["a.tif"] == 4 - read
        assert not counts.empty
    with WindowReader() as reader, pytest.raises(ConfigError, match="nodata_max"):
        list(read_windows(reader, windows, 1.5))


def test_a_scene_without_any_data_is_one_line(tmp_path: Path) -> None:
    scene = scene_of(write_tiff(tmp_path / "a.tif", ramp(1, 20, 20) * 0, nodata=0))
    counts = WindowCounts()
    with WindowReader() as reader:
        assert not list(read_windows(reader, windows_of(scene, WindowGrid(16)), 0.2, counts))
    assert counts.empty == {
        "a.tif": "a.tif: too many pixels are missing in all of its 4 windows (--nodata-max)."
    }


def test_a_truncated_scene_is_one_line_and_the_next_scene_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (1, 200, 200), dtype=np.uint8)
    path = write_tiff(tmp_path / "a.tif", noise, **TILED)
    write_tiff(tmp_path / "b.tif", ramp(1, 16, 16))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    scenes = list_scenes(tmp_path).scenes
    assert [scene.id for scene in scenes] == ["a.tif", "b.tif"]
    counts = WindowCounts()
    windows = [window for scene in scenes for window in windows_of(scene, WindowGrid(64))]
    with WindowReader() as reader:
        found = list(read_windows(reader, windows, counts=counts))
    assert found[-1].window.scene.id == "b.tif"
    (line,) = counts.broken.values()
    assert line.startswith(f"{path}: cannot be read as a GeoTIFF (")
    assert "\n" not in line
    assert not counts.empty
    assert capfd.readouterr() == ("", "")


def test_a_scene_that_was_replaced_or_removed_after_listing_is_broken(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", ramp(1, 20, 20))
    window = Window(scene_of(path), 0, 0, 8, 8)
    write_tiff(path, ramp(1, 30, 30))
    with WindowReader() as reader, pytest.raises(BrokenImageError, match="changed after it was listed"):
        reader.read(window)
    path.unlink()
    with WindowReader() as reader, pytest.raises(BrokenImageError, match="there is no such file"):
        reader.read(window)


def test_a_scene_is_opened_once_for_many_windows_and_the_oldest_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = datasets.open_dataset
    monkeypatch.setattr(
        "marcir.geo.reading.open_dataset", lambda href: opened.append(Path(href).name) or real(href)
    )
    for name in "abc":
        write_tiff(tmp_path / f"{name}.tif", ramp(1, 40, 40))
    a, b, c = list_scenes(tmp_path).scenes
    with WindowReader(open_files=2) as reader:
        for scene in (a, b, a, c, a, b):
            for window in windows_of(scene, WindowGrid(16)):
                reader.read(window)
    assert opened == ["a.tif", "b.tif", "c.tif", "b.tif"]


def test_threads_read_at_the_same_time(tmp_path: Path) -> None:
    pixels = ramp(3, 200, 200)
    scene = scene_of(write_tiff(tmp_path / "a.tif", pixels, **TILED))
    reader = WindowReader()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(reader.read, windows_of(scene, WindowGrid(16))))
    for each in found:
        y, x = each.window.y, each.window.x
        h, w = each.mask.shape
        assert (each.pixels == pixels[:, y : y + h, x : x + w].transpose(1, 2, 0)).all()


def _sum(reader: WindowReader, window: Window) -> int:
    return int(reader.read(window).pixels.sum())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_open_the_scene_themselves(tmp_path: Path, method: str) -> None:
    pixels = ramp(1, 64, 64)
    scene = scene_of(write_tiff(tmp_path / "a.tif", pixels, **TILED))
    windows = list(windows_of(scene, WindowGrid(16)))
    with WindowReader() as reader:
        mine = [_sum(reader, window) for window in windows]
        with multiprocessing.get_context(method).Pool(1) as pool:
            theirs = pool.starmap(_sum, [(reader, window) for window in windows])
    assert mine == theirs
    assert sum(mine) == pixels.sum()


def test_a_reader_can_be_pickled_while_files_are_open(tmp_path: Path) -> None:
    scene = scene_of(write_tiff(tmp_path / "a.tif", ramp(1, 16, 16)))
    (window,) = windows_of(scene, WindowGrid(16))
    with WindowReader(open_files=3) as reader:
        first = reader.read(window)
        again = pickle.loads(pickle.dumps(reader))  # noqa: S301
        assert again.open_files == 3
        assert (again.read(window).pixels == first.pixels).all()
        again.close()
        assert (reader.read(window).pixels == first.pixels).all()


def test_a_rotated_scene_is_read_in_its_own_pixels(tmp_path: Path) -> None:
    turned = Affine.translation(5e5, 5e6) @ Affine.rotation(30) @ Affine.scale(10, -10)
    pixels = ramp(1, 20, 20)
    scene = scene_of(write_tiff(tmp_path / "a.tif", pixels, transform=turned))
    assert scene.affine.almost_equals(turned, 1e-6)
    assert scene.resolution == pytest.approx((10, 10))
    found, _ = put_together(scene, WindowGrid(16))
    assert (found[..., 0] == pixels[0]).all()


def test_real_scenes_are_read_like_rasterio_reads_them(shared: Path) -> None:
    folder = shared / "data" / "geo"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing")
    for name in ("naip/m_4709963_se_14_1_20120731.tif", "other/mosaic_cog1.tif", "other/L7_ETMs.tif"):
        scene = scene_of(folder / name)
        found, mask = put_together(scene, WindowGrid(256))
        with rasterio.open(folder / name) as file:
            assert (found == file.read().transpose(1, 2, 0)).all()
            assert (mask == (file.dataset_mask() > 0)).all()


def test_the_share_of_missing_pixels_counts_the_mask() -> None:
    mask = np.array([[True, False], [False, False]])
    window = Window(None, 0, 0, 2, 2)  # type: ignore[arg-type]
    assert WindowPixels(window, np.zeros((2, 2, 1)), mask).missing == 0.75


def test_the_cache_of_blocks_has_its_size_while_a_reader_is_open(tmp_path: Path) -> None:
    from rasterio._env import get_gdal_config

    scene = scene_of(write_tiff(tmp_path / "a.tif", ramp(1, 16, 16), transform=UTM))
    before = get_gdal_config("GDAL_CACHEMAX")
    with WindowReader(cache_bytes=12_345_678) as reader:
        reader.read(Window(scene, 0, 0, 8, 8))
        assert get_gdal_config("GDAL_CACHEMAX") == 12_345_678
    assert get_gdal_config("GDAL_CACHEMAX") == before
