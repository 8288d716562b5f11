"""Open GeoTIFFs: this format alone, the one file alone, and no network unless the address is http(s)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marcir.errors import BrokenImageError, DataError, needs
from marcir.files import reason
from marcir.geo.hrefs import answers_ranges
from marcir.geo.scene import is_remote

with needs("geo"):
    import rasterio
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError
    from rasterio.io import DatasetReader

# Files beside a GeoTIFF (.aux.xml, .ovr, .msk, world files) are ignored: a scene is what its own bytes say,
# and its fingerprint covers them. On a server, looking for them would also be a request each.
_ENVIRONMENT = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_HTTP_CONNECTTIMEOUT": "10",
    "GDAL_HTTP_TIMEOUT": "60",
    "GDAL_HTTP_MAX_RETRY": "2",
}
# Errors of rasterio and of GDAL below it.
_ERRORS = (RasterioError, CPLE_BaseError, OSError, ValueError)


def environment(cache_bytes: int | None = None) -> rasterio.Env:
    """GDAL's settings for reading scenes; inside of it, GDAL logs instead of printing warnings.

    Args:
        cache_bytes: Size of the cache of blocks, which is shared by the process; GDAL's default if None.
    """
    return rasterio.Env(**_ENVIRONMENT, **({} if cache_bytes is None else {"GDAL_CACHEMAX": cache_bytes}))


def open_dataset(href: str) -> DatasetReader:
    """Open a GeoTIFF: an absolute path or an http(s) address. The caller closes it.

    Args:
        href: The path or address. Other addresses of GDAL (`/vsizip/`, `vrt://`) are not understood.

    Raises:
        BrokenImageError: If it cannot be opened as a GeoTIFF.
    """
    if not is_remote(href) and not Path(href).is_file():
        raise BrokenImageError(f"{href}: there is no such file.")
    target = f"/vsicurl/{href}" if is_remote(href) else str(Path(href).absolute())
    with broken_as(href), environment():
        try:
            return rasterio.open(target, driver="GTiff", sharing=False, GEOREF_SOURCES="INTERNAL")
        except RasterioError:
            if is_remote(href) and not answers_ranges(href):  # GDAL says that it is no GeoTIFF
                raise BrokenImageError(
                    f"{href}: its server must answer ranges of bytes, and does not. Download the file, or "
                    "serve it with another program."
                ) from None
            raise


@contextmanager
def broken_as(href: str) -> Iterator[None]:
    """Turn errors of GDAL into a BrokenImageError of one line that names the file."""
    try:
        yield
    except DataError:
        raise
    except _ERRORS as error:
        raise BrokenImageError(f"{href}: cannot be read as a GeoTIFF ({_cause(error)}).") from error


def _cause(error: BaseException) -> str:
    """GDAL's own message; rasterio often says no more than "Read failed. See previous exception"."""
    while error.__cause__ is not None:
        error = error.__cause__
    return reason(error)
