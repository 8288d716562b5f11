"""Packed images: the same pixels as the files, rebuilt when they change, safe for several processes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch

from data import fakes
from marcir.catalog import create_reader
from marcir.data.archive import Archive
from marcir.data.sources import ImageFiles, PackedImages, broken_images
from marcir.errors import DataError

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    root = tmp_path / "archive"
    root.mkdir()
    fakes.write_manifest(root)
    return create_reader("manifest").read(root)


def test_packed_images_are_those_of_the_files(archive: Archive) -> None:
    packed, files = PackedImages(archive, 20), ImageFiles(archive, 20)
    assert packed.batch([2, 0]).shape == (2, 3, 20, 20)
    assert packed.batch([0]).dtype == torch.uint8
    assert torch.equal(packed.batch([2, 0, 0]), files.batch([2, 0, 0]))


def test_an_image_of_the_wanted_size_is_packed_unchanged(archive: Archive) -> None:
    packed = PackedImages(archive, 16)
    assert (packed.batch([0])[0].permute(1, 2, 0).numpy() == archive.read(0)).all()


def test_the_archive_is_packed_once_and_again_when_an_image_changes(archive: Archive) -> None:
    path = PackedImages(archive, 16).path
    made = path.stat().st_mtime_ns
    assert PackedImages(archive, 16).path == path
    assert path.stat().st_mtime_ns == made
    fakes.save(archive.paths[0], 99)
    os.utime(archive.paths[0], ns=(1, 1))
    again = PackedImages(archive, 16)
    assert again.path != path
    assert (again.batch([0])[0].permute(1, 2, 0).numpy() == archive.read(0)).all()


def test_nothing_is_written_into_the_archive(archive: Archive) -> None:
    before = sorted(archive.root.rglob("*"))
    PackedImages(archive, 16)
    assert sorted(archive.root.rglob("*")) == before


def test_many_bands_and_16_bits_survive(tmp_path: Path) -> None:
    root = tmp_path / "bands"
    root.mkdir()
    image = fakes.pixels(0, 16, 5, np.uint16)
    tifffile.imwrite(root / "a.tif", image, photometric="minisblack", planarconfig="contig")
    (root / "labels.csv").write_text("path,labels\na.tif,road\n")
    packed = PackedImages(create_reader("manifest").read(root), 16)
    assert packed.bands == 5
    assert packed.images.dtype == np.uint16
    assert (packed.images[0] == image).all()


def test_grey_images_of_a_colour_archive_are_repeated(archive: Archive) -> None:
    from PIL import Image

    Image.fromarray(fakes.pixels(5)[:, :, 0]).save(archive.paths[1].with_suffix(".png"))
    archive.paths[1].with_suffix(".png").replace(archive.paths[1])
    batch = PackedImages(archive, 16).batch([1])
    assert torch.equal(batch[0, 0], batch[0, 2])


def test_broken_images_are_listed_and_skipped_only_on_demand(archive: Archive) -> None:
    archive.paths[1].write_bytes(b"")
    with pytest.raises(DataError, match=r"1 broken image\(s\): .*two.jpg: .*--on-broken skip"):
        PackedImages(archive, 16)
    with pytest.raises(DataError, match="broken"):
        PackedImages(archive, 16)
    skipped = PackedImages(archive, 16, on_broken="skip")
    assert list(skipped.broken) == ["a/two.jpg"]
    assert skipped.batch([0]).any()
    assert list(broken_images(archive)) == ["a/two.jpg"]


def test_an_image_of_another_depth_is_broken(archive: Archive) -> None:
    tifffile.imwrite(archive.paths[0].with_suffix(".tif"), fakes.pixels(0, dtype=np.uint16))
    (archive.root / "labels.csv").write_text("path,labels\na/two.jpg,road\na/one.tif,road\n")
    mixed = create_reader("manifest").read(archive.root)
    with pytest.raises(DataError, match=r"one.tif: its pixels are uint16, the archive's are uint8"):
        PackedImages(mixed, 16)


def test_an_archive_of_broken_images_only_is_refused(archive: Archive) -> None:
    for path in archive.paths:
        path.write_bytes(b"x")
    with pytest.raises(DataError, match="cannot be read as an image"):
        PackedImages(archive, 16)


PACK = """
import sys
from pathlib import Path
from marcir.catalog import create_reader
from marcir.data.sources import PackedImages
archive = create_reader("manifest").read(Path(sys.argv[1]))
print(PackedImages(archive, 16).batch(range(len(archive))).sum().item())
"""


def test_processes_that_start_at_once_see_the_same_whole_file(archive: Archive) -> None:
    command = [sys.executable, "-c", PACK, str(archive.root)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sums == {f"{PackedImages(archive, 16).batch([0, 1, 2]).sum().item()}\n"}
    left = [path for path in Path(os.environ["MARCIR_CACHE"]).rglob(".*") if path.is_file()]
    assert not left, "no temporary file is left"
