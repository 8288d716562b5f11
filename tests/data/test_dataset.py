"""Packed images: the same pixels as the files, rebuilt when they change, safe for several processes."""

import os
import pickle
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from data import fakes
from marcir.catalog import create_reader
from marcir.data.archive import Archive
from marcir.data.dataset import ArchiveDataset, ImageFiles, PackedImages, open_images
from marcir.data.readers.dlrsd import DLRSD
from marcir.data.validation import broken_images, leave_out_broken
from marcir.errors import BrokenImageError, ConfigError, DataError
from marcir.files import atomic_write, fingerprint

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
    made = path.stat().st_ino
    assert PackedImages(archive, 16).path == path
    assert path.stat().st_ino == made
    checksum = PackedImages(archive, 16).checksum
    fakes.save(archive.paths[0], 99)
    again = PackedImages(archive, 16)
    assert again.path != path
    assert again.checksum != checksum
    assert not path.exists()
    assert (again.batch([0])[0].permute(1, 2, 0).numpy() == archive.read(0)).all()


def test_an_image_of_the_same_size_and_time_with_another_content_is_noticed(archive: Archive) -> None:
    path = archive.paths[0].with_suffix(".tif")
    tifffile.imwrite(path, fakes.pixels(1))
    (archive.root / "labels.csv").write_text("path,labels\na/one.tif,road\n")
    archive = create_reader("manifest").read(archive.root)
    assert (PackedImages(archive, 16).batch([0])[0].permute(1, 2, 0).numpy() == fakes.pixels(1)).all()
    before = path.stat()
    tifffile.imwrite(path, fakes.pixels(2))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert (PackedImages(archive, 16).batch([0])[0].permute(1, 2, 0).numpy() == fakes.pixels(2)).all()


