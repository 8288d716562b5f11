"""Image files to arrays: any size, any number of bands, the source's own dtype."""

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from marcir.errors import BrokenImageError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"})
# About 9,460 x 9,460: a tile, not a mosaic, and no decompression bomb.
MAX_PIXELS = 89_478_485
# What decoders raise on damaged files.
_DAMAGE = (OSError, SyntaxError, ValueError, KeyError, IndexError, TypeError, EOFError, MemoryError)
_DAMAGE_OF_BYTES = (struct.error, zlib.error, OverflowError, ZeroDivisionError, Image.DecompressionBombError)


def read_image(path: str | Path) -> np.ndarray:
    """Read an image with all its bands. (H, W, C), uint8, uint16, int16 or float32

    JPEG, PNG and WebP through Pillow: grey images have one band, palettes become RGB, transparency is
    dropped. TIFF through tifffile, so that many bands, 16 bits and floats survive.

    Raises:
        BrokenImageError: Names the file and what is wrong with it.
    """
    path = Path(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata does not damage pixels
            array = _read_tiff(path) if path.suffix.lower() in (".tif", ".tiff") else _read_picture(path)
    except BrokenImageError:
        raise
    except FileNotFoundError:
        raise BrokenImageError(f"{path}: there is no such file.") from None
    except (*_DAMAGE, *_DAMAGE_OF_BYTES) as error:
        raise BrokenImageError(f"{path}: cannot be read as an image ({_first_line(error)}).") from error
    if not array.size:
        raise BrokenImageError(f"{path}: the image is empty, {array.shape[1]} x {array.shape[0]} pixels.")
    return _plain_dtype(array, path)


def fit_bands(array: np.ndarray, bands: int, path: str | Path) -> np.ndarray:
    """The image with the archive's number of bands: a single band is repeated, nothing else is guessed.

    >>> fit_bands(np.zeros((2, 2, 1)), 3, "a.png").shape
    (2, 2, 3)
    """
    if array.shape[2] == bands:
        return array
    if array.shape[2] == 1:
        return np.repeat(array, bands, 2)
    raise BrokenImageError(f"{path}: the image has {array.shape[2]} bands, the archive has {bands}.")


def _read_picture(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        _check_pixels(path, image.width, image.height)
        image.load()
        if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
            return np.asarray(image)[:, :, None]
        grey = image.mode in ("1", "L", "LA", "La")
        return np.asarray(image.convert("L"))[:, :, None] if grey else np.asarray(image.convert("RGB"))


def _read_tiff(path: Path) -> np.ndarray:
    import tifffile

    if not path.stat().st_size:
        raise BrokenImageError(f"{path}: the file is empty.")
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        _check_pixels(path, page.imagewidth, page.imagelength)
        if page.photometric in (tifffile.PHOTOMETRIC.PALETTE, tifffile.PHOTOMETRIC.YCBCR):
            return _read_picture(path)
        array, axes = page.asarray(), page.axes
    if axes == "YX":
        return array[:, :, None]
    if axes == "SYX":
        return np.ascontiguousarray(np.moveaxis(array, 0, 2))
    if axes != "YXS":
        raise BrokenImageError(f"{path}: expected a flat image with bands, found the axes {axes}.")
    is_rgb = page.photometric == tifffile.PHOTOMETRIC.RGB
    return array[:, :, :3] if is_rgb and array.shape[2] == 4 else array


def _check_pixels(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BrokenImageError(
            f"{path}: {width} x {height} pixels are more than the limit of {MAX_PIXELS:,}. Cut it into tiles."
        )


def _plain_dtype(array: np.ndarray, path: Path) -> np.ndarray:
    """uint8, uint16, int16 and float32 as they are; wider numbers as float32, bits as 0 and 255."""
    if array.dtype in (np.uint8, np.uint16, np.int16, np.float32):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if array.dtype.kind in "iuf":
        return array.astype(np.float32)
    raise BrokenImageError(f"{path}: pixels of type {array.dtype} are not numbers.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
