"""Decode TIFF with all bands, through tifffile."""

import logging
from typing import BinaryIO

import numpy as np

from marcir.data.decode.limits import check_size
from marcir.data.decode.pillow import decode_with_pillow, pillow_format
from marcir.errors import BrokenImageError, needs

with needs("train"):
    import tifffile
    from tifffile import EXTRASAMPLE, PHOTOMETRIC

_ALPHA = (EXTRASAMPLE.ASSOCALPHA, EXTRASAMPLE.UNASSALPHA)
_GREY = (PHOTOMETRIC.MINISWHITE, PHOTOMETRIC.MINISBLACK)
# tifffile's codes of axes that may be bands: channel, unknown, sequence.
_BANDS = "CQI"
# Without a handler, log messages about damaged tags would be printed to the terminal.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def decode_tiff(file: BinaryIO) -> np.ndarray:
    """Decode all bands but transparency, whether stored by pixel, by plane or as pages. (H, W, C)

    Nodata values of float images become NaN.
    """
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        series, page = _only_image(tiff), tiff.pages.first
        if _needs_pillow(page):
            return decode_with_pillow(file, ("TIFF",))
        pixels = _bands_last(series.asarray(), page)
    if page.photometric == PHOTOMETRIC.MINISWHITE and pixels.dtype.kind in "bu":
        pixels = ~pixels  # 0 is white
    if pixels.dtype.kind == "f":
        pixels[pixels == pixels.dtype.type(_nodata(page))] = np.nan
    return pixels[:, :, _opaque_bands(pixels.shape[2], page)]


def tiff_format(file: BinaryIO) -> tuple[int, np.dtype]:
    """Number of bands and pixel type, from the header."""
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        series, page = _only_image(tiff), tiff.pages.first
        if _needs_pillow(page):
            return pillow_format(file, ("TIFF",))
        bands = series.size // (page.imagewidth * page.imagelength)
        return len(_opaque_bands(bands, page)), np.dtype(series.dtype)


def _only_image(tiff: tifffile.TiffFile) -> tifffile.TiffPageSeries:
    """The only image of the file, apart from its overviews and masks."""
    series, page = tiff.series, tiff.pages.first
    first = series[0]
    check_size(page.imagewidth, page.imagelength, first.nbytes // max(1, page.imagewidth * page.imagelength))
    if page.is_tiled:
        check_size(page.tilewidth, page.tilelength, page.samplesperpixel * page.bitspersample // 8)
    others = [other for other in series[1:] if not (other.keyframe.is_reduced or other.keyframe.is_mask)]
    if others:
        raise BrokenImageError(
            f"the file holds {1 + len(others)} images of different sizes or types. Save one image per file."
        )
    if first.size != page.size:
        _check_pages(first, page)
    elif page.axes not in ("YX", "YXS", "SYX"):
        raise BrokenImageError(f"expected a flat image with bands, found the axes {page.axes}.")
    return first


def _check_pages(series: tifffile.TiffPageSeries, page: tifffile.TiffPage) -> None:
    """Refuse pages that are not clearly the bands of one image."""
    pages = series.size // page.size
    before = [axis for axis, length in zip(series.axes[:-2], series.shape[:-2], strict=True) if length > 1]
    joinable = page.axes == "YX" and series.axes.endswith("YX") and not _needs_pillow(page)
    if not joinable or len(before) != 1 or before[0] not in _BANDS:
        raise BrokenImageError(
            f"expected a flat image with bands, found {pages} pages with the axes {series.axes}. "
            "Save one image per file."
        )
    if before == ["Q"] and pages >= min(page.imagewidth, page.imagelength):
        raise BrokenImageError(
            f"{pages} bands of {page.imagewidth} x {page.imagelength} pixels, or {page.imagewidth} bands "
            "saved as columns? Save it again with planarconfig='contig' and photometric='minisblack'."
        )


def _needs_pillow(page: tifffile.TiffPage) -> bool:
    """Whether colours must be converted: palettes, YCbCr, grey of 2 to 7 bits."""
    few_bits = page.photometric in _GREY and page.samplesperpixel == 1 and 1 < page.bitspersample < 8
    return few_bits or page.photometric in (PHOTOMETRIC.PALETTE, PHOTOMETRIC.YCBCR)


def _bands_last(pixels: np.ndarray, page: tifffile.TiffPage) -> np.ndarray:
    height, width = page.imagelength, page.imagewidth
    if page.axes == "YXS":
        return pixels.reshape(height, width, -1)
    return np.ascontiguousarray(np.moveaxis(pixels.reshape(-1, height, width), 0, 2))


def _opaque_bands(bands: int, page: tifffile.TiffPage) -> list[int]:
    """Indices of the bands that are not marked as alpha."""
    extra = page.extrasamples
    first = bands - len(extra)
    return [k for k in range(bands) if k < first or extra[k - first] not in _ALPHA]


def _nodata(page: tifffile.TiffPage) -> float:
    """GDAL's nodata value; NaN if there is none."""
    try:
        return float(page.tags.valueof("GDAL_NODATA", "nan"))
    except (TypeError, ValueError):
        return float("nan")
