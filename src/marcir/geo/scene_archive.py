"""Scenes that are cut into windows, as a source of images that can be indexed."""

import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from marcir.checks import check_fraction
from marcir.data.image_source import ImageContent, ImageSource, Omitted, WindowCut
from marcir.data.images import PixelFormat, convert_pixels, decoded_dtype
from marcir.data.object_storage import many_threads
from marcir.errors import BrokenImageError, DataError
from marcir.geo.footprints import Footprint, footprints_of
from marcir.geo.listing import fingerprint_of, list_scenes
from marcir.geo.reading import WindowCounts, WindowPixels, WindowReader
from marcir.geo.scene import Fingerprint, Scene, content_hash, differences, is_remote, is_up_to_date
from marcir.geo.windows import Window, WindowGrid, count_windows, parse_window_id, windows_of

# Windows in a row that one thread reads: they share blocks of the file, which each thread decodes by itself.
_NEIGHBOURS = 8
# What differs between lines about the same problem: what is in quotes, paths, ids, numbers.
_NAMES = re.compile(r"'[^']*'|\S*[/\\.\d]\S*|^\S+:")
# One for the process: its threads keep files open.
_READER = WindowReader()


class SceneArchive(ImageSource):
    """The windows of scenes: `marcir.index(SceneArchive("scenes"), "scenes.store")`.

    Args:
        source: A folder, a GeoTIFF, or a STAC item, collection or catalog.
        grid: How scenes are cut.
        bands: Bands by number (from 1) or name; all by default.
        nodata_max: Largest share of missing pixels in a window; windows with more are skipped.
        remote_assets: Whether assets of a local STAC catalog may be http(s) addresses.

    Raises:
        ConfigError: For a share that is not within 0 to 1.
        DataError: If there are no scenes, or none of them can be read.
    """

    option, what = "--scenes", "windows"

    def __init__(
        self,
        source: str | Path,
        grid: WindowGrid | None = None,
        bands: Sequence[int | str] | None = None,
        nodata_max: float = 0.2,
        remote_assets: bool = False,
    ) -> None:
        self.grid = grid = WindowGrid() if grid is None else grid
        self.nodata_max = check_fraction("nodata_max", nodata_max)
        chosen = None if bands is None else tuple(bands)
        self.cut = WindowCut(grid.window, grid.step, grid.resolution, chosen, float(nodata_max))
        found = list_scenes(source, bands, remote_assets)
        self.broken = dict(found.broken)
        self._is_folder = not is_remote(str(source)) and Path(source).is_dir()
        self.root = str(source) if is_remote(str(source)) else str(Path(source).absolute())
        if not found.scenes:
            raise DataError(
                f"--scenes {source}: none of its {len(found.broken):,} scenes can be read, for example: "
                f"{_commonest(found.broken.values())}"
            )
        self._set_scenes(found.scenes)
        self._checked: dict[tuple[str, str], str | None] = {}
        self._fingerprints: dict[str, str] = {}

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """The scenes that can be read."""
        return tuple(self._scenes.values())

    def image(self, position: int, stored: str | None = None) -> "WindowImage":
        """The window at a position."""
        first = position - position % _NEIGHBOURS
        beside = tuple(self._windows[first : first + _NEIGHBOURS])
        return WindowImage(self._windows[position], self._place, self.grid.window, self.nodata_max, beside)

    def read(self, position: int) -> np.ndarray:
        """The pixels of the window at a position, mirrored up to the full size. (H, W, C)"""
        image = self.image(position)
        content = image.read()
        if not isinstance(content, ImageContent):
            raise BrokenImageError(f"{image.id}: too many pixels are missing (--nodata-max).")
        return content.pixels

    def pixel_format(self, position: int) -> PixelFormat:
        """Number of bands and type of the window at a position."""
        return _pixel_format(self._windows[position].scene)

    def id_of(self, name: str) -> str:
        """Tables name windows by their ids."""
        return name

    def reading_threads(self, threads: int | None) -> int | None:
        """More threads for scenes on a server."""
        return self.image(0).reading_threads(threads)

    def check_model(self, model: PixelFormat, trained: bool = True) -> None:
        """Leave out the scenes that a model cannot read.

        Raises:
            DataError: If it can read none.
        """
        problems = {scene.id: _mismatch(scene, model, trained) for scene in self.scenes}
        others = {scene: problem for scene, problem in problems.items() if problem}
        if len(others) == len(problems):
            raise DataError(next(iter(others.values())))
        if others:
            self.broken = {**self.broken, **others}
            self._set_scenes([scene for scene in self.scenes if scene.id not in others])

    def check_pixels(self) -> None:
        """Read windows until one has enough pixels, from the middle on: many are missing at edges of scenes.

        Raises:
            DataError: If none has.
        """
        middle = len(self._windows) // 2
        with WindowReader() as reader:
            for window in chain(self._windows[middle:], self._windows[:middle]):
                try:
                    found = reader.read(window)
                except BrokenImageError:
                    return  # it is listed when it is indexed
                if found.missing <= self.nodata_max:
                    return
        raise DataError(
            f"--scenes {self.root}: more pixels are missing in all {len(self._windows):,} windows than "
            f"--nodata-max {self.nodata_max:g} allows. Check the nodata value of the scenes with gdalinfo."
        )

    def group_of(self, image: str) -> str:
        """The scene and row of a window: windows of a row share blocks of the file."""
        try:
            scene, (_, y, *_), _ = parse_window_id(image)
        except DataError:
            return image
        return f"{scene}@y={y}"

    def file_of(self, image: str) -> str:
        """The scene of a window."""
        return parse_window_id(image)[0]

    def current(self, image: str, stored: str) -> str | None:
        """The fingerprint now, if the scene is the one that was stored.

        The files of a scene are read only if they have the same size and another time of modification, and
        then once.
        """
        key = (self.file_of(image), stored)
        if key not in self._checked:
            self._checked[key] = _as_recorded(self._scenes[key[0]], stored)
        return self._checked[key]

    def fingerprint(self, image: str, read: str) -> str:
        """The fingerprint of the scene, with the hash of its content, which is computed once."""
        scene = self._scenes[self.file_of(image)]
        if scene.id not in self._fingerprints:
            self._fingerprints[scene.id] = _to_text(scene, _content(scene))
        return self._fingerprints[scene.id]

    def gone(self, images: Iterable[str]) -> list[str]:
        """Windows of scenes that are not there any more, or whose grid is another; not of broken scenes."""
        return [image for image in images if self._is_gone(image)]

    def empty(self, skipped: Iterable[str]) -> list[str]:
        """One line for each scene of which all windows were skipped."""
        counts = WindowCounts(skipped=Counter(map(self.file_of, skipped)))
        whole = {
            scene.id for scene in self.scenes if counts.skipped[scene.id] == count_windows(scene, self.grid)
        }
        return [line for scene, line in counts.empty.items() if scene in whole]

    @property
    def _place(self) -> str:
        """The folder that a machine must have."""
        return self.root if self._is_folder or is_remote(self.root) else str(Path(self.root).parent)

    def _set_scenes(self, scenes: Iterable[Scene]) -> None:
        self._scenes = {scene.id: scene for scene in scenes}
        self._windows = [window for scene in self.scenes for window in windows_of(scene, self.grid)]
        self.ids = [window.id for window in self._windows]
        self.notes = differences(self.scenes, self.grid.resolution)

    def _is_gone(self, image: str) -> bool:
        try:
            scene = self.file_of(image)
        except DataError:
            return True
        if scene in self._scenes:
            return True  # its grid is another
        if self._is_folder:
            return not os.path.lexists(Path(self.root) / scene)
        return not self.broken  # which item of a catalog a broken one is, is not always known


