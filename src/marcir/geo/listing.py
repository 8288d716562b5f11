"""List scenes: the GeoTIFFs below a folder, or the items of a static STAC catalog."""

import datetime
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from marcir.data.archive import image_files
from marcir.errors import DataError, needs
from marcir.files import reason
from marcir.geo.datasets import broken_as, environment, open_dataset
from marcir.geo.hrefs import remote_fingerprint
from marcir.geo.scene import Band, Fingerprint, Scene, SceneList, ground_resolution, is_remote
from marcir.geo.stac import StacScene, stac_scenes

with needs("geo"):
    from rasterio.enums import ColorInterp, MaskFlags
    from rasterio.errors import NotGeoreferencedWarning
    from rasterio.io import DatasetReader

SUFFIXES = frozenset({".tif", ".tiff"})
_TAG_FORMAT = "%Y:%m:%d %H:%M:%S"
_GRID = ("crs", "transform", "width", "height", "dtype")


def list_scenes(
    source: str | Path, bands: Sequence[int | str] | None = None, remote_assets: bool = False
) -> SceneList:
    """List the scenes of a folder, of one GeoTIFF, or of a STAC item, collection or catalog.

    Args:
        source: A folder, a GeoTIFF, a STAC JSON file, or the http(s) address of one. Only a catalog given by
            its address may point to addresses; a local one is confined to the files below its own folder.
        bands: The bands to read, by number (from 1) or name; in a catalog, names of assets. All by default.
        remote_assets: Whether assets of a local catalog may be http(s) addresses.

    Raises:
        DataError: If there is no such file or folder, or it has no scenes. A scene that cannot be read is not
            an error but a line in `broken`.
    """
    if is_remote(str(source)):
        return _from_stac(str(source), bands, remote_assets)
    path = Path(source)
    if path.is_dir():
        files = image_files(path, SUFFIXES)
        if not files:
            raise DataError(f"{path}: no GeoTIFFs below it ({', '.join(sorted(SUFFIXES))}).")
        return _from_files(path, files, bands)
    if not path.is_file():
        raise DataError(f"{path}: there is no such folder or file. Give GeoTIFFs or STAC JSON.")
    if path.suffix.lower() in SUFFIXES:
        return _from_files(path.parent, [path], bands)
    return _from_stac(str(path), bands, remote_assets)


