"""Scenes of folders: what is read of a GeoTIFF, what is refused, and what has changed."""

import datetime
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from affine import Affine

from geo.tiffs import UTM, ramp, write_tiff
from marcir.errors import ConfigError, DataError
from marcir.geo.listing import list_scenes
from marcir.geo.reading import WindowReader
from marcir.geo.scene import (
    Fingerprint,
    Scene,
    content_hash,
    differences,
    ground_resolution,
    is_up_to_date,
    parse_bands,
)
from marcir.geo.windows import WindowGrid, windows_of


def only(folder: Path) -> Scene:
    found = list_scenes(folder)
    assert not found.broken
    (scene,) = found.scenes
    return scene


def why(folder: Path) -> str:
    """The one line about the one scene that cannot be read."""
    found = list_scenes(folder)
    assert not found.scenes
    (line,) = found.broken.values()
    assert "\n" not in line
    return line


def test_every_geotiff_below_a_folder_is_a_scene_with_its_relative_path_as_id(tmp_path: Path) -> None:
    for name in ("b.tif", "a/one.TIFF", "a/b/two.Tif"):
        write_tiff(tmp_path / name, ramp(1, 4, 5))
    (tmp_path / "notes.txt").write_text("not a scene")
    assert [scene.id for scene in list_scenes(tmp_path).scenes] == ["a/b/two.Tif", "a/one.TIFF", "b.tif"]
    assert [scene.id for scene in list_scenes(tmp_path / "a" / "one.TIFF").scenes] == ["one.TIFF"]


def test_unusual_file_names_are_opened_as_files(tmp_path: Path) -> None:
    names = ["a!b#c?d%20e.tif", "zip:x,y.tif", "ö ü.tif", "GTIFF_DIR:1:x.tif"]
    for name in names:
        write_tiff(tmp_path / name, ramp(1, 4, 5))
    found = list_scenes(tmp_path)
    assert [scene.id for scene in found.scenes] == sorted(names)
    assert not found.broken


def test_a_scene_has_the_facts_of_its_file(tmp_path: Path) -> None:
    path = write_tiff(
        tmp_path / "a.tif",
        ramp(3, 70, 50, "uint16"),
        time="2012:07:31 10:20:30",
        nodata=7,
        names=("red", "green", "nir"),
        tiled=True,
        blockxsize=16,
        blockysize=32,
    )
    scene = only(tmp_path)
    assert (scene.crs, scene.width, scene.height) == ("EPSG:32614", 50, 70)
    assert scene.affine == UTM
    assert [(band.href, band.index, band.name) for band in scene.bands] == [
        (str(path), 1, "red"),
        (str(path), 2, "green"),
        (str(path), 3, "nir"),
    ]
    assert (scene.dtype, scene.nodata, scene.has_mask) == ("uint16", 7, False)
    assert scene.block == (32, 16)
    assert scene.resolution == (10, 10)
    assert scene.time == datetime.datetime(2012, 7, 31, 10, 20, 30, tzinfo=datetime.UTC)
    assert scene.date == datetime.date(2012, 7, 31)
    assert scene.fingerprint == Fingerprint(path.stat().st_size, path.stat().st_mtime_ns)


@pytest.mark.parametrize("time", ["", "0000:00:00 00:00:00", "yesterday"])
def test_a_scene_without_a_valid_date_has_none(tmp_path: Path, time: str) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 4, 5), time=time)
    assert only(tmp_path).date is None


def test_an_alpha_band_is_a_mask_and_not_a_band(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(4, 8, 8), photometric="RGB", alpha="YES")
    scene = only(tmp_path)
    assert [band.index for band in scene.bands] == [1, 2, 3]
    assert scene.has_mask


def test_an_alpha_band_that_is_asked_for_is_a_band_and_not_a_mask(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(4, 8, 8))  # GDAL marks the fourth band as alpha
    (scene,) = list_scenes(tmp_path, [4, 3, 2]).scenes
    assert [band.index for band in scene.bands] == [4, 3, 2]
    assert not scene.has_mask


def test_bands_without_names_are_chosen_by_number(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(3, 4, 5))
    assert list_scenes(tmp_path, ["red"]).broken[str(tmp_path / "a.tif")] == (
        "a.tif: there is no band 'red': its 3 bands have no names. Choose them by number, such as --bands 1."
    )


def test_bands_are_chosen_by_number_or_name(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(3, 4, 5), names=("red", "green", "nir"))
    (scene,) = list_scenes(tmp_path, [3, 1]).scenes
    assert [band.index for band in scene.bands] == [3, 1]
    (scene,) = list_scenes(tmp_path, ["nir", "red"]).scenes
    assert [band.index for band in scene.bands] == [3, 1]
    assert list_scenes(tmp_path, [4]).broken[str(tmp_path / "a.tif")] == (
        "a.tif: there is no band 4; it has 3. Change --bands."
    )
    assert "Did you mean 'green'?" in list_scenes(tmp_path, ["gren"]).broken[str(tmp_path / "a.tif")]