@dataclass(frozen=True)
class WindowImage:
    """A window that reads itself, in any process.

    Attributes:
        window: The window.
        root: The folder or address that a machine must be able to read.
        size: Side up to which pixels are mirrored.
        nodata_max: Largest share of missing pixels.
        beside: The window and those that are read with it: footprints of several are computed faster.
    """

    window: Window
    root: str
    size: int
    nodata_max: float
    beside: tuple[Window, ...]

    @property
    def id(self) -> str:
        """The id of the window."""
        return self.window.id

    @property
    def where(self) -> str:
        """The id of the window."""
        return self.window.id

    @property
    def neighbours(self) -> int:
        """Windows in a row share blocks of the file."""
        return _NEIGHBOURS

    def read(self) -> ImageContent | Omitted:
        """Read its pixels and compute its footprint; "skipped" if too many pixels are missing."""
        found = _READER.read(self.window)
        if found.missing > self.nodata_max:
            return "skipped"
        try:
            footprint = self._footprint()
        except DataError as error:
            raise BrokenImageError(str(error)) from error
        return ImageContent(
            pixels=self._pixels(found),
            width=self.window.width,
            height=self.window.height,
            fingerprint="",  # the source adds it: it is that of the scene
            metadata=_metadata(self.window),
            bbox=footprint.bbox,
            footprint=footprint.wkb,
            date=self.window.scene.date,
        )

    def may_be_there(self) -> bool:
        """Whether the first file of its scene is there; True on a server."""
        href = self.window.scene.hrefs[0]
        return is_remote(href) or os.path.lexists(href)

    def absolute(self) -> "WindowImage":
        """The same: paths of scenes are absolute."""
        return self

    def reading_threads(self, threads: int | None) -> int | None:
        """More threads for scenes on a server, which wait for most of the time."""
        return many_threads(threads) if is_remote(self.window.scene.hrefs[0]) else threads

    def _footprint(self) -> Footprint:
        try:
            return _footprints(self.beside)[self.beside.index(self.window)]
        except DataError:  # of any of them
            return footprints_of([self.window])[0]

    def _pixels(self, found: WindowPixels) -> np.ndarray:
        # With the bands of a pixel side by side, as in decoded files: resizing is four times as fast.
        return np.ascontiguousarray(convert_pixels(found.padded(self.size).pixels))


