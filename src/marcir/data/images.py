"""Image files to arrays: any size, any number of bands, the source's own dtype."""

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from marcir.data.decoding import MAX_BYTES, named
from marcir.data.pictures import picture_form, read_picture
from marcir.errors import BrokenImageError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"})
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_KEPT_DTYPES = (np.uint8, np.uint16, np.int16, np.float32)


@dataclass(frozen=True)
class Form:
    """What all images of an archive have in common.

    Attributes:
        bands: Number of bands.
        dtype: Type of the pixels.
    """

    bands: int
    dtype: np.dtype

    def fit(self, image: np.ndarray, path: str | Path) -> np.ndarray:
        """The image in this form: a single band is repeated, nothing else is guessed.

        >>> Form(3, np.dtype("u1")).fit(np.zeros((2, 2, 1), "u1"), "a.png").shape
        (2, 2, 3)
        """
        if image.dtype != self.dtype:
            raise BrokenImageError(f"{path}: its pixels are {image.dtype}, the archive's are {self.dtype}.")
        if image.shape[2] == self.bands:
            return image
        if image.shape[2] == 1:
            return np.repeat(image, self.bands, 2)
        raise BrokenImageError(f"{path}: the image has {image.shape[2]} bands, the archive has {self.bands}.")


def common_form(forms: Iterable[Form]) -> Form | None:
    """The form into which most images fit: the commonest dtype, and of its colour images the commonest bands.

    >>> grey, colour = Form(1, np.dtype("u1")), Form(3, np.dtype("u1"))
    >>> common_form([grey, grey, colour]) == colour
    True
    """
    counts = Counter((form.dtype.str, form.bands) for form in forms)
    if not counts:
        return None
    dtypes: Counter[str] = Counter()
    for (dtype, _), count in counts.items():
        dtypes[dtype] += count
    commonest = max(dtypes, key=lambda dtype: (dtypes[dtype], dtype))
    # One band fits into any number of them, so grey images have no say.
    bands = max((bands > 1, counts[dtype, bands], bands) for dtype, bands in counts if dtype == commonest)[2]
    return Form(bands, np.dtype(commonest))


def read_image(path: str | Path) -> np.ndarray:
    """Read an image with all its bands. (H, W, C), uint8, uint16, int16 or float32

    The content decides what a file is, not its name. Grey images have one band, palettes become RGB,
    transparency is dropped; all other bands, 16 bits and floats survive. Pixels without a value (NaN,
    infinite, GDAL's nodata among floats) become 0.

    Raises:
        BrokenImageError: Names the file and what is wrong with it.
    """
    return decode_image(read_content(path), path)


def read_form(path: str | Path) -> Form:
    """The form that an image will have, from its header.

    Raises:
        BrokenImageError: Names the file and what is wrong with it.
    """
    with named(path), Path(path).open("rb") as file:
        if _is_tiff(file):
            from marcir.data.tiffs import tiff_form

            bands, dtype = tiff_form(file)
        else:
            bands, dtype = picture_form(file)
        return Form(bands, _plain_dtype(dtype))


def read_content(path: str | Path) -> bytes:
    """The bytes of an image file, if there are any and not too many."""
    with named(path):
        size = Path(path).stat().st_size
        if not size:
            raise BrokenImageError("the file is empty.")
        if size > MAX_BYTES:
            raise BrokenImageError(f"the file has more than {MAX_BYTES >> 20:,} MiB. Cut it into tiles.")
        return Path(path).read_bytes()


def decode_image(content: bytes, path: str | Path) -> np.ndarray:
    """The image in these bytes, as `read_image` returns it; the path is for errors. (H, W, C)"""
    with named(path):
        file = io.BytesIO(content)
        if _is_tiff(file):
            from marcir.data.tiffs import read_tiff

            pixels = read_tiff(file)
        else:
            pixels = read_picture(file)
        if pixels.ndim != 3 or not pixels.size:
            raise BrokenImageError(f"the image is empty, its shape is {pixels.shape}.")
        return _plain(pixels)


def _is_tiff(file: BinaryIO) -> bool:
    file.seek(0)
    return file.read(4) in _TIFF_STARTS


def _plain_dtype(dtype: np.dtype) -> np.dtype:
    """uint8, uint16, int16 and float32 as they are, other numbers as float32, bits as uint8."""
    if dtype in _KEPT_DTYPES:
        return dtype.newbyteorder("=")
    if dtype.kind not in "biuf":
        raise BrokenImageError(f"pixels of type {dtype} are not numbers.")
    return np.dtype(np.uint8 if dtype.kind == "b" else np.float32)


def _plain(pixels: np.ndarray) -> np.ndarray:
    """Pixels in a plain dtype: bits as 0 and 255, no value as 0."""
    dtype = _plain_dtype(pixels.dtype)
    plain: np.ndarray = pixels.astype(dtype, copy=False)
    if pixels.dtype.kind == "b":
        return plain * np.uint8(255)
    if dtype.kind != "f":
        return plain
    valid = np.isfinite(plain)
    if not valid.any():
        raise BrokenImageError("no pixel has a value (all are NaN or infinite).")
    return plain if valid.all() else np.where(valid, plain, np.float32(0))
