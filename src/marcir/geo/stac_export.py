"""Write a static STAC collection: one item per scene, or per image where images are files."""

import datetime
import json
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from marcir.data.image_source import moment_of
from marcir.errors import DataError, needs
from marcir.geo.listing import SUFFIXES
from marcir.geo.stac import stac_scenes
from marcir.geo.windows import parse_window_id

with needs("geo"):
    import pystac
    import shapely

COLLECTION = "collection.json"
_ITEMS = "items"
_PARQUET = "application/vnd.apache.parquet"
# Degrees, about 1 cm and 0.1 m: windows that touch become one polygon, straight edges keep their ends only.
_GRID, _STRAIGHT = 1e-7, 1e-6
_DATE_LINE = 1e-6  # degrees to it that count as none
_DAY = datetime.timedelta(days=1) - datetime.timedelta(seconds=1)
_UNUSUAL, _NAME_LENGTH = re.compile(r"[^A-Za-z0-9_.-]+"), 150


class PlacedImage(Protocol):
    """What is known of an image; a row of a store has all of it."""

    @property
    def id(self) -> str:
        """Path of a file, or id of a window."""

    @property
    def bbox(self) -> tuple[float, float, float, float] | None:
        """West, south, east, north in degrees (WGS84)."""

    @property
    def footprint(self) -> bytes | None:
        """The ground that it shows, as WKB in WGS84."""

    @property
    def date(self) -> datetime.date | None:
        """When it was taken."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """`time` is the moment when it was taken, in ISO 8601."""


@dataclass(frozen=True)
class StacCollection:
    """What `write_collection` has written.

    Attributes:
        items: Number of items.
        without_place: Scenes and images that were left out because their place is not known.
        without_date: Those left out because their date is not known, which STAC requires.
    """

    items: int
    without_place: int
    without_date: int

    def __str__(self) -> str:
        left_out = {"place": self.without_place, "date": self.without_date}
        lines = [f"{self.items:,} items"]
        lines += [f"left out: {count:,} without a {what}" for what, count in left_out.items() if count]
        return "\n".join(lines)


@dataclass
class _Source:
    """A scene with the ground of its windows, or an image."""

    geometries: list[Any] = field(default_factory=list)
    date: datetime.date | None = None
    time: datetime.datetime | None = None


def write_collection(
    folder: Path,
    images: Iterable[PlacedImage],
    name: str,
    href_of: Callable[[str], str | None],
    tables: Sequence[str] = (),
) -> StacCollection:
    """Write `collection.json` and its items into a folder. Links are relative: the folder can be moved.

    The item of a scene covers its windows. Items are named by the path of the scene or image, with unusual
    characters replaced; `title` has the path.

    Args:
        folder: An empty folder.
        images: Windows of scenes, or images.
        name: Id of the collection.
        href_of: The file of a scene or an image, by its path; None where it is not known.
        tables: GeoParquet files in the folder that become assets of the collection.

    Raises:
        DataError: If nothing has both a place and a date.
    """
    sources = _collected(images)
    placed = {path: source for path, source in sources.items() if source.geometries}
    dated = {path: source for path, source in placed.items() if source.date is not None}
    if not dated:
        what = "place" if not placed else "date"
        raise DataError(f"--stac: no image of the store has a {what}, and STAC items need one.")
    (folder / _ITEMS).mkdir()
    names, collection_id = _unique_names(dated), _UNUSUAL.sub("_", name) or "archive"
    boxes, intervals = [], []
    for path, source in dated.items():
        item = _item(names[path], path, source, href_of(path))
        assert item.bbox is not None  # noqa: S101
        boxes.append(item.bbox)
        intervals.append(_interval(source))
        item.collection_id = collection_id
        up = f"../{COLLECTION}"
        links = [(relation, up) for relation in ("root", "parent", "collection")]
        _save(folder / _ITEMS / f"{item.id}.json", item, links)
    collection = pystac.Collection(
        collection_id,
        f"Images of {name}, indexed with marcir.",
        pystac.Extent(
            pystac.SpatialExtent([_around(boxes)]),
            pystac.TemporalExtent(
                [[min(first for first, _ in intervals), max(last for _, last in intervals)]]
            ),
        ),
        license="other",
    )
    for table in tables:
        collection.add_asset(Path(table).stem, pystac.Asset(table, media_type=_PARQUET, roles=["data"]))
    items = [("item", f"./{_ITEMS}/{each}.json") for each in names.values()]
    _save(folder / COLLECTION, collection, [("root", f"./{COLLECTION}"), *items])
    return StacCollection(len(dated), len(sources) - len(placed), len(placed) - len(dated))


def file_finder(root: str, bands: Sequence[int | str] | None = None) -> Callable[[str], str | None]:
    """A function that returns the file of a scene or image of a store, by its path.

    Args:
        root: What was indexed: a folder, `s3://bucket/prefix`, a GeoTIFF, or a STAC file or its address.
        bands: The bands that were chosen, which choose the asset of a STAC item.
    """
    if Path(root).suffix.lower() == ".json":
        return _asset_finder(root, bands)

    def find(path: str) -> str | None:
        if "://" in root:
            return f"{root.rstrip('/')}/{path}"
        base = Path(root).parent if Path(root).suffix.lower() in SUFFIXES else Path(root)
        return str(base / path) if (base / path).is_file() else None

    return find


def _asset_finder(root: str, bands: Sequence[int | str] | None) -> Callable[[str], str | None]:
    try:
        scenes, _ = stac_scenes(root, bands, remote_assets=True)
    except DataError:
        return lambda _: None
    files = {scene.id: next(iter(scene.assets.values()), None) for scene in scenes}
    return files.get


def _collected(images: Iterable[PlacedImage]) -> dict[str, _Source]:
    """Scenes and images by path, in the order of paths."""
    sources: dict[str, _Source] = {}
    for image in images:
        source = sources.setdefault(_path(image.id), _Source())
        source.date, source.time = image.date, moment_of(image.metadata)
        if image.footprint is not None:
            ground = shapely.from_wkb(image.footprint)
            source.geometries += [ground] if ground.area else []  # none beyond a pole, in earlier stores
        elif image.bbox is not None:
            source.geometries += _boxes(*image.bbox)
    return dict(sorted(sources.items()))


def _path(image: str) -> str:
    try:
        return parse_window_id(image)[0]
    except DataError:
        return image


def _boxes(west: float, south: float, east: float, north: float) -> list[Any]:
    if west <= east:
        return [shapely.box(west, south, east, north)]
    return [shapely.box(west, south, 180, north), shapely.box(-180, south, east, north)]


def _unique_names(paths: Iterable[str]) -> dict[str, str]:
    """Names that are safe as file names and in URLs.

    >>> _unique_names(["a/b.tif", "a:b.tif", "../x"])
    {'a/b.tif': 'a_b.tif', 'a:b.tif': 'a_b.tif-2', '../x': '_x'}
    """
    names: dict[str, str] = {}
    taken = set[str]()
    for path in paths:
        plain = _UNUSUAL.sub("_", path).lstrip(".")[-_NAME_LENGTH:] or "_"
        name, number = plain, 1
        while name.lower() in taken:  # some file systems take upper and lower case for the same
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        names[path] = name
    return names


def _item(name: str, path: str, source: _Source, href: str | None) -> pystac.Item:
    ground = source.geometries[0]
    if len(source.geometries) > 1:
        ground = shapely.union_all(source.geometries, grid_size=_GRID)
    ground = shapely.orient_polygons(shapely.simplify(ground, _STRAIGHT))
    first, last = _interval(source)
    item = pystac.Item(
        name,
        geometry=json.loads(shapely.to_geojson(ground)),
        bbox=_bbox(ground),
        datetime=first if first == last else None,
        start_datetime=None if first == last else first,
        end_datetime=None if first == last else last,
        properties={"title": path},
    )
    if href is not None:
        item.add_asset("data", pystac.Asset(href, media_type=_media_type(href), roles=["data"]))
    return item


def _interval(source: _Source) -> tuple[datetime.datetime, datetime.datetime]:
    """The moment when a scene was taken, twice; first and last second of the day if only that is known."""
    if source.time is not None:
        return source.time, source.time
    assert source.date is not None  # noqa: S101
    start = datetime.datetime.combine(source.date, datetime.time(), datetime.UTC)
    return start, start + _DAY


def _bbox(ground: Any) -> list[float]:
    """West, south, east, north; west > east where it has parts on both sides of the date line."""
    west, south, east, north = ground.bounds
    parts = shapely.bounds(shapely.get_parts(ground))
    apart = (parts[:, 0] > -180 + _DATE_LINE) | (parts[:, 2] < 180 - _DATE_LINE)
    if west <= -180 + _DATE_LINE and east >= 180 - _DATE_LINE and apart.all():
        return [float(parts[parts[:, 0] >= 0, 0].min()), south, float(parts[parts[:, 0] < 0, 2].max()), north]
    return [west, south, east, north]


def _around(boxes: Sequence[Sequence[float]]) -> list[float | int]:
    """A box around boxes; around the Earth where one of several crosses the date line."""
    if len(boxes) == 1:
        return list(boxes[0])
    west, south, east, north = zip(*boxes, strict=True)
    if any(w > e for w, e in zip(west, east, strict=True)):
        return [-180.0, min(south), 180.0, max(north)]
    return [min(west), min(south), max(east), max(north)]


def _media_type(href: str) -> str | None:
    if os.path.splitext(href)[1].lower() in SUFFIXES:  # noqa: PTH122  may be an address
        return pystac.MediaType.GEOTIFF
    return mimetypes.guess_type(href)[0]


def _save(path: Path, what: pystac.Item | pystac.Collection, links: Iterable[tuple[str, str]]) -> None:
    content = what.to_dict(include_self_link=False, transform_hrefs=False)
    content["links"] = [
        {
            "rel": relation,
            "href": href,
            "type": "application/geo+json" if relation == "item" else "application/json",
        }
        for relation, href in links
    ]
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
