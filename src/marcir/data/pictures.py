"""JPEG, PNG and WebP to arrays, through Pillow; colour JPEG and PNG of 16 bits through imagecodecs."""

from os import SEEK_END
from typing import BinaryIO

import numpy as np

from marcir.data.decoding import MAX_PIXELS, check_size
from marcir.errors import BrokenImageError, needs

with needs("train"):
    from PIL import Image, UnidentifiedImageError

# The only decoders that may look at a file: others would start programs (EPS) or guess.
FORMATS = ("JPEG", "PNG", "WEBP")
# Pixel types of Pillow's one-band modes; all other modes become RGB.
_ONE_BAND = {
    **dict.fromkeys(("1", "L", "LA", "La"), np.uint8),
    **dict.fromkeys(("I;16", "I;16B", "I;16L"), np.uint16),
    "I": np.int32,
    "F": np.float32,
}
# Bands without transparency by the colour type of a PNG.
_PNG_BANDS = {0: 1, 2: 3, 4: 1, 6: 3}
_JPEG_END = b"\xff\xd9"
_PNG_START = b"\x89PNG\r\n\x1a\n"


def read_picture(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> np.ndarray:
    """All bands but transparency: one of grey images, three of all others. (H, W, C)"""
    if bands := _bands_of_deep_png(file):
        return _read_deep_png(file, bands)
    image = _open(file, formats)
    check_size(image.width, image.height, 4)
    if image.format == "JPEG" and image.mode == "RGB" and _is_complete_jpeg(file):
        return _read_jpeg(file)
    image.load()
    if _ONE_BAND.get(image.mode) is np.uint8:
        return np.asarray(image.convert("L"))[:, :, None]
    return np.asarray(image)[:, :, None] if image.mode in _ONE_BAND else np.asarray(image.convert("RGB"))


def picture_form(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> tuple[int, np.dtype]:
    """Bands and pixel type, from the header."""
    if bands := _bands_of_deep_png(file):
        return bands, np.dtype(np.uint16)
    with _open(file, formats) as image:
        dtype = _ONE_BAND.get(image.mode)
    return (3, np.dtype(np.uint8)) if dtype is None else (1, np.dtype(dtype))


def load_picture(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """A picture with its pixels, in Pillow's form."""
    image = _open(file, formats)
    check_size(image.width, image.height, 4)
    image.load()
    return image


def _open(file: BinaryIO, formats: tuple[str, ...]) -> Image.Image:
    file.seek(0)
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        known = "JPEG, PNG, WebP or TIFF" if formats is FORMATS else " or ".join(formats)
        raise BrokenImageError(f"it is no {known} file that can be read, or its start is damaged.") from None
    except Image.DecompressionBombError:
        raise BrokenImageError(f"more than the limit of {MAX_PIXELS:,} pixels. Cut it into tiles.") from None


def _bands_of_deep_png(file: BinaryIO) -> int | None:
    """Bands of a PNG of 16 bits, which Pillow would cut to 8 where there are several."""
    file.seek(0)
    header = file.read(26)
    deep = header[:8] == _PNG_START and len(header) == 26 and header[24] == 16
    return _PNG_BANDS.get(header[25]) if deep else None


def _is_complete_jpeg(file: BinaryIO) -> bool:
    """Whether the file ends as a JPEG does; one that does not may be cut off, which only Pillow notices."""
    file.seek(-2, SEEK_END)
    return file.read() == _JPEG_END


def _read_jpeg(file: BinaryIO) -> np.ndarray:
    """The same pixels as Pillow's in two thirds of the time. (H, W, 3)"""
    with needs("train"):
        import imagecodecs

    file.seek(0)
    pixels: np.ndarray = imagecodecs.jpeg8_decode(file.read())
    return pixels


def _read_deep_png(file: BinaryIO, bands: int) -> np.ndarray:
    with needs("train"):
        import imagecodecs

    file.seek(0)
    content = file.read()
    check_size(int.from_bytes(content[16:20]), int.from_bytes(content[20:24]), 8)
    pixels: np.ndarray = imagecodecs.png_decode(content)
    return pixels.reshape(*pixels.shape[:2], -1)[:, :, :bands]