def read_scene(href: str, scene_id: str) -> Scene:
    """Describe a GeoTIFF with all its bands; its pixels are not read.

    Raises:
        BrokenImageError: If it cannot be opened as a GeoTIFF.
        DataError: If it has no place on the Earth, or pixels of a type that is not supported.
    """
    with broken_as(href), environment(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # it is refused in one line instead
        with open_dataset(href) as dataset:
            return _described(dataset, href, scene_id)


def fingerprint_of(hrefs: Iterable[str]) -> Fingerprint:
    """What these files are now, without the content of local ones.

    Raises:
        DataError: Names the one that is missing or cannot be reached.
    """
    return _together([_fingerprint(href) for href in hrefs])


def _from_files(root: Path, files: Iterable[Path], bands: Sequence[int | str] | None) -> SceneList:
    def scene(path: Path) -> Scene:
        name = path.relative_to(root).as_posix()
        if not name.isprintable():
            raise DataError(f"{name!a}: a file name with control characters or not in UTF-8. Rename it.")
        found = read_scene(str(path.absolute()), name)
        return found if bands is None else found.select(bands)

    return _collected((ascii(str(path))[1:-1], partial(scene, path)) for path in files)


def _from_stac(source: str, bands: Sequence[int | str] | None, remote_assets: bool) -> SceneList:
    items, broken = stac_scenes(source, bands, remote_assets)
    found = _collected((item.id, partial(_merged, item, bands)) for item in items)
    return SceneList(found.scenes, broken | found.broken)


def _collected(tasks: Iterable[tuple[str, Callable[[], Scene]]]) -> SceneList:
    """Run each task; keep scenes by id and errors by name."""
    scenes: dict[str, Scene] = {}
    broken: dict[str, str] = {}
    for name, task in tasks:
        try:
            scene = task()
        except DataError as error:
            broken[name] = str(error)
            continue
        if scene.id in scenes:
            broken[name] = f"{name}: a second scene with the id '{scene.id}'. Rename one."
        else:
            scenes[scene.id] = scene
    return SceneList(tuple(scenes[key] for key in sorted(scenes)), broken)


def _merged(item: StacScene, bands: Sequence[int | str] | None) -> Scene:
    """One scene from the chosen assets of an item."""
    parts = [_named(read_scene(href, item.id), name) for name, href in item.assets.items()]
    first = parts[0]
    for (name, _), part in zip(item.assets.items(), parts, strict=True):
        for field in _GRID:
            if getattr(part, field) != getattr(first, field):
                raise DataError(
                    f"{item.id}: the assets '{next(iter(item.assets))}' and '{name}' differ in {field}. "
                    "Choose assets with the same grid and type of pixels."
                )
        if (part.nodata, part.has_mask) != (first.nodata, first.has_mask):
            raise DataError(
                f"{item.id}: the asset '{name}' marks missing pixels in another way. Choose others."
            )
    scene = replace(
        first,
        bands=tuple(chain.from_iterable(part.bands for part in parts)),
        file_bands=tuple(chain.from_iterable(part.file_bands for part in parts)),
        time=item.time or first.time,
        fingerprint=_together([part.fingerprint for part in parts]),
    )
    return scene.select(bands) if bands and all(isinstance(band, int) for band in bands) else scene


def _named(scene: Scene, asset: str) -> Scene:
    """The bands of an asset, with its name if it has one band."""
    if len(scene.bands) != 1:
        return scene
    band = replace(scene.bands[0], name=asset)
    return replace(scene, bands=(band,), file_bands=(band,))


def _together(parts: list[Fingerprint]) -> Fingerprint:
    contents = [part.content for part in parts]
    return Fingerprint(
        sum(part.size for part in parts),
        0 if any(not part.modified for part in parts) else max(part.modified for part in parts),
        " ".join(contents) if all(contents) else "",
    )


def _described(dataset: DatasetReader, href: str, scene_id: str) -> Scene:
    everything = tuple(
        Band(href, index, name or "", use is ColorInterp.alpha)
        for index, name, use in zip(dataset.indexes, dataset.descriptions, dataset.colorinterp, strict=True)
    )
    bands = tuple(band for band in everything if not band.is_alpha)
    dtype = str(dataset.dtypes[0])
    if dataset.crs is None or dataset.transform.is_identity:
        ground_points = " It has ground control points: warp it with gdalwarp." if dataset.gcps[0] else ""
        what = "CRS" if dataset.crs is None else "geotransform"
        raise DataError(
            f"{scene_id}: there is no {what} in the file.{ground_points or ' Add one with gdal_edit.py.'}"
        )
    if not bands or "complex" in dtype or dataset.transform.is_degenerate:
        raise DataError(
            f"{scene_id}: {len(bands)} bands of {dtype}, geotransform {dataset.transform[:6]}: cannot be "
            "used. Convert it with gdal_translate."
        )
    crs = _crs(dataset)
    has_mask = MaskFlags.per_dataset in dataset.mask_flag_enums[bands[0].index - 1]
    try:
        resolution = ground_resolution(crs, dataset.transform, dataset.width, dataset.height)
    except DataError as error:
        raise DataError(f"{scene_id}: {error}") from None
    return Scene(
        id=scene_id,
        crs=crs,
        transform=dataset.transform[:6],
        width=dataset.width,
        height=dataset.height,
        bands=bands,
        file_bands=everything,
        dtype=dtype,
        resolution=resolution,
        nodata=dataset.nodata,
        has_mask=has_mask,
        block=dataset.block_shapes[0],
        time=_tag_time(dataset.tags().get("TIFFTAG_DATETIME", "")),
        fingerprint=_fingerprint(href),
    )


def _crs(dataset: DatasetReader) -> str:
    code = dataset.crs.to_epsg(confidence_threshold=100)
    return str(dataset.crs.to_wkt()) if code is None else f"EPSG:{code}"


def _tag_time(text: str) -> datetime.datetime | None:
    """The time of the TIFF tag, which has no time zone: UTC. A tag that is not a time is ignored.

    >>> _tag_time("2012:07:31 10:00:00").isoformat(), _tag_time("0000:00:00 00:00:00")
    ('2012-07-31T10:00:00+00:00', None)
    """
    try:
        return datetime.datetime.strptime(text.strip(" \0"), _TAG_FORMAT).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None


def _fingerprint(href: str) -> Fingerprint:
    if is_remote(href):
        return remote_fingerprint(href)
    try:
        stat = Path(href).stat()
    except OSError as error:
        raise DataError(f"{href}: {reason(error)}.") from error
    return Fingerprint(stat.st_size, stat.st_mtime_ns)
