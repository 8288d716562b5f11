"""Datasets of labelled windows: two files, and the reader of `--dataset windows`.

    windows.csv     one row per window: id, place and labels
    windows.json    where windows and labels come from, and the scenes

Pixels are read from the scenes.
"""

import csv
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from marcir.data.archive import Archive, PixelSource, Place
from marcir.data.images import PixelFormat, convert_pixels, decoded_dtype
from marcir.data.label_csv import LabelRow, LabelTable, Unlisted, parse_states, read_lines
from marcir.data.readers.base import DatasetReader
from marcir.errors import BrokenImageError, DataError, did_you_mean, needs
from marcir.geo.footprints import Footprint
from marcir.geo.listing import fingerprint_of
from marcir.geo.reading import WindowReader
from marcir.geo.scene import Scene, is_up_to_date
from marcir.geo.shares import Unmapped
from marcir.geo.windows import Window, parse_window_id, window_from_id
from marcir.schema import load, record

with needs("geo"):
    import shapely

TABLE, SETTINGS = "windows.csv", "windows.json"
COLUMNS = (
    "id", "scene", "x", "y", "width", "height", "date", "block", "shared_blocks",
    "west", "south", "east", "north", "footprint", "labels",
)  # fmt: skip
_REMAKE = "make the dataset again with marcir data windows"


@record()
class WindowSettings:
    """What `windows.json` has.

    Attributes:
        marcir: Version of marcir that wrote it.
        source: The folder or catalog of the scenes.
        map: The map.
        legend: Its legend, if any.
        field: The field of its classes, if it has polygons.
        window: Side of a window in pixels.
        stride: Pixels from one window to the next.
        resolution: Metres per pixel; None for the scenes' own.
        bands: Bands by number or name; None for all.
        nodata_max: Largest share of missing pixels in a window.
        min_share: Smallest share of a window that makes a class one of its labels.
        unmapped: What classes are where the map has no data.
        split_blocks: Side of the blocks of a split in metres; 0 for none.
        labels: Names of the labels.
        scenes: The scenes, as they were when the windows were made.
        version: Version of the file format.
    """

    marcir: str
    source: str
    map: str
    legend: str | None
    field: str | None
    window: int
    stride: int
    resolution: float | None
    bands: tuple[int | str, ...] | None
    nodata_max: float
    min_share: float
    unmapped: Unmapped
    split_blocks: float
    labels: tuple[str, ...]
    scenes: tuple[Scene, ...]
    version: Literal[1] = 1


@dataclass(frozen=True)
class WindowRow:
    """One row of `windows.csv`.

    Attributes:
        window: The window.
        footprint: Where it is.
        place: Its block of space; None if the dataset is not split by blocks.
        present: Its labels.
        unknown: Labels that it may have.
    """

    window: Window
    footprint: Footprint
    place: Place | None
    present: Sequence[str]
    unknown: Sequence[str]


def write_table(path: Path, rows: Iterable[WindowRow]) -> None:
    """Write the rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(_cells, rows))


def _cells(row: WindowRow) -> list[object]:
    window, scene = row.window, row.window.scene
    return [
        window.id,
        scene.id,
        *(window.x, window.y, window.width, window.height),
        scene.date or "",
        row.place.block if row.place else "",
        ";".join(sorted(row.place.shared)) if row.place else "",
        *(round(degrees, 7) for degrees in row.footprint.bbox),
        shapely.to_wkt(row.footprint.outline, rounding_precision=7),
        ";".join([*row.present, *(f"?{name}" for name in row.unknown)]),
    ]


class SceneWindows(PixelSource):
    """Pixels of windows by id, mirrored up to the full size at the edges of a scene.

    Args:
        scenes: The scenes.
        window: Side of a window.
    """

    def __init__(self, scenes: Iterable[Scene], window: int) -> None:
        self._scenes = {scene.id: scene for scene in scenes}
        self._window = window
        self._reader = WindowReader()
        self.files = tuple(Path(href) for scene in self._scenes.values() for href in scene.hrefs)
        digest = hashlib.sha256(str(window).encode())
        for scene in self._scenes.values():
            digest.update(repr((scene.id, scene.bands, scene.fingerprint.content)).encode())
        self.key = digest.hexdigest()

    def read(self, image: str) -> np.ndarray:
        """The pixels of a window. (H, W, C)"""
        window = window_from_id(self._scene(image), image)
        try:
            return convert_pixels(self._reader.read(window).padded(self._window).pixels)
        except BrokenImageError as error:
            raise BrokenImageError(f"{image}: {error}") from error

    def pixel_format(self, image: str) -> PixelFormat:
        """Number of bands and type of a window's pixels."""
        scene = self._scene(image)
        return PixelFormat(len(scene.bands), decoded_dtype(np.dtype(scene.dtype)))

    def _scene(self, image: str) -> Scene:
        return self._scenes[parse_window_id(image)[0]]


