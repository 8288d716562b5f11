"""Read the pixels of windows; a scene is opened once for many of them."""

import math
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from marcir.checks import check_fraction, check_int
from marcir.errors import BrokenImageError, needs
from marcir.geo.datasets import broken_as, environment, open_dataset
from marcir.geo.scene import Scene
from marcir.geo.windows import Window

with needs("geo"):
    from rasterio import windows as rasterio_windows
    from rasterio.enums import Resampling
    from rasterio.io import DatasetReader

CACHE_BYTES = 256 << 20
OPEN_FILES = 16


@dataclass(frozen=True, eq=False)
class WindowPixels:
    """The pixels of a window.

    Attributes:
        window: The window.
        pixels: In the scene's dtype and units, missing ones 0 in all bands. In memory each band is
            contiguous, as GDAL and torch have it; this is a view with the bands last. (H, W, C)
        mask: Which pixels have data: in any band, and finite in all. (H, W)
    """

    window: Window
    pixels: np.ndarray
    mask: np.ndarray

    @property
    def missing(self) -> float:
        """Share of pixels without data, 0 to 1."""
        return 1 - float(np.count_nonzero(self.mask)) / self.mask.size

    def padded(self, size: int) -> "WindowPixels":
        """Pixels and mask mirrored at the right and lower edge up to `size` x `size`."""
        rows, columns = self.mask.shape
        if rows >= size and columns >= size:
            return self
        lack = ((0, max(0, size - rows)), (0, max(0, size - columns)))
        bands = np.pad(self.pixels.transpose(2, 0, 1), ((0, 0), *lack), mode="symmetric")
        return WindowPixels(self.window, bands.transpose(1, 2, 0), np.pad(self.mask, lack, mode="symmetric"))


