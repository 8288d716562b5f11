"""Image files: all bands, all depths, and every kind of damage."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from data.fakes import indexed_mask, pixels
from marcir.data.images import fit_bands, read_image
from marcir.errors import BrokenImageError


@pytest.mark.parametrize("suffix", ["png", "webp", "tif", "jpg"])
def test_an_rgb_image_is_read_as_it_was_saved(suffix: str, tmp_path: Path) -> None:
    image = np.kron(pixels(0, 4), np.ones((8, 8, 1), np.uint8))
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(image).save(path, **({"quality": 100} if suffix == "jpg" else {"lossless": True}))
    read = read_image(path)
    assert read.shape == (32, 32, 3)
    assert read.dtype == np.uint8
    tolerance = 20 if suffix == "jpg" else 0
    assert np.abs(read.astype(int) - image.astype(int)).mean() <= tolerance


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "RGBA", "CMYK", "I;16", "I"])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_every_mode_becomes_plain_bands(mode: str, suffix: str, tmp_path: Path) -> None:
    if (mode, suffix) in (("CMYK", "png"), ("I", "png"), ("LA", "tif")):
        return  # not a combination that exists
    grey = Image.fromarray(pixels(1)[:, :, 0])
    image = indexed_mask([1, 2, 3]) if mode == "P" else grey.convert(mode)
    path = tmp_path / f"a.{suffix}"
    image.save(path)
    read = read_image(path)
    assert read.shape == (
        16,
        16,
        1 if mode in ("L", "1", "LA", "I;16", "I") else (4 if mode == "CMYK" else 3),
    )
    if mode == "P":
        assert (read == np.asarray(image.convert("RGB"))).all()


def test_a_16_bit_png_keeps_its_depth(tmp_path: Path) -> None:
    image = pixels(0, bands=1, dtype=np.uint16)[:, :, 0]
    Image.fromarray(image).save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png")
    assert read.dtype in (np.uint16, np.float32)
    assert (read[:, :, 0] == image).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.float32])
@pytest.mark.parametrize("bands", [2, 5, 12])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
def test_a_tiff_is_read_with_all_its_bands(
    dtype: type, bands: int, planar: str, compression: str | None, tmp_path: Path
) -> None:
    image = pixels(0, bands=bands, dtype=dtype)
    stored = image if planar == "contig" else np.moveaxis(image, 2, 0)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, stored, planarconfig=planar, photometric="minisblack", compression=compression)
    read = read_image(path)
    assert read.dtype == dtype
    assert (read == image).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.float32])
def test_a_grey_tiff_has_one_band(dtype: type, tmp_path: Path) -> None:
    image = pixels(0, bands=1, dtype=dtype)
    tifffile.imwrite(tmp_path / "a.tif", image[:, :, 0])
    assert (read_image(tmp_path / "a.tif") == image).all()


def test_a_big_endian_tiff_is_read_in_the_machines_own_order(tmp_path: Path) -> None:
    image = pixels(0, bands=3, dtype=np.uint16)
    tifffile.imwrite(
        tmp_path / "a.tif", image, byteorder=">", photometric="minisblack", planarconfig="contig"
    )
    read = read_image(tmp_path / "a.tif")
    assert read.dtype.isnative
    assert (read == image).all()


def bomb_png(path: Path) -> None:
    """A valid header of 40,000 x 40,000 pixels with hardly anything behind it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 999))
    )


def bomb_tiff(path: Path) -> None:
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(np.zeros((16, 16), np.uint8), compression="zlib")
    content = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tiff:
        offsets = [tiff.pages.first.tags[name].valueoffset for name in ("ImageWidth", "ImageLength")]
        wide = [tiff.pages.first.tags[name].dtype for name in ("ImageWidth", "ImageLength")]
    for offset, kind in zip(offsets, wide, strict=True):
        content[offset : offset + (2 if int(kind) == 3 else 4)] = struct.pack(
            "<H" if int(kind) == 3 else "<I", 40_000
        )
    path.write_bytes(content)


@pytest.mark.parametrize(("name", "write"), [("a.png", bomb_png), ("a.tif", bomb_tiff)])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(name: str, write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path / name)
    with pytest.raises(
        BrokenImageError, match=rf"{name}: 40000 x 40000 pixels|{name}: cannot be read.*exceeds limit"
    ):
        read_image(tmp_path / name)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "noise", "header only"])
def test_a_damaged_file_is_named_in_one_line(suffix: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(pixels(0, 64)).save(path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "truncated": content[: len(content) // 2],
            "text": b"this is not an image",
            "noise": np.random.default_rng(0).bytes(5000),
            "header only": content[:12],
        }[damage]
    )
    with pytest.raises(BrokenImageError) as error:
        read_image(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenImageError, match=r"none.png: there is no such file"):
        read_image(tmp_path / "none.png")


def test_a_wrong_number_of_bands_is_refused_and_one_band_repeated() -> None:
    assert (fit_bands(np.ones((2, 2, 1)), 3, "a") == 1).all()
    with pytest.raises(BrokenImageError, match=r"a.tif: the image has 4 bands, the archive has 3"):
        fit_bands(np.ones((2, 2, 4)), 3, "a.tif")
