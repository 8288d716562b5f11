"""Scenes: georeferenced rasters as records, and whether one has changed since it was indexed."""

import datetime
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from marcir.errors import ConfigError, DataError, did_you_mean, needs
from marcir.files import reason

with needs("geo"):
    import pyproj
    from affine import Affine
    from pyproj.exceptions import ProjError

_CHUNK = 1 << 20
# A projected CRS whose units are this close to metres on the ground is used as it is: 5 m in UTM is 5 m.
_TRUE_TO_SCALE = 0.01
# A grid with points on the poles reaches half a pixel beyond them; grids of oceans may end at 434 degrees.
_BEYOND_POLE, _LONGITUDES = 0.51, 540.0


@dataclass(frozen=True)
class Band:
    """One band of a scene.

    Attributes:
        href: Absolute path of its GeoTIFF, or its http(s) address.
        index: Number of the band in that file, from 1.
        name: Name of its STAC asset, or its description in the file; may be empty.
        is_alpha: Whether the file marks it as a mask. GDAL marks the fourth of four bands of bytes like this
            unless the file says otherwise, so it may be infrared.
    """

    href: str
    index: int
    name: str = ""
    is_alpha: bool = False


@dataclass(frozen=True)
class Fingerprint:
    """What a scene's files were when it was read.

    Attributes:
        size: Bytes of its files.
        modified: When the last of them was modified, in nanoseconds; 0 if a server does not send it.
        content: Hash of their bytes (`content_hash`), or of the ETags that a server gives; empty if unknown.
    """

    size: int
    modified: int
    content: str = ""


@dataclass(frozen=True)
class Scene:
    """A georeferenced raster: one GeoTIFF, or single-band GeoTIFFs on one grid.

    Attributes:
        id: Path relative to the folder, or collection and item of a STAC catalog.
        crs: `EPSG:26914`, or WKT for a CRS without such a code.
        transform: Affine geotransform (a, b, c, d, e, f): x = a * column + b * row + c, y = d * column + e *
            row + f. It may be rotated.
        width: In pixels.
        height: In pixels.
        bands: The bands that are read, in this order; by default all of `file_bands` but an alpha band.
        dtype: numpy's name of the type of the pixels.
        resolution: Metres on the ground per pixel, along rows and along columns, at the centre.
        nodata: Value of missing pixels, where the file declares one.
        has_mask: Whether a mask or an alpha band in the file marks missing pixels. An alpha band
            that is among `bands` does not.
        file_bands: The bands that its files have.
        block: Height and width of the file's blocks, in pixels.
        time: When it was taken: STAC `datetime`, else the TIFF tag, else None. In UTC.
        fingerprint: Size and time of its files, without the content hash.
    """

    id: str
    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int
    bands: tuple[Band, ...]
    dtype: str
    resolution: tuple[float, float]
    nodata: float | None = None
    has_mask: bool = False
    file_bands: tuple[Band, ...] = ()
    block: tuple[int, int] = (256, 256)
    time: datetime.datetime | None = None
    fingerprint: Fingerprint = Fingerprint(0, 0)

    @property
    def date(self) -> datetime.date | None:
        """The day it was taken in UTC, where known."""
        return None if self.time is None else self.time.date()

    @cached_property
    def hrefs(self) -> tuple[str, ...]:
        """Its files, each once."""
        return tuple(dict.fromkeys(band.href for band in self.bands))

    @property
    def affine(self) -> Affine:
        """The geotransform, from pixels to coordinates of the CRS."""
        return Affine(*self.transform)

    def select(self, bands: Sequence[int | str]) -> "Scene":
        """The same scene with some of the bands of its files, by number (from 1) or name.

        Raises:
            DataError: If it has no such band.
        """
        chosen = tuple(_band(self, wanted) for wanted in bands)
        return replace(
            self, bands=chosen, has_mask=self.has_mask and not any(band.is_alpha for band in chosen)
        )