class WindowReader:
    """Reads windows of any scenes, from any thread.

    Each thread and each process keeps the last files open. Overviews are used when windows have a coarser
    resolution than their scene.

    Args:
        cache_bytes: Size of GDAL's cache of blocks, which is shared by the process.
        open_files: Number of files that each thread keeps open.

    Example:
        with WindowReader() as reader:
            for window in windows_of(scene, WindowGrid(256)):
                pixels = reader.read(window).padded(256).pixels   # (256, 256, C)
    """

    def __init__(self, cache_bytes: int = CACHE_BYTES, open_files: int = OPEN_FILES) -> None:
        self.cache_bytes = check_int("cache_bytes", cache_bytes, 1)
        self.open_files = check_int("open_files", open_files, 1)
        self._local = threading.local()

    def read(self, window: Window) -> WindowPixels:
        """Read one window, without padding.

        Raises:
            BrokenImageError: If the file cannot be read, or is no longer the scene that was listed.
        """
        scene = window.scene
        parts = [self._read_file(href, window) for href in scene.hrefs]
        values, mask = parts[0]
        if len(parts) > 1:
            values = np.concatenate([part for part, _ in parts])[_places(scene)]
            mask = np.logical_or.reduce([valid for _, valid in parts])
        if values.dtype.kind == "f" and not (np.isfinite(values.min()) and np.isfinite(values.max())):
            mask = mask & np.isfinite(values).all(0)
        if not mask.all():
            values[:, ~mask] = 0
        return WindowPixels(window, values.transpose(1, 2, 0), mask)

    def close(self) -> None:
        """Close the files of the calling thread; those of another thread are closed when it ends."""
        if files := vars(self._local).pop("files", None):
            files.close()

    def __enter__(self) -> "WindowReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"cache_bytes": self.cache_bytes, "open_files": self.open_files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the other process opens files of its own

    def _read_file(self, href: str, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Values (C, H, W) of the bands of one file, and which pixels have data (H, W)."""
        scene = window.scene
        dataset = self._dataset(href, scene)
        indexes = [band.index for band in scene.bands if band.href == href]
        options = _options(window)
        with broken_as(href):
            values = dataset.read(indexes, **options)
            if scene.has_mask:
                mask = dataset.read_masks(indexes[:1], **options)[0] > 0
                values[:, ~mask] = 0
                return values, mask
        if scene.nodata is None or math.isnan(scene.nodata):  # NaN is missing in any case, see `read`
            return values, np.ones(values.shape[1:], bool)
        mask = values[0] != scene.nodata
        if not mask.all():  # the first band decides nearly always
            mask = (values != scene.nodata).any(0)
        if values.dtype.kind != "u":  # -9999 in one band is no value; 255 may be one
            values[values == scene.nodata] = 0
        return values, mask

    def _dataset(self, href: str, scene: Scene) -> DatasetReader:
        files = getattr(self._local, "files", None)
        if files is None or files.process != os.getpid():  # a forked process must not share file positions
            files = self._local.files = _OpenFiles(self.cache_bytes)
        datasets = files.datasets
        if href in datasets:
            datasets.move_to_end(href)
            return datasets[href]
        dataset = open_dataset(href)
        if (dataset.width, dataset.height, dataset.dtypes[0]) != (scene.width, scene.height, scene.dtype):
            dataset.close()
            raise BrokenImageError(f"{href}: changed after it was listed. Start again.")
        while len(datasets) >= self.open_files:
            datasets.popitem(last=False)[1].close()
        datasets[href] = dataset
        return dataset


@dataclass
class WindowCounts:
    """What became of windows, by id of their scene.

    Attributes:
        read: Number of windows that were read.
        skipped: Number of windows in which too many pixels were missing.
        broken: One line for each scene that could not be read.
    """

    read: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> dict[str, str]:
        """One line for each scene of which every window was skipped."""
        return {
            scene: f"{scene}: too many pixels are missing in all of its {count} windows (--nodata-max)."
            for scene, count in self.skipped.items()
            if not self.read[scene] and scene not in self.broken
        }


def read_windows(
    reader: WindowReader,
    windows: Iterable[Window],
    nodata_max: float = 1.0,
    counts: WindowCounts | None = None,
) -> Iterator[WindowPixels]:
    """Read windows in turn; skip and count those with a larger share of missing pixels than `nodata_max`.

    The share is of the pixels inside the scene. After the first window of a scene that cannot be read, the
    scene's other windows are left out, and `counts.broken` has its line.
    """
    check_fraction("nodata_max", nodata_max)
    counts = WindowCounts() if counts is None else counts
    for window in windows:
        if window.scene.id in counts.broken:
            continue
        try:
            found = reader.read(window)
        except BrokenImageError as error:
            counts.broken[window.scene.id] = str(error)
            continue
        if found.missing > nodata_max:
            counts.skipped[window.scene.id] += 1
            continue
        counts.read[window.scene.id] += 1
        yield found


class _OpenFiles:
    """The files that one thread has open, and its settings of GDAL.

    The settings stay for as long as the files: entering them takes a tenth of the time of reading a window.
    """

    def __init__(self, cache_bytes: int) -> None:
        self.process = os.getpid()
        self.datasets: OrderedDict[str, DatasetReader] = OrderedDict()
        self._environment = environment(cache_bytes)
        self._environment.__enter__()

    def close(self) -> None:
        """Close the files and leave the settings."""
        for dataset in self.datasets.values():
            dataset.close()
        self._environment.__exit__()


def _options(window: Window) -> dict[str, Any]:
    """Where rasterio reads a window, and how it resamples."""
    where = rasterio_windows.Window(*window.source)
    if (where.width, where.height) == (window.width, window.height):
        return {"window": where}
    coarser = where.width > window.width or where.height > window.height
    return {
        "window": where,
        "out_shape": (window.height, window.width),
        "resampling": Resampling.average if coarser else Resampling.bilinear,
    }


def _places(scene: Scene) -> list[int]:
    """Where each band is when bands are read file by file."""
    order = [band for href in scene.hrefs for band in scene.bands if band.href == href]
    return [order.index(band) for band in scene.bands]
