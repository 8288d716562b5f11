"""TIFF to arrays with all bands, through tifffile."""

import logging
from typing import BinaryIO

import numpy as np

from marcir.data.decoding import check_size
from marcir.data.pictures import picture_form, read_picture
from marcir.errors import BrokenImageError, needs

with needs("train"):
    import tifffile
    from tifffile import EXTRASAMPLE, PHOTOMETRIC

_ALPHA = (EXTRASAMPLE.ASSOCALPHA, EXTRASAMPLE.UNASSALPHA)
_GREY = (PHOTOMETRIC.MINISWHITE, PHOTOMETRIC.MINISBLACK)
# Axes that may be bands: the file's own word for them, or none at all.
_BANDS = "CQI"
# Remarks on damaged tags go to whoever listens, not to the terminal.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def read_tiff(file: BinaryIO) -> np.ndarray:
    """All bands but transparency, whether stored by pixel, by plane or as pages. (H, W, C)

    Floats that the file marks as having no value become NaN.
    """
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        series, page = _only_image(tiff), tiff.pages.first
        if _needs_pillow(page):
            return read_picture(file, ("TIFF",))
        pixels = _bands_last(series.asarray(), page)
    if page.photometric == PHOTOMETRIC.MINISWHITE and pixels.dtype.kind in "bu":
        pixels = ~pixels  # 0 is white
    if pixels.dtype.kind == "f":
        pixels[pixels == pixels.dtype.type(_nodata(page))] = np.nan
    return pixels[:, :, _kept_bands(pixels.shape[2], page)]


def tiff_form(file: BinaryIO) -> tuple[int, np.dtype]:
    """Bands and pixel type, from the header."""
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        series, page = _only_image(tiff), tiff.pages.first
        if _needs_pillow(page):
            return picture_form(file, ("TIFF",))
        bands = series.size // (page.imagewidth * page.imagelength)
        return len(_kept_bands(bands, page)), np.dtype(series.dtype)


def _only_image(tiff: tifffile.TiffFile) -> tifffile.TiffPageSeries:
    """The file's image, if it has one alone; smaller copies and masks of it do not count."""
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
    """Pages are bands only where nothing else can be meant."""
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
    """Colours that must be computed: palettes, JPEG's, grey of 2 to 7 bits."""
    few_bits = page.photometric in _GREY and page.samplesperpixel == 1 and 1 < page.bitspersample < 8
    return few_bits or page.photometric in (PHOTOMETRIC.PALETTE, PHOTOMETRIC.YCBCR)


def _bands_last(pixels: np.ndarray, page: tifffile.TiffPage) -> np.ndarray:
    height, width = page.imagelength, page.imagewidth
    if page.axes == "YXS":
        return pixels.reshape(height, width, -1)
    return np.ascontiguousarray(np.moveaxis(pixels.reshape(-1, height, width), 0, 2))


def _kept_bands(bands: int, page: tifffile.TiffPage) -> list[int]:
    """The bands that are not marked as transparency."""
    extra = page.extrasamples
    first = bands - len(extra)
    return [k for k in range(bands) if k < first or extra[k - first] not in _ALPHA]


def _nodata(page: tifffile.TiffPage) -> float:
    """The value that stands for no value in files of GDAL."""
    try:
        return float(page.tags.valueof("GDAL_NODATA", "nan"))
    except (TypeError, ValueError):
        return float("nan")