@dataclass(frozen=True)
class SceneList:
    """What a folder or a catalog has.

    Attributes:
        scenes: Scenes that can be read, by id.
        broken: One line for each that cannot be read, by path, address or item.
    """

    scenes: tuple[Scene, ...]
    broken: dict[str, str]


def parse_bands(text: str) -> tuple[int | str, ...]:
    """Parse `--bands`: numbers from 1, or names, separated by commas.

    Raises:
        ConfigError: For an empty name, or a number below 1.

    >>> parse_bands("4,3,2"), parse_bands("red, nir")
    ((4, 3, 2), ('red', 'nir'))
    """
    names = [part.strip() for part in text.split(",")]
    if not all(names) or any(name.isdecimal() and int(name) < 1 for name in names):
        raise ConfigError(f"--bands '{text}': give numbers from 1 or names, such as 4,3,2 or red,green,blue.")
    return tuple(int(name) if name.isdecimal() else name for name in names)


def differences(scenes: Iterable[Scene], resolution: float | None = None) -> list[str]:
    """One line for each property in which scenes differ: number of bands, dtype, resolution.

    Scenes may differ; but a model takes one number of bands, and a window of 256 pixels covers other ground
    in a scene of another resolution, unless all are read at one `resolution`.
    """
    found = list(scenes)
    lines = [
        _difference(found, "bands", lambda scene: f"{len(scene.bands)}", "Choose bands with --bands."),
        _difference(found, "dtype", lambda scene: scene.dtype, "Values are not scaled to each other."),
    ]
    if resolution is None:
        lines.append(
            _difference(
                found,
                "metres per pixel",
                lambda scene: f"{_metres(scene):.3g}",
                "Read all at one --resolution.",
            )
        )
    return [line for line in lines if line]


def content_hash(scene: Scene) -> str:
    """Hash of the bytes of a scene's files; of a remote scene, the hash of the server's ETags.

    Raises:
        DataError: If a file cannot be read.
    """
    if any(is_remote(href) for href in scene.hrefs):
        return scene.fingerprint.content
    digest = hashlib.blake2b(digest_size=16)
    for href in scene.hrefs:
        digest.update(_file_digest(Path(href)))
    return digest.hexdigest()


def is_up_to_date(scene: Scene, recorded: Fingerprint) -> bool:
    """Whether a scene's files are those that were recorded.

    Equal size and time of modification are enough; if only the time differs (a copied archive), the content
    decides, which reads the files.
    """
    now = scene.fingerprint
    if now.size != recorded.size:
        return False
    if now.modified and now.modified == recorded.modified:
        return True
    return bool(recorded.content) and content_hash(scene) == recorded.content


def is_remote(href: str) -> bool:
    """Whether a href is an http(s) address.

    >>> is_remote("HTTPS://example.org/a.tif"), is_remote("/data/a.tif")
    (True, False)
    """
    return href.lower().startswith(("http://", "https://"))


def ground_resolution(crs: str, transform: Affine, width: int, height: int) -> tuple[float, float]:
    """Metres on the ground per pixel, along rows and along columns, at the centre of a raster.

    Coordinates of a projected CRS count as they are where they are true to scale within 1 %; degrees, and
    Web Mercator away from the equator, are measured on the ellipsoid.

    Raises:
        DataError: If the centre has no longitude and latitude, or degrees are none on the Earth.

    >>> ground_resolution("EPSG:32614", Affine(5, 0, 500000, 0, -5, 5000000), 100, 100)
    (5.0, 5.0)
    """
    _check_degrees(crs, transform, width, height)
    x, y = width / 2, height / 2
    corners = [transform @ (x + dx, y + dy) for dx, dy in ((-0.5, 0), (0.5, 0), (0, -0.5), (0, 0.5))]
    try:
        xs, ys = zip(*corners, strict=True)
        longitudes, latitudes = to_wgs84(crs).transform(xs, ys, errcheck=True)
    except ProjError as error:
        raise DataError(f"its centre has no longitude and latitude ({reason(error)}).") from error
    geod = pyproj.Geod(ellps="WGS84")
    metres = geod.line_lengths(longitudes, latitudes)
    if not all(map(math.isfinite, metres)):
        raise DataError(
            "its centre has no longitude and latitude. Is the CRS wrong? See gdal_edit.py -a_srs."
        )
    unit = _metres_per_unit(crs)
    own = (math.hypot(transform.a, transform.d) * unit, math.hypot(transform.b, transform.e) * unit)
    across, down = (
        mine if unit and abs(mine / true - 1) < _TRUE_TO_SCALE else true
        for mine, true in zip(own, (metres[0], metres[2]), strict=True)
    )
    return across, down


