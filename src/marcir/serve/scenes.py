"""The scenes of a service: windows with their surroundings, and the files of scenes."""

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from marcir.data.image_source import WindowCut
from marcir.errors import BrokenImageError, ConfigError, DataError, MissingImageError
from marcir.figures.samples import display_bytes
from marcir.geo.listing import fingerprint_of, list_scenes
from marcir.geo.reading import WindowReader
from marcir.geo.scene import Scene, is_remote
from marcir.geo.windows import Window, grid_size, parse_window_id, window_from_id
from marcir.search.records import About
from marcir.serve.errors import RequestError
from marcir.serve.image_files import OpenFile, Originals, png
from marcir.serve.request_log import escaped
from marcir.serve.schemas import BandResponse, SceneResponse

_MAX_SIDE = 2048  # pixels of a picture
_MAX_PIXELS = 100_000_000  # of the scene that are read for one picture


@dataclass(frozen=True)
class ShownWindow:
    """What a request asks for, before any pixel is read.

    Attributes:
        window: The window with its surroundings; its scene has the bands that are shown.
        tag: Changes with the picture.
    """

    window: Window
    tag: str


class ServedScenes:
    """The scenes of `--scenes`, by id. Only they are read, whatever the store or a request names.

    Args:
        source: A folder, a GeoTIFF, or a STAC item, collection or catalog.
        about: The description of the store.
        remote_assets: Whether assets of a local STAC catalog may be http(s) addresses.

    Raises:
        ConfigError: If the store was not made from scenes.
        DataError: If there are no such scenes.
    """

    def __init__(self, source: str, about: About, remote_assets: bool = False) -> None:
        if about.windows is None:
            raise ConfigError(f"--scenes {source}: the store holds images that are files. Give --images.")
        self._cut: WindowCut = about.windows
        found = list_scenes(source, self._cut.bands, remote_assets)
        self._scenes = {scene.id: scene for scene in found.scenes}
        self._reader = WindowReader()
        path = Path(source)
        folder = path if path.is_dir() else path.parent
        self._originals = None if is_remote(source) else Originals(folder)

    def has(self, image: str) -> bool:
        """Whether the scene of a window is there."""
        try:
            self._window(image)
        except MissingImageError:
            return False
        return True

    def describe(self, image: str) -> SceneResponse | None:
        """The scene of a window; None if it is not among the scenes."""
        try:
            window = self._window(image)
        except MissingImageError:
            return None
        scene = window.scene
        remote = is_remote(scene.hrefs[0])
        return SceneResponse(
            id=scene.id,
            href=scene.hrefs[0] if remote else f"/api/scene?id={quote(image, safe='')}",
            bands=[
                BandResponse(number=number, name=band.name) for number, band in enumerate(scene.file_bands, 1)
            ],
            shown=_shown(scene),
            crs=scene.crs,
            resolution=window.ground_resolution,
            window=(window.x, window.y, window.width, window.height),
            size=grid_size(scene, window.resolution),
            cut=self._cut.window,
        )

    def find(self, image: str, bands: str | None, around: int) -> ShownWindow:
        """The window of an id with its surroundings, clipped at the edge of the scene.

        Args:
            image: Id of a window of the store.
            bands: Numbers from 1, one or three; None for those of the thumbnail.
            around: How many windows of surroundings there are on each side.

        Raises:
            MissingImageError: If its scene is not there, or is another by now.
            RequestError: For other bands, or too many pixels.
        """
        window = self._window(image)
        scene = window.scene
        numbers = _shown(scene) if bands is None else _parse_bands(bands, scene)
        _check_unchanged(scene)
        margin = around * self._cut.window
        shown = _surroundings(window, margin, scene.select(numbers))
        described = repr((image, numbers, around, scene.fingerprint))
        return ShownWindow(shown, hashlib.blake2b(described.encode(), digest_size=12).hexdigest())

    def picture(self, shown: ShownWindow) -> bytes:
        """A PNG of a window, with the contrast of thumbnails.

        Raises:
            BrokenImageError: If the scene cannot be read; the text does not name its path.
        """
        try:
            return png(display_bytes(self._reader.read(shown.window).pixels))
        except BrokenImageError:
            raise BrokenImageError(f"the scene '{shown.window.scene.id}' cannot be read.") from None

    def open(self, image: str) -> OpenFile:
        """The file of the scene of a window, if it is inside the folder of the scenes.

        Raises:
            MissingImageError: If there is no such file.
        """
        window = self._window(image)
        is_local = not is_remote(window.scene.hrefs[0])
        if not is_local or self._originals is None or not isinstance(self._originals.root, Path):
            raise MissingImageError(f"the scene of '{escaped(image)}' is on a server. Use its own address.")
        href = os.path.realpath(window.scene.hrefs[0])
        try:
            return self._originals.open(Path(href).relative_to(self._originals.root).as_posix())
        except ValueError:
            raise MissingImageError(
                f"the scene of '{escaped(image)}' is not in the folder of scenes."
            ) from None

    def _window(self, image: str) -> Window:
        absent = MissingImageError(
            f"the scene of '{escaped(image)}' is not among those of --scenes, or is another by now."
        )
        try:
            window = window_from_id(self._scenes[parse_window_id(image)[0]], image)
        except (DataError, KeyError, OverflowError):
            raise absent from None
        # A store may come from anywhere: only windows of its own cut are read.
        if window.resolution != self._cut.resolution or max(window.width, window.height) > self._cut.window:
            raise absent
        return window


