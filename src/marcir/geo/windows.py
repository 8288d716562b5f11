"""Windows: how a scene is cut, and the id of each window.

Edge windows keep their place on the grid and end at the edge of the scene; `WindowPixels.padded` mirrors
their pixels up to the full size. So with stride = window every pixel is in exactly one window, footprints
neither overlap nor leave the scene, and neighbouring windows share no pixels across a split. Windows that
are shifted inwards would cover a strip twice (near-duplicate hits, and pixels in training and test at once),
and a scene smaller than a window needs padding all the same. Mirrored pixels, unlike black ones, look like
the scene: a model would find that windows with black borders resemble each other.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from marcir.checks import check_int, check_within
from marcir.errors import DataError, needs
from marcir.geo.scene import Scene

with needs("geo"):
    from affine import Affine

_ID = re.compile(
    r"(?P<scene>.+)@x=(?P<x>\d+),y=(?P<y>\d+),w=(?P<width>\d+),h=(?P<height>\d+)(?:,r=(?P<resolution>[\d.]+))?",
    re.DOTALL,
)
# A scene within this share of the wanted resolution is read as it is.
_SAME = 1e-3
# Resolutions that are written in an id without an exponent.
_METRES = (1e-3, 1e6)


@dataclass(frozen=True)
class WindowGrid:
    """How scenes are cut into windows.

    Attributes:
        window: Side of a window in pixels.
        stride: Pixels from one window to the next; the side of a window by default.
        resolution: Metres per pixel to read scenes at; as they are by default.

    Raises:
        ConfigError: For a side or stride below 1, or a resolution outside of 0.001 to 1,000,000.

    >>> WindowGrid(256).step
    256
    """

    window: int = 256
    stride: int | None = None
    resolution: float | None = None

    def __post_init__(self) -> None:
        check_int("window", self.window, 1)
        if self.stride is not None:
            check_int("stride", self.stride, 1)
        if self.resolution is not None:
            check_within("resolution", self.resolution, *_METRES)

    @property
    def step(self) -> int:
        """Pixels from one window to the next."""
        return self.stride or self.window


@dataclass(frozen=True)
class Window:
    """A window of a scene, in pixels of the scene as it is read (see `grid_size`).

    Attributes:
        scene: Its scene.
        x: First column.
        y: First row.
        width: Columns inside the scene.
        height: Rows inside the scene.
        resolution: Metres per pixel that were asked for; None for the scene's own pixels.
    """

    scene: Scene
    x: int
    y: int
    width: int
    height: int
    resolution: float | None = None

    @property
    def id(self) -> str:
        """Path of the scene and pixel window: `naip/2012.tif@x=0,y=256,w=256,h=256`, with `,r=10` at 10 m.

        `@`, `=` and `,` need no escape in the path of a URL, unlike `#`.
        """
        at = f"@x={self.x},y={self.y},w={self.width},h={self.height}"
        return self.scene.id + at + ("" if self.resolution is None else f",r={self.resolution:.12g}")

    @property
    def affine(self) -> Affine:
        """The geotransform of its pixels: (0, 0) is its first corner."""
        across, down = pixel_scale(self.scene, self.resolution)
        return self.scene.affine @ Affine.scale(across, down) @ Affine.translation(self.x, self.y)

    @property
    def source(self) -> tuple[float, float, float, float]:
        """First column, first row, columns and rows in the scene's own pixels."""
        if self.resolution is None:
            return self.x, self.y, self.width, self.height
        across, down = pixel_scale(self.scene, self.resolution)
        return self.x * across, self.y * down, self.width * across, self.height * down

    @property
    def ground_resolution(self) -> tuple[float, float]:
        """Metres on the ground per pixel of the window, along rows and along columns."""
        across, down = pixel_scale(self.scene, self.resolution)
        return self.scene.resolution[0] * across, self.scene.resolution[1] * down


def windows_of(scene: Scene, grid: WindowGrid) -> Iterator[Window]:
    """Windows of a scene, grouped by the blocks of its file, so that no block is decoded twice.

    With stride = window every pixel is in exactly one of them; with a smaller stride in one or more.
    """
    width, height = grid_size(scene, grid.resolution)
    across, down = pixel_scale(scene, grid.resolution)
    tall, wide = max(1, round(scene.block[0] / down)), max(1, round(scene.block[1] / across))
    columns = _groups(_starts(width, grid), wide)
    for rows in _groups(_starts(height, grid), tall):
        for group in columns:
            for y in rows:
                for x in group:
                    shape = (min(grid.window, width - x), min(grid.window, height - y))
                    yield Window(scene, x, y, *shape, grid.resolution)


def count_windows(scene: Scene, grid: WindowGrid) -> int:
    """Number of windows of a scene."""
    width, height = grid_size(scene, grid.resolution)
    return len(_starts(width, grid)) * len(_starts(height, grid))


def grid_size(scene: Scene, resolution: float | None = None) -> tuple[int, int]:
    """Width and height of a scene in pixels, read at a resolution."""
    if resolution is None:
        return scene.width, scene.height
    width, height = (
        size if abs(own / resolution - 1) < _SAME else max(1, round(size * own / resolution))
        for size, own in zip((scene.width, scene.height), scene.resolution, strict=True)
    )
    return width, height


def pixel_scale(scene: Scene, resolution: float | None = None) -> tuple[float, float]:
    """Pixels of the scene, across and down, per pixel that is read.

    Whole pixels cover the scene exactly, so the ground resolution may differ from the wanted one by half a
    pixel over the width of the scene.
    """
    width, height = grid_size(scene, resolution)
    return scene.width / width, scene.height / height


def parse_window_id(window_id: str) -> tuple[str, tuple[int, int, int, int], float | None]:
    """Split the id of a window: scene; x, y, width and height; resolution.

    Raises:
        DataError: If it is not the id of a window.

    >>> parse_window_id("naip/2012.tif@x=0,y=256,w=256,h=200,r=10")
    ('naip/2012.tif', (0, 256, 256, 200), 10.0)
    """
    match = _ID.fullmatch(window_id)
    try:
        if match is None:
            raise ValueError
        x, y, width, height = (int(match[name]) for name in ("x", "y", "width", "height"))
        resolution = None if match["resolution"] is None else float(match["resolution"])
    except ValueError:
        raise DataError(
            f"'{window_id}': not the id of a window, such as a.tif@x=0,y=0,w=256,h=256."
        ) from None
    return match["scene"], (x, y, width, height), resolution


def window_from_id(scene: Scene, window_id: str) -> Window:
    """The window with this id.

    Raises:
        DataError: If it is not the id of a window inside this scene.
    """
    name, (x, y, width, height), resolution = parse_window_id(window_id)
    all_columns, all_rows = grid_size(scene, resolution or None)
    inside = width > 0 and height > 0 and x + width <= all_columns and y + height <= all_rows
    if name != scene.id or not inside:
        raise DataError(
            f"'{window_id}': not inside {scene.id}, which has {all_columns} x {all_rows} pixels at that "
            "resolution. Index the scene again."
        )
    return Window(scene, x, y, width, height, resolution or None)


def _starts(extent: int, grid: WindowGrid) -> range:
    """First pixels of windows along one axis: the last is the first window that reaches the edge."""
    last = max(0, -(-(extent - grid.window) // grid.step)) * grid.step
    return range(0, min(last, extent - 1) + 1, grid.step)


def _groups(starts: range, block: int) -> list[list[int]]:
    """Starts that lie in the same block."""
    groups: dict[int, list[int]] = {}
    for start in starts:
        groups.setdefault(start // block, []).append(start)
    return list(groups.values())
