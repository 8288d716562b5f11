"""What can be indexed: a source lists images, and each image can be pickled and reads itself.

A source is a folder of files (`ImageFolder`), or scenes that are cut into windows
(`marcir.geo.SceneArchive`).
"""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from marcir.data.images import PixelFormat
from marcir.schema import record

# Why an image has no content: its bytes are those of the row in the store, or too many pixels are missing.
Omitted = Literal["unchanged", "skipped"]
# What the metadata of a window have of its scene.
WINDOW_METADATA = ("scene", "crs", "metres_per_pixel", "time")


def moment_of(metadata: Mapping[str, Any]) -> datetime.datetime | None:
    """When an image was taken, by its metadata; UTC where they have no time zone, None where it is not known.

    >>> moment_of({"time": "2012-07-31T10:00:00+02:00"}).isoformat(), moment_of({"time": "noon"})
    ('2012-07-31T08:00:00+00:00', None)
    """
    try:
        time = datetime.datetime.fromisoformat(metadata["time"])
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


@record()
class WindowCut:
    """How windows were cut from scenes.

    Attributes:
        window: Side of a window in pixels.
        stride: Pixels from one window to the next.
        resolution: Metres per pixel; None for the scenes' own.
        bands: Bands by number or name; None for all.
        nodata_max: Largest share of missing pixels in a window.
    """

    window: int
    stride: int
    resolution: float | None
    bands: tuple[int | str, ...] | None
    nodata_max: float

    def __str__(self) -> str:
        return (
            f"windows of {self.window} px, stride {self.stride}, "
            f"resolution {'as it is' if self.resolution is None else f'{self.resolution:g} m'}, "
            f"bands {'all' if self.bands is None else ','.join(map(str, self.bands))}, "
            f"missing pixels up to {self.nodata_max:g}"
        )


@dataclass(frozen=True, eq=False)
class ImageContent:
    """What was read of an image.

    Attributes:
        pixels: Input of a model: the image, and perhaps mirrored pixels to the right and below. (H, W, C)
        width: Of the image, in pixels.
        height: Of the image, in pixels.
        fingerprint: Changes with the bytes that the pixels were read from.
        file: Bytes of a file that has nothing but this image; empty if there is none.
        metadata: What is known of it.
        bbox: West, south, east, north in degrees (WGS84), where known.
        footprint: Its outline as WKB (WGS84), where known.
        date: When it was taken, where known.
    """

    pixels: np.ndarray
    width: int
    height: int
    fingerprint: str
    file: bytes = b""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bbox: tuple[float, float, float, float] | None = None
    footprint: bytes | None = None
    date: datetime.date | None = None


class SourceImage(Protocol):
    """An image of a source."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def where(self) -> str:
        """What an error names."""

    @property
    def root(self) -> str:
        """The folder or address that a machine must be able to read."""

    @property
    def neighbours(self) -> int:
        """How many images in a row are best read by one thread, because they share blocks of a file."""

    def read(self) -> ImageContent | Omitted:
        """Read it.

        Raises:
            BrokenImageError: Names the file and what is wrong with it.
        """

    def may_be_there(self) -> bool:
        """Whether its file is on this machine; True where that takes a request to a server."""

    def absolute(self) -> "SourceImage":
        """The same image, for a process that works in another folder."""

    def reading_threads(self, threads: int | None) -> int | None:
        """Threads that read images like this one; `threads` unless more are faster."""


class ImageSource(ABC):
    """Lists images. Those that it cannot describe are in `broken`.

    Attributes:
        option: The option that names it on the command line.
        what: What its images are called.
        root: Where the images are, as a store records it.
        ids: Ids of the images.
        cut: How windows were cut; None for files.
        broken: One line for each part of it that cannot be read.
        notes: Remarks, one sentence each.
    """

    option: str
    what: str
    root: str
    ids: Sequence[str]
    cut: WindowCut | None = None
    broken: Mapping[str, str]
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def image(self, position: int, stored: str | None = None) -> SourceImage:
        """The image at a position.

        Args:
            position: Its position.
            stored: Fingerprint that its row was made from; None for a new image.
        """

    @abstractmethod
    def read(self, position: int) -> np.ndarray:
        """The pixels of the image at a position. (H, W, C)"""

    @abstractmethod
    def pixel_format(self, position: int) -> PixelFormat:
        """The pixel format of the image at a position, without reading it."""

    @abstractmethod
    def id_of(self, name: str) -> str:
        """The id of the image that a table names."""

    @abstractmethod
    def reading_threads(self, threads: int | None) -> int | None:
        """Threads that read its images."""

    def check_model(self, model: PixelFormat, trained: bool = True) -> None:
        """Refuse a model that cannot read its images, as far as it is known without reading them.

        Args:
            model: The pixel format that it takes.
            trained: Whether it was trained, and is not features of ImageNet alone.

        Raises:
            DataError: If it can read none of them; others are left to `broken`.
        """
        return

    def check_pixels(self) -> None:
        """Refuse images of which none can become a row, before a store is created for them.

        Raises:
            DataError: If too many pixels are missing in all of them.
        """
        return

    def group_of(self, image: str) -> str:
        """Images of one group are in the same shard."""
        return image

    def file_of(self, image: str) -> str:
        """What is named, once, if the image cannot be read."""
        return image

    def current(self, image: str, stored: str) -> str | None:
        """The fingerprint of an image now if it is known, without reading it, to be as stored; else None."""
        return None

    def fingerprint(self, image: str, read: str) -> str:
        """The fingerprint to store of an image, from that of `read`."""
        return read

    def gone(self, images: Iterable[str]) -> list[str]:
        """Of images that it does not list, those that it would list if it had them."""
        return list(images)

    def empty(self, skipped: Iterable[str]) -> list[str]:
        """One line for each file of which all images were skipped."""
        return []