def _check_degrees(crs: str, transform: Affine, width: int, height: int) -> None:
    """Refuse a raster in degrees that is not on the Earth: metres, or latitude before longitude."""
    known = pyproj.CRS.from_user_input(crs)
    if not known.is_geographic:
        return
    unit = math.degrees(known.axis_info[0].unit_conversion_factor)
    corners = [transform @ corner for corner in ((0, 0), (0, height), (width, height), (width, 0))]
    xs, ys = ([unit * number for number in numbers] for numbers in zip(*corners, strict=True))
    pixel = unit * (abs(transform.d) + abs(transform.e))
    inside = max(map(abs, xs)) <= _LONGITUDES and max(map(abs, ys)) <= 90 + _BEYOND_POLE * pixel
    if not inside:
        reaches = ",".join(f"{number:g}" for number in (min(xs), min(ys), max(xs), max(ys)))
        raise DataError(
            f"its coordinates are not longitude and latitude (is the CRS wrong?): it reaches to {reaches}. "
            "Assign its CRS with gdal_edit.py -a_srs, or swap the axes."
        )


@lru_cache(maxsize=64)
def to_wgs84(crs: str) -> pyproj.Transformer:
    """The transformation from a CRS to longitude and latitude in WGS84, in this order.

    pyproj makes one per thread of it, so that it may be shared.

    Raises:
        DataError: If the CRS has no position on the Earth.
    """
    try:
        return pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    except ProjError as error:
        raise DataError(
            f"its CRS has no longitude and latitude ({reason(error)}). Assign another with gdal_edit.py."
        ) from error


def _metres_per_unit(crs: str) -> float:
    """Of a projected CRS; 0 for a geographic one."""
    known = pyproj.CRS.from_user_input(crs)
    return known.axis_info[0].unit_conversion_factor if known.is_projected else 0.0


def _band(scene: Scene, wanted: int | str) -> Band:
    if isinstance(wanted, int):
        if 1 <= wanted <= len(scene.file_bands):
            return scene.file_bands[wanted - 1]
        count = len(scene.file_bands)
        raise DataError(f"{scene.id}: there is no band {wanted}; it has {count}. Change --bands.")
    for band in scene.file_bands:
        if band.name == wanted:
            return band
    names = [band.name for band in scene.file_bands if band.name]
    if not names:
        count = len(scene.file_bands)
        raise DataError(
            f"{scene.id}: there is no band '{wanted}': its {count} bands have no names. Choose them by "
            "number, such as --bands 1."
        )
    raise DataError(f"{scene.id}: there is no band '{wanted}'. {did_you_mean(wanted, names)}")


def _metres(scene: Scene) -> float:
    return math.sqrt(scene.resolution[0] * scene.resolution[1])


def _difference(scenes: list[Scene], what: str, value: Callable[[Scene], str], advice: str) -> str:
    groups: dict[str, list[str]] = {}
    for scene in scenes:
        groups.setdefault(value(scene), []).append(scene.id)
    if len(groups) < 2:
        return ""
    parts = [f"{each} ({len(ids)}, such as {ids[0]})" for each, ids in sorted(groups.items())]
    return f"the scenes differ in {what}: {', '.join(parts)}. {advice}"


def _file_digest(path: Path) -> bytes:
    digest = hashlib.blake2b()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)}).") from error
    return digest.digest()