def test_new_times_alone_do_not_pack_again(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PackedImages(archive, 16)
    os.utime(archive.paths[0], ns=(1, 1))
    monkeypatch.setattr("marcir.data.image_cache._build", None)
    again = PackedImages(archive, 16)
    assert (again.path, again.checksum) == (first.path, first.checksum)
    # and the contents are not read another time
    monkeypatch.setattr("marcir.data.image_cache.checksum_of_files", None)
    assert PackedImages(archive, 16).path == first.path


@pytest.mark.parametrize("suffix", [".npy", ".json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "noise"])
def test_a_damaged_cache_is_made_again(archive: Archive, suffix: str, damage: str) -> None:
    packed = PackedImages(archive, 16)
    whole, folder = packed.batch([0, 1, 2]), packed.path.parent
    (file,) = folder.glob(f"*{suffix}")
    content = file.read_bytes()
    file.write_bytes({"truncated": content[: len(content) // 2], "noise": b"[1, 2]"}.get(damage, b""))
    if damage == "missing":
        file.unlink()
    assert torch.equal(PackedImages(archive, 16).batch([0, 1, 2]), whole)
    assert len(list(folder.glob("*.npy"))) == 1


def test_what_killed_processes_left_and_nobody_uses_is_swept(archive: Archive) -> None:
    packed = PackedImages(archive, 16)
    notes = next(packed.path.parent.glob("*.json"))
    left = notes.with_name(f".{notes.stem}-0123abcd.npy.4567cdef.part")
    old = notes.with_name("manifest-99-older.npy")
    recent = notes.with_name("manifest-99-recent.npy")
    for path in (left, old, recent):
        path.write_bytes(b"")
    month = time.time() - 31 * 24 * 3600
    os.utime(old, (month, month))
    os.utime(packed.path, (month, month))
    PackedImages(archive, 16)
    fakes.save(archive.paths[0], 99)
    again = PackedImages(archive, 16)
    assert not left.exists()
    assert not old.exists()
    assert recent.exists()
    assert again.path.exists()


def test_packed_images_are_sent_to_another_process_without_their_pixels(archive: Archive) -> None:
    packed = PackedImages(archive, 64)
    sent = pickle.dumps(packed)
    assert len(sent) < 5000
    assert torch.equal(pickle.loads(sent).batch([2, 0]), packed.batch([2, 0]))  # noqa: S301
    packed.path.unlink()
    with pytest.raises(DataError, match="the packed images were removed"):
        pickle.loads(sent)  # noqa: S301


def test_a_cache_in_the_image_folder_is_refused(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (archive.root, archive.root / "a" / "cache"):
        monkeypatch.setenv("MARCIR_CACHE", str(folder))
        with pytest.raises(DataError, match="the cache lies in the archive .* Set MARCIR_CACHE"):
            PackedImages(archive, 16)
    assert not list(archive.root.rglob("packed"))


def test_a_cache_that_cannot_be_written_is_told_in_one_line(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("MARCIR_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be written .* Set MARCIR_CACHE"):
        PackedImages(archive, 16)


def test_others_may_read_what_is_written(archive: Archive, tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        packed = PackedImages(archive, 16)
    finally:
        os.umask(old)
    for path in packed.path.parent.glob("*.[jn]*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    with atomic_write(tmp_path / "kept") as temporary:
        temporary.write_text("x")
    (tmp_path / "usual").write_text("x")
    assert (tmp_path / "kept").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_file_names_that_are_not_utf_8_are_packed(archive: Archive) -> None:
    name = os.fsdecode(b"\xff.png")
    try:
        fakes.save(archive.root / name, 3)
    except OSError:
        return  # a file system that has no such names
    odd = Archive(
        "manifest", archive.root, (name,), (archive.root / name,), archive.labels[:1], archive.vocabulary
    )
    assert PackedImages(odd, 16).batch([0]).shape == (1, 3, 16, 16)
    assert odd.label_checksum
    (archive.root / name).write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        PackedImages(odd, 16)


def test_an_image_that_vanishes_is_broken(archive: Archive) -> None:
    archive.paths[1].unlink()
    with pytest.raises(DataError, match=r"two.jpg: there is no such file.*--on-broken skip"):
        PackedImages(archive, 16)
    assert list(PackedImages(archive, 16, "skip").broken) == ["a/two.jpg"]
    fakes.save(archive.paths[1], 1)
    assert not PackedImages(archive, 16).broken


@pytest.mark.parametrize("source", [PackedImages, ImageFiles])
@pytest.mark.parametrize("size", [40.0, 0, -1, True, "16"])
def test_a_size_that_is_none_is_refused(archive: Archive, source: type[ImageFiles], size: int) -> None:
    with pytest.raises(ConfigError, match="size = "):
        source(archive, size)


@pytest.mark.parametrize("source", [PackedImages, ImageFiles])
def test_an_empty_batch_has_the_shape_of_any_other(archive: Archive, source: type[ImageFiles]) -> None:
    batch = source(archive, 16).batch([])
    assert batch.shape == (0, 3, 16, 16)
    assert batch.dtype == torch.uint8


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
    assert packed.dtype == np.uint16
    assert (packed.batch([0])[0].permute(1, 2, 0).numpy() == image).all()


def replace_by_grey(path: Path, dtype: type = np.uint8) -> None:
    Image.fromarray(fakes.pixels(5, dtype=dtype)[:, :, 0]).save(path, "PNG")


@pytest.mark.parametrize("position", [0, 1])
def test_grey_images_of_a_colour_archive_are_repeated_wherever_they_stand(
    archive: Archive, position: int
) -> None:
    replace_by_grey(archive.paths[position])
    for source in (PackedImages(archive, 16), ImageFiles(archive, 16)):
        assert source.bands == 3
        batch = source.batch([position])
        assert torch.equal(batch[0, 0], batch[0, 2])
    assert broken_images(archive) == {}


def test_a_first_image_of_another_depth_does_not_speak_for_the_archive(archive: Archive) -> None:
    replace_by_grey(archive.paths[0], np.uint16)
    assert list(broken_images(archive)) == ["a/one.png"]
    with pytest.raises(DataError, match=r"1 broken .*one.png: its pixels are uint16, the archive"):
        PackedImages(archive, 16)


@pytest.mark.parametrize("packed", [True, False])
def test_skipped_images_are_never_served(archive: Archive, packed: bool) -> None:
    archive.paths[1].write_bytes(b"")
    source = open_images(archive, 16, on_broken="skip", packed=packed)
    assert source.archive.ids == ("a/one.png", "three.webp")
    assert torch.equal(source.archive.labels, archive.labels[[0, 2]])
    assert list(source.broken) == ["a/two.jpg"]
    assert (source.batch([0, 1]).flatten(1).float().std(1) > 0).all(), "no black stand-in"
    assert (source.batch([1])[0].permute(1, 2, 0).numpy() == archive.read(2)).all()
    with pytest.raises(IndexError):
        source.batch([2])


def test_broken_images_are_refused_unless_they_are_to_be_skipped(archive: Archive) -> None:
    archive.paths[1].write_bytes(b"")
    for _ in range(2):
        with pytest.raises(DataError, match=r"1 broken image\(s\): .*two.jpg: .*--on-broken skip"):
            PackedImages(archive, 16)
    with pytest.raises(DataError, match=r"1 broken image\(s\)"):
        leave_out_broken(archive)
    with pytest.raises(BrokenImageError, match=r"two.jpg: the file is empty"):
        ImageFiles(archive, 16).batch([1])
    smaller, broken = leave_out_broken(archive, "skip")
    assert (len(smaller), list(broken)) == (2, ["a/two.jpg"])


def test_an_unknown_way_with_broken_images_is_refused(archive: Archive) -> None:
    for use in (PackedImages, ImageFiles):
        with pytest.raises(ConfigError, match="on_broken = 'ignore': unknown"):
            use(archive, 16, "ignore")
    with pytest.raises(ConfigError, match="on_broken = 'skp': unknown. Did you mean 'skip'"):
        leave_out_broken(archive, "skp")  # type: ignore[arg-type]


def test_an_archive_without_some_images_keeps_the_labels_of_the_others(archive: Archive) -> None:
    smaller = archive.without({"a/one.png"})
    assert smaller.ids == ("a/two.jpg", "three.webp")
    assert smaller.paths == archive.paths[1:]
    assert torch.equal(smaller.labels, archive.labels[1:])
    assert smaller.position_of == {"a/two.jpg": 0, "three.webp": 1}
    assert smaller.label_checksum != archive.label_checksum
    assert archive.without([]) is archive
    with pytest.raises(DataError, match="there is no image 'x' to leave out"):
        archive.without(["x"])


def test_an_image_of_another_depth_is_broken(archive: Archive) -> None:
    tifffile.imwrite(archive.paths[0].with_suffix(".tif"), fakes.pixels(0, dtype=np.uint16))
    (archive.root / "labels.csv").write_text("path,labels\na/two.jpg,road\na/one.tif,road\n")
    mixed = create_reader("manifest").read(archive.root)
    with pytest.raises(DataError, match=r"one.tif: its pixels are uint16, the archive's are uint8"):
        PackedImages(mixed, 16)


def test_an_archive_of_broken_images_only_is_refused_with_all_of_them(archive: Archive) -> None:
    for path in archive.paths:
        path.write_bytes(b"x")
    assert len(broken_images(archive)) == 3
    for use in (PackedImages, ImageFiles):
        with pytest.raises(DataError, match=r"3 broken image\(s\): .*one.png.*two.jpg.*three.webp"):
            use(archive, 16, "skip")
        with pytest.raises(DataError, match=r"3 broken"):
            use(archive, 16)


def write_masks(root: Path) -> Path:
    root.mkdir()
    fakes.write_dlrsd(root)
    return root


@pytest.mark.parametrize("damage", [b"", b"[", b"{}", b'[["car"]]', b'[["x"], [], [], []]', b"[1, 2, 3, 4]"])
def test_damaged_labels_of_masks_are_read_again(tmp_path: Path, own_cache: Path, damage: bytes) -> None:
    root = write_masks(tmp_path / "dlrsd")
    labels = DLRSD().read(root).labels
    (kept,) = (own_cache / "masks").glob("*.json")
    kept.write_bytes(damage)
    assert torch.equal(DLRSD().read(root).labels, labels)


def test_labels_of_masks_are_not_kept_in_the_image_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_masks(tmp_path / "dlrsd")
    monkeypatch.setenv("MARCIR_CACHE", str(root))
    with pytest.raises(DataError, match="the cache lies in the archive"):
        DLRSD().read(root)


@pytest.mark.parametrize("damage", ["header", "bomb", "other format"])
def test_a_damaged_mask_is_named(tmp_path: Path, damage: str) -> None:
    root = write_masks(tmp_path / "dlrsd")
    mask = next((root / "Labels").rglob("*.png"))
    content = bytearray(mask.read_bytes())
    if damage == "header":
        content[8:12] = b"\0\0\0\1"
    elif damage == "bomb":
        content[16:24] = bytes([0, 0, 0x9C, 0x40] * 2)
    else:
        Image.fromarray(fakes.pixels(0)).save(mask, "EPS")
        content = bytearray(mask.read_bytes())
    mask.write_bytes(content)
    with pytest.raises(BrokenImageError, match=rf"{mask.name}: ") as error:
        DLRSD().read(root)
    assert "\n" not in str(error.value)


def test_a_fingerprint_changes_with_every_change_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    seen = {fingerprint([path]), fingerprint([path], 1)}
    for content in ("x", "y"):
        path.write_text(content)
        os.utime(path, ns=(1, 1))
        seen.add(fingerprint([path]))
    assert len(seen) == 4
    assert fingerprint([path]) == fingerprint([str(path)])


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="folder: cannot be written"), atomic_write(tmp_path / "folder"):
        pass
    with pytest.raises(ConfigError, match=r"\.: cannot be written"), atomic_write(Path()):
        pass
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "file"):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# Three processes, copies of one that has imported what they need.
PACK = """
import os, sys
from pathlib import Path
from marcir.catalog import create_reader
from marcir.data.dataset import PackedImages
archive = create_reader("manifest").read(Path(sys.argv[1]))
copies = []
for _ in range(3):
    copies.append(os.fork())
    if copies[-1] == 0:
        os.write(1, b"%d\\n" % PackedImages(archive, 16).batch(range(len(archive))).sum().item())
        os._exit(0)
sys.exit(any(os.waitpid(process, 0)[1] for process in copies))
"""


def test_processes_that_start_at_once_see_the_same_whole_file(archive: Archive) -> None:
    command = [sys.executable, "-c", PACK, str(archive.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    total = PackedImages(archive, 16).batch([0, 1, 2]).sum().item()
    assert done.stdout == 3 * f"{total}\n"
    left = [path for path in Path(os.environ["MARCIR_CACHE"]).rglob(".*") if path.is_file()]
    assert not left, "no temporary file is left"


@pytest.mark.parametrize("kind", [PackedImages, ImageFiles])
def test_an_archive_is_a_torch_dataset(archive: Archive, kind: type[ArchiveDataset]) -> None:
    dataset = kind(archive, 16)  # type: ignore[call-arg]  # both take these
    samples = list(dataset)  # type: ignore[call-overload]  # torch leaves iteration to __getitem__
    assert [sample["id"] for sample in samples] == list(archive.ids)
    loader = torch.utils.data.DataLoader(dataset, batch_size=2)
    batches = list(loader)
    assert torch.equal(torch.cat([batch["image"] for batch in batches]), dataset.batch(range(len(archive))))
    assert torch.equal(torch.cat([batch["label"] for batch in batches]), archive.labels)
    assert [name for batch in batches for name in batch["id"]] == list(archive.ids)
