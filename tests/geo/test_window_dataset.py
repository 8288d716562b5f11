"""The dataset `windows`: pixels of the scenes, splits by blocks of space, and commands that take it."""

import csv
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
import torch
from affine import Affine

from geo.test_labelling import patches, rows_of
from geo.tiffs import UTM, write_tiff
from marcir.cli import main
from marcir.data.archive import Archive, Place, open_archive
from marcir.data.dataset import ImageFiles, PackedImages
from marcir.data.split import PARTS, Split, draw_split
from marcir.errors import ConfigError, DataError
from marcir.geo.blocks import block_at
from marcir.geo.labelling import label_windows
from training_runs import train

pytestmark = pytest.mark.usefixtures("own_cache")


def textured(classes: np.ndarray, bands: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Noise around a value for each class and band. (C, H, W)"""
    random = np.random.default_rng(seed)
    centres = random.uniform(0.2, 0.8, (bands, classes.max() + 1))[:, classes]
    values = np.clip(centres + random.normal(0, 0.05, centres.shape), 0.01, 1)
    return (values * (1 if dtype.startswith("float") else np.iinfo(dtype).max)).astype(dtype)


def write_dataset(
    folder: Path, bands: int = 4, dtype: str = "uint16", shape: tuple[int, int] = (120, 160), **options: Any
) -> Path:
    """A scene and its map, cut into windows; the map is one class wider than the others."""
    classes = patches(*shape, side=20)
    write_tiff(folder / "scenes/a.tif", textured(classes, bands, dtype))
    write_tiff(folder / "map.tif", classes[None])
    out: Path = options.pop("out", folder / "windows")
    settings: Any = {"window": 20, "split_blocks": 400, "min_share": 0.1, **options}
    settings["bands"] = settings.pop("bands_read", None)
    label_windows(folder / "scenes", folder / "map.tif", out, **settings)
    return out


def _four_bands(folder: Path, dtype: str) -> Path:
    return write_dataset(folder, dtype=dtype, shape=(50, 70), window=32, bands_read=(1, 2, 3, 4))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "uint32"])
def test_images_are_the_pixels_of_the_scene(tmp_path: Path, dtype: str) -> None:
    archive = open_archive("windows", _four_bands(tmp_path, dtype))
    with rasterio.open(tmp_path / "scenes/a.tif") as file:
        pixels = file.read()
    if dtype == "uint32":  # networks take no more than 16 bits or floats
        pixels = pixels.astype(np.float32)
    position = archive.position_of["a.tif@x=32,y=0,w=32,h=32"]
    assert (archive.read(position) == pixels[:, :32, 32:64].transpose(1, 2, 0)).all()
    edge = archive.read(archive.position_of["a.tif@x=64,y=32,w=6,h=18"])
    assert edge.shape == (32, 32, 4)
    assert (edge[:18, :6] == pixels[:, 32:, 64:].transpose(1, 2, 0)).all()
    files, packed = ImageFiles(archive, 32), PackedImages(archive, 32)
    everything = range(len(archive))
    assert torch.equal(files.batch(everything).float(), packed.batch(everything).float())
    assert (packed.bands, packed.dtype) == (4, pixels.dtype)
    assert files.checksum == packed.checksum


def test_packed_images_of_other_bands_are_others(tmp_path: Path) -> None:
    first = write_dataset(tmp_path, 3)
    second = tmp_path / "second"
    label_windows(
        tmp_path / "scenes", tmp_path / "map.tif", second, window=20, split_blocks=400, bands=(3, 2, 1)
    )
    one, two = (PackedImages(open_archive("windows", root), 20) for root in (first, second))
    assert one.bands == two.bands == 3
    assert torch.equal(one.batch([5]).float().flip(1), two.batch([5]).float())


def test_the_table_has_the_footprints(tmp_path: Path) -> None:
    shapely = pytest.importorskip("shapely")
    root = write_dataset(tmp_path)
    for row in rows_of(root).values():
        footprint = shapely.from_wkt(row["footprint"])
        bounds = [float(row[side]) for side in ("west", "south", "east", "north")]
        assert footprint.is_valid
        assert np.abs(np.array(footprint.bounds) - bounds).max() < 2e-6
        assert row["scene"] == "a.tif"


def test_labels_that_are_unknown_are_read_as_unknown(tmp_path: Path) -> None:
    classes = patches(60, 60, side=20)
    write_tiff(tmp_path / "scenes/a.tif", textured(classes, 1, "uint8"))
    write_tiff(tmp_path / "map.tif", classes[None, :, :50])
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=20)
    archive = open_archive("windows", tmp_path / "out")
    assert archive.has_unknown
    covered = [not name.startswith("a.tif@x=40") for name in archive.ids]
    assert (archive.labels[covered] >= 0).all()
    assert ((archive.labels < 0).sum(1)[[not each for each in covered]] == len(archive.vocabulary) - 1).all()


def block_of(archive: Archive, part: tuple[str, ...]) -> set[str]:
    return {archive.places[archive.position_of[image]].block for image in part}


@pytest.mark.parametrize("seed", range(5))
def test_blocks_are_never_in_two_parts(tmp_path: Path, seed: int) -> None:
    archive = open_archive("windows", write_dataset(tmp_path))
    split = draw_split(archive, seed)
    assert split.method == "blocks"
    parts = [block_of(archive, getattr(split, part)) for part in PARTS]
    assert all(parts)
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert sum(map(len, parts)) == len({place.block for place in archive.places})
    assert len(split.train) + len(split.validation) + len(split.test) == len(archive)
    assert len(split.train) / len(archive) == pytest.approx(0.7, abs=0.15)
    split.save(tmp_path / "split.json")
    assert Split.load(tmp_path / "split.json", archive) == split
    assert split != draw_split(archive, seed + 10)


def test_windows_of_one_place_and_several_dates_are_in_one_part(tmp_path: Path) -> None:
    classes = patches(120, 120, side=20)
    for k, name in enumerate(("2010.tif", "2012.tif")):
        write_tiff(tmp_path / "scenes" / name, textured(classes, 1, "uint8", k))
    write_tiff(tmp_path / "map.tif", classes[None])
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=20, split_blocks=300)
    archive = open_archive("windows", tmp_path / "out")
    split = draw_split(archive, 0)
    places = [{name.partition("@")[2] for name in getattr(split, part)} for part in PARTS]
    assert not places[0] & places[1] | places[0] & places[2] | places[1] & places[2]
    assert sum(map(len, places)) == 36


def test_windows_that_overlap_another_part_are_left_out(tmp_path: Path) -> None:
    archive = open_archive("windows", write_dataset(tmp_path, stride=8, split_blocks=400))
    split = draw_split(archive, 0)
    covered: list[set[tuple[int, int]]] = []
    for part in PARTS:
        pixels = set()
        for image in getattr(split, part):
            x, y, width, height = (int(each.partition("=")[2]) for each in image.partition("@")[2].split(","))
            pixels |= {(i, j) for i in range(x, x + width) for j in range(y, y + height)}
        covered.append(pixels)
    assert all(covered)
    assert not covered[0] & covered[1] | covered[0] & covered[2] | covered[1] & covered[2]


def test_a_random_split_is_refused_unless_the_dataset_has_no_blocks(tmp_path: Path) -> None:
    archive = open_archive("windows", write_dataset(tmp_path))
    for method in ("random", "stratified"):
        with pytest.raises(ConfigError, match="neighbouring windows would be .* --split-blocks 0"):
            draw_split(archive, 0, method)  # type: ignore[arg-type]
    mixed = draw_split(open_archive("windows", write_dataset(tmp_path / "b", split_blocks=0)), 0, "random")
    mixed.save(tmp_path / "split.json")
    with pytest.raises(DataError, match=r"split.json: the block r\d+c\d+ is in \w+ and in \w+"):
        Split.load(tmp_path / "split.json", archive)
    free = open_archive("windows", tmp_path / "b/windows")
    with pytest.raises(ConfigError, match="not in blocks of space. Use the method random or stratified"):
        draw_split(free, 0)
    assert len(draw_split(free, 0, "random").test) == round(0.2 * len(free))


def test_too_few_blocks_are_refused(tmp_path: Path) -> None:
    archive = open_archive("windows", write_dataset(tmp_path, split_blocks=100_000))
    with pytest.raises(ConfigError, match=r"has 1 block\(s\) of space, and each of three parts needs one"):
        draw_split(archive, 0)


def test_an_archive_without_broken_windows_keeps_their_places(tmp_path: Path) -> None:
    archive = open_archive("windows", write_dataset(tmp_path))
    rest = archive.without(archive.ids[:3])
    assert rest.places == archive.places[3:]
    assert isinstance(rest.places[0], Place)


def test_blocks_are_squares_of_the_given_side_everywhere() -> None:
    for latitude in (-89.9, -60.0, 0.0, 45.0, 71.0):
        metres_per_degree = 111_320 * np.cos(np.radians(latitude))
        longitudes = np.linspace(10, 10 + 50_000 / metres_per_degree, 500)
        columns = {block_at(float(each), latitude, 5000) for each in longitudes}
        assert 9 <= len(columns) <= 12, latitude
        assert block_at(179.99999999, latitude, 5000) != block_at(-179.99999999, latitude, 5000)
    assert block_at(0, 90, 5000) == block_at(10, 89.999, 5000)
    assert block_at(0, 0, 1e9) == block_at(100, 80, 1e9) == "r0c0"


def test_two_zones_of_utm_have_the_same_blocks(tmp_path: Path) -> None:
    classes = patches(60, 60, side=20)
    write_tiff(tmp_path / "scenes/a.tif", textured(classes, 1, "uint8"))
    # About the same ground in the next zone, where north is elsewhere.
    to_next = pyproj.Transformer.from_crs("EPSG:32614", "EPSG:32615", always_xy=True)
    (x, y), (east_x, east_y) = (to_next.transform(*(UTM @ corner)) for corner in ((0, 0), (60, 0)))
    angle = math.degrees(math.atan2(east_y - y, east_x - x))
    place = Affine.translation(x, y) @ Affine.rotation(angle) @ Affine.scale(10, -10)
    write_tiff(tmp_path / "scenes/b.tif", textured(classes, 1, "uint8"), crs="EPSG:32615", transform=place)
    write_tiff(tmp_path / "map.tif", classes[None])
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=20, split_blocks=330)
    archive = open_archive("windows", tmp_path / "out")
    place_of = dict(zip(archive.ids, archive.places, strict=True))
    assert len(place_of) == 18
    for name, own in place_of.items():
        other = place_of[name.replace("a.tif", "b.tif")]
        assert own.block == other.block or other.block in own.shared
    assert any(own.shared for own in place_of.values())


def changed(root: Path) -> None:
    path = root / "scenes/a.tif"
    with rasterio.open(path, "r+") as file:
        file.write(file.read() + 1)


def edited(column: str, value: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / "windows/windows.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        rows[1][rows[0].index(column)] = value
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)

    return edit


def without_column(root: Path) -> None:
    path = root / "windows/windows.csv"
    path.write_text(path.read_text("utf-8").replace("shared_blocks", "shared"), "utf-8")


def another_version(root: Path) -> None:
    path = root / "windows/windows.json"
    path.write_text(path.read_text("utf-8").replace('"version": 1', '"version": 2'), "utf-8")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda root: (root / "scenes/a.tif").unlink(), "the scene 'a.tif' cannot be read .*No such file"),
        (changed, "the scene 'a.tif' changed after it was cut"),
        (lambda root: (root / "windows/windows.csv").unlink(), "windows.csv was not found"),
        (lambda root: (root / "windows/windows.json").unlink(), "windows.json was not found"),
        (edited("labels", "1;9"), "windows.csv line 2: unknown label '9'"),
        (edited("labels", "1;?1"), "windows.csv line 2: '1' and '.1' contradict each other"),
        (edited("id", "a.tif@x=20,y=0,w=20,h=20"), "windows.csv line 3: duplicate window"),
        (edited("id", "a.tif@x=900,y=0,w=20,h=20"), "windows.csv line 2: 'a.tif@x=900,.*not inside a.tif"),
        (edited("id", "b.tif@x=0,y=0,w=20,h=20"), "windows.csv line 2: 'b.tif' is not among the scenes"),
        (edited("id", "b.tif"), "windows.csv line 2: 'b.tif': not the id of a window"),
        (edited("block", ""), "windows.csv line 2: the block is missing"),
        (without_column, "windows.csv line 1: there is no column 'shared_blocks'"),
        (another_version, "version 2; this marcir reads version 1"),
    ],
)
def test_a_dataset_that_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, damage: Callable[[Path], object], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_dataset(tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=expected):
        open_archive("windows", root)
    options = ["--dataset", "windows", "--root", str(root)]
    assert main(["train", *options, "--encoder.weights", "none", "--run", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_labels_can_be_corrected_in_the_table(tmp_path: Path) -> None:
    root = write_dataset(tmp_path)
    edited("labels", "1;!2;?3")(tmp_path)
    archive = open_archive("windows", root)
    assert archive.vocabulary.names == ("1", "2", "3", "4")
    assert archive.labels[0].tolist() == [1, 0, -1, 0]


def test_a_scene_that_was_copied_is_the_same_scene(tmp_path: Path) -> None:
    root = write_dataset(tmp_path)
    scene = tmp_path / "scenes/a.tif"
    shutil.copy(scene, tmp_path / "copy.tif")
    (tmp_path / "copy.tif").replace(scene)
    os.utime(scene, (0, 0))
    assert len(open_archive("windows", root)) == 48


@pytest.mark.parametrize(
    ("option", "expected"), [("--labels", "leave --labels out"), ("--unlisted", "leave --unlisted out")]
)
def test_other_labels_are_refused(
    tmp_path: Path, option: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_dataset(tmp_path)
    assert main(["data", "inspect", "--dataset", "windows", "--root", str(root), option, "unknown"]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(("bands", "dtype"), [(4, "uint16"), (3, "uint8"), (2, "float32")])
def test_every_command_takes_windows(
    tmp_path: Path, bands: int, dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = patches(120, 160, side=20)
    write_tiff(tmp_path / "scenes/a.tif", textured(classes, bands, dtype))
    write_tiff(tmp_path / "map.tif", classes[None, :, :150])
    root, split = tmp_path / "windows", tmp_path / "split.json"
    places = ["--scenes", str(tmp_path / "scenes"), "--map", str(tmp_path / "map.tif"), "--out", str(root)]
    cut = ["--window", "20", "--split-blocks", "400", "--min-share", "0.1"]
    assert main(["data", "windows", *places, *cut]) == 0
    assert "48 windows of 1 scenes" in capsys.readouterr().out
    options = ["--dataset", "windows", "--root", str(root)]
    assert main(["data", "inspect", *options]) == 0
    assert "broken images: 0" in capsys.readouterr().out
    assert main(["data", "split", *options, "--out", str(split)]) == 0
    assert main(["data", "show", *options, "--out", str(tmp_path / "show.png"), "--images", "2"]) == 0
    small = ["--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--data.size", "32"]
    short = ["--train.epochs", "2", "--train.batch_size", "8", "--train.device", "cpu"]
    run = tmp_path / "run"
    train(*options, *small, *short, "--data.split", str(split), "--run", str(run))
    drawn = Split.load(run / "split.json", open_archive("windows", root))
    assert drawn.method == "blocks"
    assert drawn == Split.load(split, open_archive("windows", root))
    capsys.readouterr()
    assert main(["evaluate", *options, "--model", str(run), "--allow-incomplete"]) == 0
    assert "The test images of the run's split." in capsys.readouterr().out
