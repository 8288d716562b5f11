"""Image files: all bands, all depths, and every kind of damage."""

import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from data.fakes import indexed_mask, pixels
from marcir.data.decode import limits
from marcir.data.images import PixelFormat, most_common_format, read_image, read_pixel_format
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
    assert read.dtype == np.uint16
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
        BrokenImageError, match=rf"{name}: (40000 x 40000 pixels are )?more than the limit .* into tiles"
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
    assert (PixelFormat(3, np.dtype("u1")).fit(np.ones((2, 2, 1), np.uint8), "a") == 1).all()
    with pytest.raises(BrokenImageError, match=r"a.tif: the image has 4 bands, the archive has 3"):
        PixelFormat(3, np.dtype("u1")).fit(np.ones((2, 2, 4), np.uint8), "a.tif")
    with pytest.raises(BrokenImageError, match=r"a.tif: its pixels are uint16, the archive's are uint8"):
        PixelFormat(3, np.dtype("u1")).fit(np.ones((2, 2, 3), np.uint16), "a.tif")


def form(bands: int, dtype: str = "u1") -> PixelFormat:
    return PixelFormat(bands, np.dtype(dtype))


@pytest.mark.parametrize(
    ("forms", "common"),
    [
        ([form(1)], form(1)),
        ([form(1), form(1), form(3)], form(3)),
        ([form(4), form(3), form(3)], form(3)),
        ([form(1, "u2"), form(3), form(3)], form(3)),
        ([form(3), form(5, "f4"), form(5, "f4")], form(5, "f4")),
    ],
)
def test_most_images_decide_the_form_and_grey_ones_fit_into_any(
    forms: list[PixelFormat], common: PixelFormat
) -> None:
    assert most_common_format(forms) == common
    assert most_common_format(reversed(forms)) == common


@pytest.mark.parametrize("compression", ["zlib", "lzw", "zstd", "packbits", "lzma"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_compressed_tiff_is_named_in_one_line(
    compression: str, share: float, tmp_path: Path
) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels(0, 64), compression=compression, rowsperstrip=8)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BrokenImageError, match=r"a.tif: ") as error:
        read_image(path)
    assert "\n" not in str(error.value)


def test_noise_anywhere_in_a_tiff_is_an_image_or_one_named_error(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", pixels(0, 8), compression="zlib")
    content = (tmp_path / "a.tif").read_bytes()
    random = np.random.default_rng(0)
    path = tmp_path / "b.tif"
    for _ in range(150):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[random.integers(4, len(damaged), 3)] = random.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        with suppress(BrokenImageError):
            assert read_image(path).ndim == 3


def test_damaged_tags_are_not_told_on_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels(0, 8))
    with tifffile.TiffFile(path) as tiff:
        offset = tiff.pages.first.tags["Software"].offset
    content = bytearray(path.read_bytes())
    content[offset + 2 : offset + 4] = b"\xff\xff"
    path.write_bytes(content)
    assert read_image(path).shape == (8, 8, 3)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("options", [{}, {"metadata": None}, {"imagej": True}, {"compression": "zlib"}])
def test_bands_that_are_stored_as_pages_are_joined(options: dict[str, object], tmp_path: Path) -> None:
    image = pixels(0, 16, 5, np.float32)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.moveaxis(image, 2, 0), **options)
    assert (read_image(path) == image).all()
    assert read_pixel_format(path) == PixelFormat(5, np.dtype("f4"))


def test_an_array_with_bands_last_that_was_saved_as_pages_is_refused(tmp_path: Path) -> None:
    for shape in ((20, 30, 13), (20, 20, 60)):
        tifffile.imwrite(tmp_path / "a.tif", np.zeros(shape, np.float32), photometric="minisblack")
        for read in (read_image, read_pixel_format):
            with pytest.raises(BrokenImageError, match=rf"a.tif: 20 bands of {shape[2]} x .*contig"):
                read(tmp_path / "a.tif")


def test_a_file_of_several_images_is_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "frames.tif", np.zeros((2, 20, 30, 3), np.uint8))
    with tifffile.TiffWriter(tmp_path / "sizes.tif") as tiff:
        tiff.write(np.zeros((20, 20), np.uint8), metadata=None)
        tiff.write(np.zeros((13, 7), np.uint8), metadata=None)
    for name in ("frames", "sizes"):
        with pytest.raises(BrokenImageError, match=rf"{name}.tif: .*Save one image per file"):
            read_image(tmp_path / f"{name}.tif")


def test_smaller_copies_in_a_tiff_are_left_alone(tmp_path: Path) -> None:
    image = pixels(0)
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(image, metadata=None)
        tiff.write(image[::2, ::2], subfiletype=1, metadata=None)
    assert (read_image(tmp_path / "a.tif") == image).all()


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize(("extra", "kept"), [("unspecified", 4), ("assocalpha", 3), ("unassalpha", 3)])
def test_a_fourth_band_is_dropped_only_where_it_is_transparency(
    planar: str, extra: str, kept: int, tmp_path: Path
) -> None:
    image = pixels(0, bands=4, dtype=np.uint16)
    stored = image if planar == "contig" else np.moveaxis(image, 2, 0)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, stored, photometric="rgb", planarconfig=planar, extrasamples=[extra])
    assert (read_image(path) == image[:, :, :kept]).all()
    assert read_pixel_format(path).bands == kept