@lru_cache(maxsize=64)  # each thread reads the windows of one group after the other
def _footprints(windows: tuple[Window, ...]) -> list[Footprint]:
    return footprints_of(windows)


def _pixel_format(scene: Scene) -> PixelFormat:
    return PixelFormat(len(scene.bands), decoded_dtype(np.dtype(scene.dtype)))


def _mismatch(scene: Scene, model: PixelFormat, trained: bool) -> str:
    """Why a model cannot read a scene; empty if it can."""
    found = _pixel_format(scene)
    other = "Give a model of such scenes" if trained else "Index such scenes into another store"
    if found.bands not in (1, model.bands):
        several = ",".join(str(number + 1) for number in range(model.bands))
        takes = "the model takes" if trained else "the features of ImageNet in this store are of"
        enough = len(scene.file_bands) >= model.bands
        advice = f"Choose {model.bands} of them, such as --bands {several}" if enough else other
        return f"{scene.id}: {found.bands} bands, and {takes} {model.bands}. {advice}."
    if found.dtype != model.dtype:
        takes = "the model was trained on" if trained else "the features of ImageNet in this store are of"
        return (
            f"{scene.id}: pixels of {scene.dtype}, and {takes} {model.dtype}. {other}, or convert them with "
            "gdal_translate -ot -scale."
        )
    return ""


def _metadata(window: Window) -> dict[str, Any]:
    """What is known of a window beside its place; the names are `WINDOW_METADATA`."""
    scene = window.scene
    metadata = {
        "scene": scene.id,
        "crs": scene.crs,
        "metres_per_pixel": round(math.sqrt(math.prod(window.ground_resolution)), 6),
    }
    return metadata if scene.time is None else {**metadata, "time": scene.time.isoformat()}


def _commonest(lines: Iterable[str]) -> str:
    """The first of the lines that differ from most others in names and numbers only."""
    kinds: dict[str, list[str]] = {}
    for line in lines:
        kinds.setdefault(_NAMES.sub("", line), []).append(line)
    return max(kinds.values(), key=len)[0]


def _as_recorded(scene: Scene, stored: str) -> str | None:
    """The fingerprint of a scene now, if its files, bands and time are those that were stored."""
    try:
        size, modified, described, content = stored.split("-", 3)
        recorded = Fingerprint(int(size, 16), int(modified, 16), unquote(content))
    except ValueError:
        return None
    if described != _described(scene) or not is_up_to_date(scene, recorded):
        return None
    return _to_text(scene, recorded.content)


def _to_text(scene: Scene, content: str) -> str:
    """A fingerprint as it is stored, without colons."""
    now = scene.fingerprint
    return f"{now.size:x}-{now.modified:x}-{_described(scene)}-{quote(content, safe='')}"


def _described(scene: Scene) -> str:
    """A hash of what else the rows of a scene depend on: its bands and its time."""
    bands = [(band.href.rpartition("/")[2], band.index) for band in scene.bands]
    return hashlib.blake2b(repr((bands, scene.time)).encode(), digest_size=6).hexdigest()


def _content(scene: Scene) -> str:
    """The hash of a scene's content; empty if its files are not those that were listed any more."""
    try:
        content = content_hash(scene)
        now = fingerprint_of(scene.hrefs)
    except DataError:
        return ""
    return content if replace(now, content="") == replace(scene.fingerprint, content="") else ""