@pytest.mark.parametrize("text", ["", "1,,2", "0", "1,0"])
def test_invalid_lists_of_bands_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--bands"):
        parse_bands(text)


def test_what_cannot_be_read_is_one_line_and_the_others_are_listed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = write_tiff(tmp_path / "whole.tif", ramp(1, 40, 50))
    (tmp_path / "head.tif").write_bytes(whole.read_bytes()[:60])
    (tmp_path / "empty.tif").write_bytes(b"")
    (tmp_path / "text.tif").write_text("<VRTDataset rasterXSize='5' rasterYSize='5'></VRTDataset>")
    found = list_scenes(tmp_path)
    assert [scene.id for scene in found.scenes] == ["whole.tif"]
    assert sorted(Path(path).name for path in found.broken) == ["empty.tif", "head.tif", "text.tif"]
    for path, line in found.broken.items():
        assert line.startswith(f"{path}: cannot be read as a GeoTIFF (")
        assert "\n" not in line
    assert capfd.readouterr() == ("", "")


def test_other_formats_are_not_opened_whatever_their_suffix(tmp_path: Path) -> None:
    import rasterio

    shape = {"count": 1, "height": 5, "width": 5, "dtype": "uint8"}
    with rasterio.open(
        tmp_path / "a.tif", "w", driver="PNG", crs="EPSG:32614", transform=UTM, **shape
    ) as file:
        file.write(ramp(1, 5, 5))
    assert "cannot be read as a GeoTIFF" in why(tmp_path)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_scene_without_a_place_on_the_earth_is_refused(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a" / "a.tif", ramp(1, 4, 5), crs=None)
    assert why(tmp_path / "a") == "a.tif: there is no CRS in the file. Add one with gdal_edit.py."
    write_tiff(tmp_path / "b" / "b.tif", ramp(1, 4, 5), transform=None)
    assert "there is no geotransform in the file" in why(tmp_path / "b")
    local = 'LOCAL_CS["a site",UNIT["metre",1]]'
    write_tiff(tmp_path / "c" / "c.tif", ramp(1, 4, 5), crs=local)
    assert "its CRS has no longitude and latitude" in why(tmp_path / "c")


def test_complex_pixels_are_refused(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 4, 5, "complex64"))
    assert "bands of complex64" in why(tmp_path)


def test_a_folder_without_scenes_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no GeoTIFFs below it \(.tif, .tiff\)"):
        list_scenes(tmp_path)
    with pytest.raises(DataError, match="there is no such folder or file"):
        list_scenes(tmp_path / "none")


def test_files_beside_a_scene_change_nothing(tmp_path: Path) -> None:
    pixels = ramp(1, 64, 64)
    path = write_tiff(tmp_path / "a.tif", pixels)
    before = only(tmp_path)
    write_tiff(tmp_path / "other" / "a.tif", ramp(1, 32, 32))
    shutil.move(tmp_path / "other" / "a.tif", tmp_path / "a.tif.ovr")
    write_tiff(tmp_path / "other" / "a.tif", ramp(1, 64, 64) * 0)
    shutil.move(tmp_path / "other" / "a.tif", tmp_path / "a.tif.msk")
    (tmp_path / "a.tfw").write_text("1\n0\n0\n-1\n0\n0\n")
    (tmp_path / "a.tif.aux.xml").write_text(
        "<PAMDataset><SRS>EPSG:32633</SRS><GeoTransform>0, 1, 0, 0, 0, -1</GeoTransform>"
        '<PAMRasterBand band="1"><NoDataValue>5</NoDataValue></PAMRasterBand></PAMDataset>'
    )
    assert only(tmp_path) == before
    with WindowReader() as reader:
        (window,) = windows_of(before, WindowGrid(32, resolution=20))
        coarse = reader.read(window)
    assert coarse.mask.all()
    assert np.abs(coarse.pixels[..., 0] - pixels[0].reshape(32, 2, 32, 2).mean((1, 3))).max() <= 1
    assert path.with_name("a.tif.aux.xml").exists()