class Windows(DatasetReader):
    """Windows of georeferenced scenes with labels from a map, as `marcir data windows` writes them."""

    NAME = "windows"
    LAYOUT = f"{TABLE} and {SETTINGS}, as `marcir data windows` writes them"

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Read the table, and check that the scenes are those that were cut."""
        if labels is not None:
            raise DataError(f"windows: labels are in {TABLE}; leave --labels out.")
        self.refuse_unlisted(unlisted)
        settings = load(
            WindowSettings,
            self.need(root / SETTINGS, root),
            "the settings of a dataset of windows",
            f"{_REMAKE.capitalize()}.",
        )
        _check_scenes(root, settings.scenes)
        table, places = _read_table(self.need(root / TABLE, root), settings)
        path_of = {scene.id: Path(scene.hrefs[0]) for scene in settings.scenes}
        paths = [path_of[parse_window_id(row.image)[0]] for row in table.rows]
        archive = self.archive_of_table(root, paths, table)
        source = SceneWindows(settings.scenes, settings.window)
        return replace(archive, pixels=source, places=tuple(places))


def _check_scenes(root: Path, scenes: Iterable[Scene]) -> None:
    """Refuse scenes that are gone, or changed since they were cut."""
    for scene in scenes:
        try:
            now = replace(scene, fingerprint=fingerprint_of(scene.hrefs))
            same = is_up_to_date(now, scene.fingerprint)
        except DataError as error:
            raise DataError(
                f"{root}: the scene '{scene.id}' cannot be read ({str(error).rstrip('.')}). Put it back, or "
                f"{_REMAKE}."
            ) from error
        if not same:
            raise DataError(
                f"{root}: the scene '{scene.id}' changed after it was cut into windows. Restore it, or "
                f"{_REMAKE}."
            )


def _read_table(path: Path, settings: WindowSettings) -> tuple[LabelTable, list[Place]]:
    """Labels and places of the windows."""
    (first, header), *body = read_lines(path)
    if missing := [name for name in COLUMNS if name not in header]:
        raise DataError(f"{path} line {first}: there is no column '{missing[0]}'. Restore it, or {_REMAKE}.")
    scenes = {scene.id: scene for scene in settings.scenes}
    rows, places, seen = list[LabelRow](), list[Place](), set[str]()
    for line, cells in body:
        where = f"{path} line {line}"
        if len(cells) != len(header):
            raise DataError(f"{where}: expected {len(header)} columns as in the header, found {len(cells)}.")
        row = dict(zip(header, cells, strict=True))
        image = row["id"]
        _check_window(where, image, scenes, seen)
        rows.append(_label_row(where, image, row["labels"], line, settings.labels))
        if settings.split_blocks:
            places.append(_place(where, row))
    return LabelTable(rows, settings.labels, "absent", is_list=False), places


def _check_window(where: str, image: str, scenes: dict[str, Scene], seen: set[str]) -> None:
    if image in seen:
        raise DataError(f"{where}: duplicate window '{image}'. Keep one.")
    seen.add(image)
    try:
        name = parse_window_id(image)[0]
        if name not in scenes:
            raise DataError(f"'{name}' is not among the scenes of {SETTINGS}. Restore the line.")
        window_from_id(scenes[name], image)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _label_row(where: str, image: str, cell: str, line: int, known: Sequence[str]) -> LabelRow:
    states = parse_states(where, cell, None)
    for name in states:
        if name not in known:
            raise DataError(f"{where}: unknown label '{name}'. {did_you_mean(name, known)}")
    present, unknown = (
        tuple(name for name, state in states.items() if state == wanted) for wanted in ("present", "unknown")
    )
    return LabelRow(image, present, line, unknown)


def _place(where: str, row: dict[str, Any]) -> Place:
    if not row["block"]:
        raise DataError(f"{where}: the block is missing. Restore it, or {_REMAKE}.")
    return Place(row["block"], frozenset(filter(None, row["shared_blocks"].split(";"))))