def _shown(scene: Scene) -> list[int]:
    """Numbers of the bands that the thumbnail of a window shows."""
    count = 3 if len(scene.bands) >= 3 else 1
    return [scene.file_bands.index(band) + 1 for band in scene.bands[:count]]


def _parse_bands(text: str, scene: Scene) -> list[int]:
    count = len(scene.file_bands)
    known = {str(number): number for number in range(1, count + 1)}
    numbers = [known.get(part) for part in text.split(",", 3)]
    found = [number for number in numbers if number is not None]
    if len(found) != len(numbers) or len(found) not in (1, 3):
        raise RequestError(422, f"bands: give one number or three, from 1 to {count}, such as 1 or 3,2,1.")
    return found


def _surroundings(window: Window, margin: int, scene: Scene) -> Window:
    """The window and so many pixels around it; coarser if it would have too many pixels to be shown."""
    columns, rows = grid_size(scene, window.resolution)
    left, top = max(0, window.x - margin), max(0, window.y - margin)
    right = min(columns, window.x + window.width + margin)
    bottom = min(rows, window.y + window.height + margin)
    larger = Window(scene, left, top, right - left, bottom - top, window.resolution)
    *_, across, down = larger.source
    if across * down > _MAX_PIXELS:
        raise RequestError(422, f"{across:,.0f} x {down:,.0f} pixels are too many. Download the scene.")
    step = max(larger.width, larger.height) / _MAX_SIDE
    if step <= 1:
        return larger
    resolution = math.sqrt(math.prod(larger.ground_resolution)) * step
    columns, rows = grid_size(scene, resolution)
    x, y = (min(int(start / step), most - 1) for start, most in ((left, columns), (top, rows)))
    width, height = (
        max(1, min(int(size / step), most - start))
        for size, most, start in ((larger.width, columns, x), (larger.height, rows, y))
    )
    return Window(scene, x, y, width, height, resolution)


def _check_unchanged(scene: Scene) -> None:
    """Refuse a file that is another than when the service was started."""
    if is_remote(scene.hrefs[0]):
        return
    try:
        same = fingerprint_of(scene.hrefs) == scene.fingerprint
    except DataError:
        same = False
    if not same:
        raise MissingImageError(f"the scene '{scene.id}' has changed since the service was started.")