@pytest.mark.parametrize(("stored", "bands"), [(1, 1), (2, 1), (3, 3), (4, 3)])
def test_a_png_of_16_bits_keeps_depth_and_bands_and_drops_transparency(
    stored: int, bands: int, tmp_path: Path
) -> None:
    image = pixels(0, bands=stored, dtype=np.uint16)
    path = tmp_path / "a.png"
    path.write_bytes(imagecodecs.png_encode(image.squeeze()))
    read = read_image(path)
    assert read.dtype == np.uint16
    assert (read == image[:, :, :bands]).all()
    assert read_pixel_format(path) == PixelFormat(bands, np.dtype(np.uint16))


def test_white_as_zero_and_few_bits_are_read_as_they_look(tmp_path: Path) -> None:
    grey = pixels(0, bands=1)[:, :, 0]
    tifffile.imwrite(tmp_path / "a.tif", 255 - grey, photometric="miniswhite")
    assert (read_image(tmp_path / "a.tif")[:, :, 0] == grey).all()
    tifffile.imwrite(tmp_path / "b.tif", grey < 99, photometric="miniswhite")
    assert (read_image(tmp_path / "b.tif")[:, :, 0] == np.where(grey < 99, 0, 255)).all()
    Image.fromarray(grey).quantize(4).save(tmp_path / "c.tif")
    expected = np.asarray(Image.fromarray(grey).quantize(4).convert("RGB"))
    assert (read_image(tmp_path / "c.tif") == expected).all()


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg", "webp"])
def test_the_header_tells_the_form_of_the_pixels(mode: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    try:
        Image.fromarray(pixels(1)).convert("L").convert(mode).save(path)
    except (OSError, ValueError, KeyError):
        return  # not a combination that exists
    read = read_image(path)
    assert read_pixel_format(path) == PixelFormat(read.shape[2], read.dtype)


def test_the_content_decides_what_a_file_is(tmp_path: Path) -> None:
    image = pixels(0)
    Image.fromarray(image).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "b.tif", image)
    (tmp_path / "a.png").replace(tmp_path / "a.tif")
    (tmp_path / "b.tif").replace(tmp_path / "b.jpg")
    assert (read_image(tmp_path / "a.tif") == image).all()
    assert (read_image(tmp_path / "b.jpg") == image).all()


@pytest.mark.parametrize("kind", ["EPS", "GIF", "BMP", "PPM"])
def test_no_other_decoder_looks_at_a_file(kind: str, tmp_path: Path) -> None:
    Image.fromarray(pixels(0)).save(tmp_path / "a.png", kind)
    with pytest.raises(BrokenImageError, match=r"a.png: not a readable JPEG, PNG, WebP or TIFF file"):
        read_image(tmp_path / "a.png")


def test_pixels_without_a_value_become_zero(tmp_path: Path) -> None:
    image = pixels(0, bands=2, dtype=np.float32)
    expected = image.copy()
    expected[:4] = 0
    for name, nothing in (("nan", np.nan), ("inf", np.inf), ("nodata", -3.4e38)):
        image[:4] = nothing
        path = tmp_path / f"{name}.tif"
        tag = [(42113, "s", 0, "-3.4e38", True)] if name == "nodata" else []
        tifffile.imwrite(path, image, photometric="minisblack", planarconfig="contig", extratags=tag)
        assert (read_image(path) == expected).all(), name
    tifffile.imwrite(tmp_path / "none.tif", np.full((4, 4), np.nan, np.float32))
    with pytest.raises(BrokenImageError, match=r"none.tif: no valid pixel"):
        read_image(tmp_path / "none.tif")


def test_bands_and_bytes_count_towards_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, image = tmp_path / "a.tif", np.zeros((20, 20, 60), np.float32)
    tifffile.imwrite(path, image, photometric="minisblack", planarconfig="contig", compression="zlib")
    assert read_image(path).shape == (20, 20, 60)
    monkeypatch.setattr(limits, "MAX_BYTES", 20 * 20 * 60 * 4 - 1)
    with pytest.raises(BrokenImageError, match=r"a.tif: 20 x 20 pixels of 240 bytes .* Cut it into tiles"):
        read_image(path)


def test_threads_leave_the_warning_filters_as_they_were(tmp_path: Path) -> None:
    for k in range(8):
        Image.fromarray(pixels(k, 64)).save(tmp_path / f"{k}.png")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(read_image, [tmp_path / f"{k % 8}.png" for k in range(200)]))
        assert warnings.filters == before


@pytest.mark.parametrize(
    "options",
    [
        {"quality": 30},
        {"quality": 95, "subsampling": 0},
        {"quality": 80, "progressive": True},
        {"quality": 80, "keep_rgb": True},
        {"quality": 80, "optimize": True, "subsampling": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(37, 53), (1, 1), (8, 200)])
def test_a_jpeg_is_read_with_the_pixels_of_pillow(
    options: dict[str, Any], shape: tuple[int, int], tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.jpg", **options)
    with Image.open(tmp_path / "a.jpg") as image:
        expected = np.asarray(image.convert("RGB"))
    assert (read_image(tmp_path / "a.jpg") == expected).all()


def test_a_jpeg_with_bytes_behind_its_end_is_read_and_one_cut_off_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.jpg"
    Image.fromarray(np.full((16, 16, 3), 100, np.uint8)).save(file)
    content = file.read_bytes()
    whole = read_image(file)
    file.write_bytes(content + b"\0\0made by a camera")
    assert (read_image(file) == whole).all()
    for end in (len(content) - 1, len(content) - 2, len(content) // 2):
        file.write_bytes(content[:end])
        with pytest.raises(BrokenImageError, match="a.jpg"):
            read_image(file)
