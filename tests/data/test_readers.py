"""Every reader on a fake in the real layout, and on real data where it is at hand."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import fakes
from marcir.catalog import DATASETS, create_reader
from marcir.data.archive import Archive
from marcir.data.readers.whdld import WHDLD
from marcir.data.validation import suspicious_label_names, unlisted_images
from marcir.errors import ConfigError, DataError

Writer = Callable[[Path], dict[str, set[str]]]
LAYOUTS: dict[str, tuple[str, Writer]] = {
    "ucm": ("ucm", fakes.write_ucm),
    "ml-aid": ("ml-aid", fakes.write_ml_aid),
    "ml-aid without scene folders": ("ml-aid", lambda root: fakes.write_ml_aid(root, scene_folders=False)),
    "dlrsd": ("dlrsd", fakes.write_dlrsd),
    "whdld in colours": ("whdld", fakes.write_whdld),
    "whdld indexed": ("whdld", lambda root: fakes.write_whdld(root, colours=False)),
    "manifest as a list": ("manifest", fakes.write_manifest),
    "manifest as a matrix": ("manifest", lambda root: fakes.write_manifest(root, matrix=True)),
}


pytestmark = pytest.mark.usefixtures("own_cache")


def labels_of(archive: Archive) -> dict[str, set[str]]:
    return {
        image: set(row)
        for image, row in zip(archive.ids, archive.vocabulary.decode(archive.labels), strict=True)
    }


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_finds_the_images_and_labels_of_its_layout(layout: str, tmp_path: Path) -> None:
    name, write = LAYOUTS[layout]
    root = tmp_path / "archive"
    root.mkdir()
    expected = write(root)
    before = files_below(root)
    archive = create_reader(name).read(str(root))
    assert labels_of(archive) == expected
    assert unlisted_images(archive, create_reader(name).IMAGE_FOLDER) == 0
    assert all(path.is_file() for path in archive.paths)
    assert archive.read(0).shape == (16, 16, 3)
    assert files_below(root) == before, "nothing in the user's folder is changed"


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"scenes"}))
def test_an_empty_folder_is_refused_with_what_was_expected(name: str, tmp_path: Path) -> None:
    reader = create_reader(name)
    with pytest.raises(DataError, match="was not found in root=") as error:
        reader.read(tmp_path)
    assert reader.LAYOUT in str(error.value)


@pytest.mark.parametrize("name", [name for name in DATASETS if create_reader(name).COUNTS])
def test_published_facts_agree_with_each_other(name: str) -> None:
    reader = create_reader(name)
    assert len(reader.COUNTS or ()) == len(reader.LABELS)
    assert sum(reader.SPLIT or ()) == reader.IMAGES
    assert max(reader.COUNTS or ()) <= (reader.IMAGES or 0)


def test_an_unknown_dataset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="unknown dataset 'whdl'. Did you mean 'whdld'"):
        create_reader("whdl")


def test_masks_are_read_once_and_again_when_one_changes(tmp_path: Path) -> None:
    expected = fakes.write_whdld(tmp_path, colours=False)
    reader = create_reader("whdld")
    assert labels_of(reader.read(tmp_path)) == expected
    kept = list(Path(os.environ["MARCIR_CACHE"]).rglob("*.json"))
    assert len(kept) == 1
    kept[0].write_text(kept[0].read_text().replace("building", "road"))
    assert labels_of(reader.read(tmp_path))["wh0001"] == {"road", "water"}, "the cache was read"
    mask = tmp_path / "ImagesPNG/wh0001.png"
    fakes.indexed_mask([4, 5, 6], size=24).save(mask)
    assert labels_of(reader.read(tmp_path))["wh0001"] == {"vegetation", "bare soil", "water"}


def test_a_missing_mask_is_named(tmp_path: Path) -> None:
    fakes.write_dlrsd(tmp_path)
    (tmp_path / "Labels/beach/beach01.png").unlink()
    with pytest.raises(DataError, match=r"beach01.tif: its mask Labels/.../beach01.png is missing"):
        create_reader("dlrsd").read(tmp_path)


@pytest.mark.parametrize(
    ("colours", "message"),
    [(False, "the mask has the value 9, but whdld has the labels 1 to 6"), (True, "the colour 1, 2, 3")],
)
def test_a_mask_of_something_else_is_named(colours: bool, message: str, tmp_path: Path) -> None:
    fakes.write_whdld(tmp_path)
    mask = Image.new("RGB", (4, 4), (1, 2, 3)) if colours else fakes.indexed_mask([9])
    mask.save(tmp_path / "ImagesPNG/wh0002.png")
    with pytest.raises(DataError, match=message) as error:
        create_reader("whdld").read(tmp_path)
    assert "wh0002.png" in str(error.value)


def test_a_broken_mask_is_named(tmp_path: Path) -> None:
    fakes.write_whdld(tmp_path)
    (tmp_path / "ImagesPNG/wh0003.png").write_bytes(b"\x89PNG\r\n\x1a\nxx")
    with pytest.raises(DataError, match=r"wh0003.png: not a readable PNG file"):
        create_reader("whdld").read(tmp_path)


def test_an_image_of_the_table_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    fakes.write_ucm(tmp_path)
    (tmp_path / "Images/agricultural/agricultural02.tif").unlink()
    with pytest.raises(
        DataError, match=r"LandUse_Multilabeled.txt line 4: there is no image named 'agricultural02'"
    ):
        create_reader("ucm").read(tmp_path)


def test_two_files_with_one_name_are_refused(tmp_path: Path) -> None:
    fakes.write_ucm(tmp_path)
    fakes.save(tmp_path / "Images/agricultural/agricultural02.png", 0)
    with pytest.raises(DataError, match="are both named 'agricultural02'"):
        create_reader("ucm").read(tmp_path)


def test_a_label_of_the_table_that_is_unknown_gets_the_nearest_name(tmp_path: Path) -> None:
    fakes.write_ucm(tmp_path)
    table = tmp_path / "LandUse_Multilabeled.txt"
    table.write_bytes(table.read_bytes().replace(b"buildings", b"bulding"))
    with pytest.raises(DataError, match=r"line 1: unknown label 'bulding'. Did you mean 'building'"):
        create_reader("ucm").read(tmp_path)


def test_an_unknown_label_of_a_list_is_named_with_its_own_line(tmp_path: Path) -> None:
    fakes.write_ucm(tmp_path)
    table = tmp_path / "LandUse_Multilabeled.txt"
    table.write_text("IMAGE\tlabels\nharbor00\tcars\nharbor01\tcars;aeroplne\n")
    with pytest.raises(DataError, match=r"Multilabeled.txt line 3: unknown label 'aeroplne'. Did you"):
        create_reader("ucm").read(tmp_path)


def test_folders_behind_links_are_read_once_even_where_they_go_round(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    expected = fakes.write_ucm(root)
    (root / "Images/harbor").rename(tmp_path / "elsewhere")
    (root / "Images/harbor").symlink_to(tmp_path / "elsewhere")
    (root / "Images/round").symlink_to(root / "Images")
    assert labels_of(create_reader("ucm").read(root)) == expected


def test_a_folder_named_like_an_image_is_no_image(tmp_path: Path) -> None:
    expected = fakes.write_ucm(tmp_path)
    (tmp_path / "Images/harbor00.png").mkdir()
    assert labels_of(create_reader("ucm").read(tmp_path)) == expected


COLOURS = np.array([(0, 0, 255), (255, 255, 0), (0, 255, 0)], np.uint8)  # water, road, vegetation


def palette_mask(values: list[int], colours: np.ndarray) -> Image.Image:
    mask = Image.fromarray(np.resize(np.array(values, np.uint8), (8, 8))).convert("P")
    mask.putpalette(colours.tobytes())
    return mask


@pytest.mark.parametrize(
    ("mask", "labels"),
    [
        (palette_mask([0, 1, 2], COLOURS), {"water", "road", "vegetation"}),
        (palette_mask([2, 2], COLOURS), {"vegetation"}),
        (Image.fromarray(np.resize(COLOURS, (6, 6, 3))).quantize(4), {"water", "road", "vegetation"}),
        (palette_mask([0, 6, 2], np.array([(0, 0, 0), *WHDLD.COLOURS], np.uint8)), {"water", "road"}),
        (palette_mask([0, 6, 2], np.arange(30, dtype=np.uint8)), {"water", "road"}),
        (Image.fromarray(np.resize(np.array([6, 2], np.uint8), (8, 8))), {"water", "road"}),
        (Image.fromarray(np.resize(np.array([6, 2], np.uint16), (8, 8))), {"water", "road"}),
    ],
    ids=["another order", "one colour", "quantised", "published order", "unknown palette", "grey", "16 bits"],
)
def test_the_colours_of_a_palette_tell_the_labels_where_they_are_known(
    mask: Image.Image, labels: set[str], tmp_path: Path
) -> None:
    fakes.write_whdld(tmp_path)
    mask.save(tmp_path / "ImagesPNG/wh0001.png")
    assert labels_of(create_reader("whdld").read(tmp_path))["wh0001"] == labels


def test_a_strange_colour_among_known_ones_of_a_palette_is_named(tmp_path: Path) -> None:
    fakes.write_whdld(tmp_path)
    strange = np.array([(0, 0, 255), (9, 9, 9)], np.uint8)
    palette_mask([0, 1], strange).save(tmp_path / "ImagesPNG/wh0002.png")
    with pytest.raises(DataError, match=r"wh0002.png: the mask has the colour 9, 9, 9, which is no label"):
        create_reader("whdld").read(tmp_path)


@pytest.mark.parametrize("second", ["./a/one.png", "a//one.png", "link.png"])
def test_a_file_under_two_names_is_refused(second: str, tmp_path: Path) -> None:
    fakes.save(tmp_path / "a/one.png", 0)
    (tmp_path / "link.png").symlink_to("a/one.png")
    (tmp_path / "labels.csv").write_text(f"path,labels\na/one.png,road\n{second},tree\n")
    with pytest.raises(DataError, match=r"line 3: '.*' is the same file as 'a/one.png' in line 2. Keep one"):
        create_reader("manifest").read(tmp_path)


def test_a_path_has_one_spelling(tmp_path: Path) -> None:
    fakes.save(tmp_path / "a/one.png", 0)
    (tmp_path / "labels.csv").write_text("path,labels\n./a//one.png,road\n")
    assert create_reader("manifest").read(tmp_path).ids == ("a/one.png",)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("x" * 5000, r"line 2: 'x{100}\.\.\.': File name too long. Correct the path"),
        ("a\\one.png", "is not in root=.* Write forward slashes: a/1.png"),
        ("a", "line 2: 'a' is a folder. Give the path of an image"),
    ],
)
def test_a_path_that_names_no_file_is_told_why(path: str, message: str, tmp_path: Path) -> None:
    fakes.save(tmp_path / "a/one.png", 0)
    (tmp_path / "labels.csv").write_text(f"path,labels\n{path},road\n")
    with pytest.raises(DataError, match=message):
        create_reader("manifest").read(tmp_path)


def test_images_that_the_table_does_not_name_are_counted(tmp_path: Path) -> None:
    fakes.write_manifest(tmp_path)
    for name in ("four.png", "deep/er/five.tif", ".hidden.png", "notes.txt"):
        fakes.save(tmp_path / name, 0) if not name.endswith("txt") else (tmp_path / name).write_text("-")
    (tmp_path / "link.png").symlink_to("a/one.png")
    assert unlisted_images(create_reader("manifest").read(tmp_path)) == 2


@pytest.mark.parametrize(
    ("names", "doubts"),
    [
        (["road", "tree", "bare soil", "road bank"], 0),
        (["road", "Road"], 1),
        (["bare-soil", "bare soil", "tree"], 1),
        (["road|tree"], 1),
        (["road,tree", "tree"], 1),
        (["road tree", "tree", "Road"], 1),
        (["road/tree", "tree", "road"], 1),
        (["?road", "tree"], 1),
        (["! road", "?tree", "what?"], 2),
    ],
)
def test_label_names_that_look_like_slips_are_told(names: list[str], doubts: int) -> None:
    assert len(suspicious_label_names(names)) == doubts


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "a/../../secret.png"])
def test_a_path_that_leaves_the_archive_is_refused(path: str, tmp_path: Path) -> None:
    fakes.save(tmp_path / "secret.png", 0)
    root = tmp_path / "archive"
    root.mkdir()
    (root / "labels.csv").write_text(f"path,labels\n{path},road\n")
    with pytest.raises(DataError, match="line 2: .* leaves the archive"):
        create_reader("manifest").read(root)


def test_a_missing_image_of_a_manifest_is_named_with_its_line(tmp_path: Path) -> None:
    fakes.write_manifest(tmp_path)
    (tmp_path / "a/two.jpg").unlink()
    with pytest.raises(DataError, match=r"labels.csv line 3: 'a/two.jpg' is not in root="):
        create_reader("manifest").read(tmp_path)


def test_the_label_checksum_sees_every_change_and_no_reordering(tmp_path: Path) -> None:
    fakes.write_manifest(tmp_path)
    reader = create_reader("manifest")
    first = reader.read(tmp_path).label_checksum
    table = tmp_path / "labels.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *reversed(lines[1:])]))
    assert reader.read(tmp_path).label_checksum == first
    table.write_text("\n".join(lines).replace("water", "road"))
    assert reader.read(tmp_path).label_checksum != first


def test_the_real_ucm_has_the_published_counts(shared: Path) -> None:
    reader = create_reader("ucm")
    archive = reader.read(shared / "data/ucmerced-multilabel")
    assert len(archive) == reader.IMAGES == 2100
    counts = [100, 718, 691, 886, 115, 105, 100, 103, 975, 102, 1300, 294, 100, 102, 100, 1009, 203]
    assert archive.labels.sum(0).tolist() == counts == list(reader.COUNTS or ())
    assert archive.read(0).shape == (256, 256, 3)


def test_the_real_whdld_pair_shows_road_vegetation_and_water(shared: Path) -> None:
    archive = create_reader("whdld").read(shared / "data/whdld-sample")
    assert labels_of(archive) == {"wh0001": {"road", "vegetation", "water"}}
