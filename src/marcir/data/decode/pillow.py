"""Decode JPEG, PNG and WebP with Pillow; colour JPEG and 16-bit PNG with imagecodecs."""

from os import SEEK_END
from typing import BinaryIO

import numpy as np

from marcir.data.decode.limits import MAX_PIXELS, check_size
from marcir.errors import BrokenImageError, needs

with needs("train"):
    from PIL import Image, UnidentifiedImageError

# The only decoders that Pillow may try: others start programs (EPS) or guess.
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


def decode_with_pillow(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> np.ndarray:
    """Decode all bands but transparency: one for grey images, three for all others. (H, W, C)"""
    if bands := _bands_of_16_bit_png(file):
        return _decode_16_bit_png(file, bands)
    image = _open(file, formats)
    check_size(image.width, image.height, 4)
    if image.format == "JPEG" and image.mode == "RGB" and _is_complete_jpeg(file):
        with needs("train"):
            import imagecodecs

        file.seek(0)
        pixels: np.ndarray = imagecodecs.jpeg8_decode(file.read())  # as Pillow, in two thirds of the time
        return pixels
    image.load()
    if _ONE_BAND.get(image.mode) is np.uint8:
        return np.asarray(image.convert("L"))[:, :, None]
    return np.asarray(image)[:, :, None] if image.mode in _ONE_BAND else np.asarray(image.convert("RGB"))


def pillow_format(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> tuple[int, np.dtype]:
    """Number of bands and pixel type, from the header."""
    if bands := _bands_of_16_bit_png(file):
        return bands, np.dtype(np.uint16)
    with _open(file, formats) as image:
        dtype = _ONE_BAND.get(image.mode)
    return (3, np.dtype(np.uint8)) if dtype is None else (1, np.dtype(dtype))


def load_with_pillow(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Decode an image as a Pillow image."""
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
        raise BrokenImageError(f"not a readable {known} file, or its header is damaged.") from None
    except Image.DecompressionBombError:
        raise BrokenImageError(f"more than the limit of {MAX_PIXELS:,} pixels. Cut it into tiles.") from None


def _bands_of_16_bit_png(file: BinaryIO) -> int | None:
    """Bands of a 16-bit PNG, which Pillow would reduce to 8 bits if it has several bands."""
    file.seek(0)
    header = file.read(26)
    is_16_bit = header[:8] == _PNG_START and len(header) == 26 and header[24] == 16
    return _PNG_BANDS.get(header[25]) if is_16_bit else None


def _is_complete_jpeg(file: BinaryIO) -> bool:
    """Whether the file has the end marker of a JPEG; only Pillow reports a truncated one."""
    file.seek(-2, SEEK_END)
    return file.read() == _JPEG_END


def _decode_16_bit_png(file: BinaryIO, bands: int) -> np.ndarray:
    with needs("train"):
        import imagecodecs

    file.seek(0)
    content = file.read()
    check_size(int.from_bytes(content[16:20]), int.from_bytes(content[20:24]), 8)
    pixels: np.ndarray = imagecodecs.png_decode(content)
    return pixels.reshape(*pixels.shape[:2], -1)[:, :, :bands]