def test_different_scenes_in_one_folder_are_named_in_one_line_each(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(3, 40, 50))
    write_tiff(tmp_path / "b.tif", ramp(4, 40, 50, "uint16"), transform=Affine(30, 0, 5e5, 0, -30, 5e6))
    lines = differences(list_scenes(tmp_path).scenes)
    assert lines == [
        "the scenes differ in bands: 3 (1, such as a.tif), 4 (1, such as b.tif). Choose bands with --bands.",
        "the scenes differ in dtype: uint16 (1, such as b.tif), uint8 (1, such as a.tif). Values are not "
        "scaled to each other.",
        "the scenes differ in metres per pixel: 10 (1, such as a.tif), 30 (1, such as b.tif). Read all at "
        "one --resolution.",
    ]
    assert differences(list_scenes(tmp_path / "a.tif").scenes) == []
    assert differences(list_scenes(tmp_path).scenes, resolution=30) == lines[:2], "they are read at one"


def test_a_scene_is_up_to_date_by_size_and_time_and_else_by_content(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", ramp(1, 40, 50))
    scene = only(tmp_path)
    recorded = replace(scene.fingerprint, content=content_hash(scene))
    assert is_up_to_date(scene, scene.fingerprint)
    os.utime(path, ns=(0, 1_000_000_000))
    touched = only(tmp_path)
    assert is_up_to_date(touched, recorded)
    assert not is_up_to_date(touched, scene.fingerprint), "without a recorded hash, nothing is known"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert not is_up_to_date(only(tmp_path), recorded)
    path.write_bytes(content + b"\0")
    assert not is_up_to_date(only(tmp_path), recorded)


def test_ground_resolution_is_measured_where_units_are_not_true_to_scale() -> None:
    degrees = ground_resolution("EPSG:4326", Affine(0.001, 0, 10, 0, -0.001, 60), 10, 10)
    assert degrees == pytest.approx((55.8, 111.41), rel=1e-3)
    mercator = ground_resolution("EPSG:3857", Affine(10, 0, 0, 0, -10, 8_399_737.889818357), 2, 2)
    assert mercator == pytest.approx((5, 5), rel=1e-2)
    feet = ground_resolution("EPSG:2264", Affine(10, 0, 2_000_000, 0, -10, 600_000), 10, 10)
    assert feet == pytest.approx((3.048, 3.048), rel=1e-5)
    turned = Affine(500, 0, 0, 0, 500, 0) @ Affine.rotation(30) @ Affine.scale(0.01, -0.02)
    assert ground_resolution("EPSG:32614", Affine.translation(5e5, 5e6) @ turned, 10, 10) == pytest.approx(
        (5, 10)
    )


def test_real_scenes_are_listed(shared: Path) -> None:
    folder = shared / "data" / "geo"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing")
    found = list_scenes(folder)
    assert not found.broken
    assert len([scene for scene in found.scenes if scene.id.startswith("naip/")]) == 10
    assert {scene.crs for scene in found.scenes if scene.id.startswith("naip/")} == {"EPSG:26914"}


@pytest.mark.parametrize(
    ("transform", "reaches"),
    [
        (Affine(10, 0, 5e5, 0, -10, 5e6), "500000,4.9998e+06,500050,5e+06"),  # metres
        (Affine(0.001, 0, 47, 0, -0.001, -99), "47,-99.004,47.005,-99"),  # latitude first
        (Affine(1, 0, -100, 0, -50, 200), "-100,0,-95,200"),
        (Affine(1, 0, 600, 0, -1, 10), "600,6,605,10"),
        (Affine(1, 0, float("nan"), 0, -1, 10), "nan"),
    ],
)
def test_degrees_that_are_not_on_the_earth_are_one_line(
    tmp_path: Path, transform: Affine, reaches: str
) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 4, 5), "EPSG:4326", transform)
    line = why(tmp_path)
    assert line.startswith("a.tif: its coordinates are not longitude and latitude (is the CRS wrong?)")
    assert reaches.split(",")[0] in line


@pytest.mark.parametrize(
    ("crs", "transform", "height", "width"),
    [
        ("EPSG:4326", Affine(0.25, 0, -0.125, 0, -0.25, 90.125), 721, 1440),  # GFS: points on the poles
        ("EPSG:4326", Affine(0.32, 0, 74.16, 0, 0.18, -89.95), 999, 1125),  # HYCOM: 74 to 434 degrees
        ("EPSG:4807", Affine(0.1, 0, 0, 0, -0.1, 99), 20, 20),  # 99 gradians are 89.1 degrees
    ],
)
def test_grids_that_reach_half_a_pixel_beyond_a_pole_are_read(
    tmp_path: Path, crs: str, transform: Affine, height: int, width: int
) -> None:
    write_tiff(tmp_path / "a.tif", np.ones((1, height, width), np.uint8), crs, transform)
    assert only(tmp_path).height == height


def test_metres_that_have_no_place_are_one_line(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", ramp(1, 4, 5), transform=Affine(10, 0, float("nan"), 0, -10, 5e6))
    assert "a.tif: its centre has no longitude and latitude." in why(tmp_path)
