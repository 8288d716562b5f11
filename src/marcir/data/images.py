"""Read image files as arrays: any size, any number of bands, in the source's dtype."""

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from marcir.data.decode.limits import MAX_BYTES, wrap_decode_errors
from marcir.data.decode.pillow import decode_with_pillow, pillow_format
from marcir.data.object_storage import ImagePath, S3Path, image_path
from marcir.errors import BrokenImageError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"})
_HEADER = 64 * 1024  # bytes that are requested at a time to read the header of an object
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_DTYPES = (np.uint8, np.uint16, np.int16, np.float32)


@dataclass(frozen=True)
class PixelFormat:
    """The number of bands and the dtype that all images of an archive share."""

    bands: int
    dtype: np.dtype

    def fit(self, image: np.ndarray, path: str | ImagePath) -> np.ndarray:
        """Convert an image to this format: only a single band is repeated, all else is an error.

        >>> PixelFormat(3, np.dtype("u1")).fit(np.zeros((2, 2, 1), "u1"), "a.png").shape
        (2, 2, 3)
        """
        if image.dtype != self.dtype:
            raise BrokenImageError(f"{path}: its pixels are {image.dtype}, the archive's are {self.dtype}.")
        if image.shape[2] == self.bands:
            return image
        if image.shape[2] == 1:
            return np.repeat(image, self.bands, 2)
        raise BrokenImageError(f"{path}: the image has {image.shape[2]} bands, the archive has {self.bands}.")


def most_common_format(formats: Iterable[PixelFormat]) -> PixelFormat | None:
    """The most common dtype, and the most common number of bands of its images with several bands.

    >>> grey, colour = PixelFormat(1, np.dtype("u1")), PixelFormat(3, np.dtype("u1"))
    >>> most_common_format([grey, grey, colour]) == colour
    True
    """
    counts = Counter((each.dtype.str, each.bands) for each in formats)
    if not counts:
        return None
    dtypes: Counter[str] = Counter()
    for (dtype, _), count in counts.items():
        dtypes[dtype] += count
    commonest = max(dtypes, key=lambda dtype: (dtypes[dtype], dtype))
    # Grey images fit any number of bands, so they do not count.
    bands = max((bands > 1, counts[dtype, bands], bands) for dtype, bands in counts if dtype == commonest)[2]
    return PixelFormat(bands, np.dtype(commonest))


def read_image(path: str | ImagePath) -> np.ndarray:
    """Read an image with all its bands. (H, W, C), uint8, uint16, int16 or float32

    The content of a file determines its type, not its name. Grey images have one band, palettes become RGB,
    transparency is dropped; all other bands, 16 bits and floats are kept. Invalid pixels (NaN, infinite,
    GDAL's nodata of float images) become 0. An address `s3://bucket/key` is read from object storage.

    Raises:
        BrokenImageError: Names the file and what is wrong with it.
    """
    return decode_image(read_content(path), path)


def read_pixel_format(path: str | ImagePath) -> PixelFormat:
    """Read the pixel format of an image from its header; errors are those of `read_image`."""
    with wrap_decode_errors(path), _open(image_path(path)) as file:
        if _is_tiff(file):
            from marcir.data.decode.tiff import tiff_format

            bands, dtype = tiff_format(file)
        else:
            bands, dtype = pillow_format(file)
        return PixelFormat(bands, decoded_dtype(dtype))


def read_content(path: str | ImagePath) -> bytes:
    """Read the bytes of an image file; refuse an empty and a too large one.

    Raises:
        BrokenImageError: Names the file and what is wrong with it.
        DataError: Where it is on object storage, which cannot be reached or refuses this process.
    """
    with wrap_decode_errors(path):
        source = image_path(path)
        if isinstance(source, S3Path):
            return source.read_bytes(_check_bytes)
        _check_bytes(source.stat().st_size)
        return source.read_bytes()


def _check_bytes(size: int) -> None:
    if not size:
        raise BrokenImageError("the file is empty.")
    if size > MAX_BYTES:
        raise BrokenImageError(f"the file has more than {MAX_BYTES >> 20:,} MiB. Cut it into tiles.")


def _open(path: ImagePath) -> BinaryIO:
    if isinstance(path, S3Path):
        return io.BufferedReader(path.open(), _HEADER)
    return path.open("rb")


def decode_image(content: bytes, path: str | ImagePath) -> np.ndarray:
    """Decode an image as `read_image` does; the path is for errors. (H, W, C)"""
    with wrap_decode_errors(path):
        file = io.BytesIO(content)
        if _is_tiff(file):
            from marcir.data.decode.tiff import decode_tiff

            pixels = decode_tiff(file)
        else:
            pixels = decode_with_pillow(file)
        if pixels.ndim != 3 or not pixels.size:
            raise BrokenImageError(f"the image is empty, its shape is {pixels.shape}.")
        return convert_pixels(pixels)


def _is_tiff(file: BinaryIO) -> bool:
    file.seek(0)
    return file.read(4) in _TIFF_STARTS


def decoded_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype after decoding: uint8, uint16, int16, float32 unchanged, bits uint8, all else float32."""
    if dtype in _DTYPES:
        return dtype.newbyteorder("=")
    if dtype.kind not in "biuf":
        raise BrokenImageError(f"pixels of type {dtype} are not numbers.")
    return np.dtype(np.uint8 if dtype.kind == "b" else np.float32)


def convert_pixels(pixels: np.ndarray) -> np.ndarray:
    """Convert pixels to their decoded dtype: bits to 0 and 255, invalid values to 0."""
    dtype = decoded_dtype(pixels.dtype)
    converted: np.ndarray = pixels.astype(dtype, copy=False)
    if pixels.dtype.kind == "b":
        return converted * np.uint8(255)
    if dtype.kind != "f":
        return converted
    valid = np.isfinite(converted)
    if not valid.any():
        raise BrokenImageError("no valid pixel (all are NaN or infinite).")
    return converted if valid.all() else np.where(valid, converted, np.float32(0))
