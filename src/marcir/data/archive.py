"""An archive: the ids, paths and labels of its images."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from marcir.catalog import create_reader
from marcir.data.images import PixelFormat, read_image, read_pixel_format
from marcir.data.label_csv import Unlisted
from marcir.errors import ConfigError, DataError
from marcir.files import cache_folder, refuse_address
from marcir.labels import LabelVocabulary


class PixelSource(ABC):
    """Reads images that are not files of their own, such as windows of scenes, by id.

    Attributes:
        files: The files that the pixels come from; cached images are checked again when one changes.
        key: Changes with everything else that the pixels depend on, such as the bands.
    """

    files: tuple[Path, ...]
    key: str

    @abstractmethod
    def read(self, image: str) -> np.ndarray:
        """The pixels of an image; errors are those of `read_image`. (H, W, C)"""

    @abstractmethod
    def pixel_format(self, image: str) -> PixelFormat:
        """The pixel format of an image, without reading it."""


@dataclass(frozen=True)
class Place:
    """Where an image is, for splits by blocks of space.

    Attributes:
        block: The block; all its images are in one part of a split.
        shared: Other blocks that have images of some of the same ground.
    """

    block: str
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Archive:
    """The images of an archive with their labels, in a fixed order.

    Attributes:
        name: The dataset's name.
        root: The archive's folder.
        ids: One id per image: its file name in a published dataset, its path in your own.
        paths: The image files. Images that are not files of their own have the file that they lie in.
        labels: Multi-hot labels, bool; where some are unknown, int8: 1 present, 0 absent, -1 unknown. (N, L)
        vocabulary: The names of the labels.
        split_sizes: Published sizes of the training, validation and test parts of a complete archive.
        unlisted: What labels are that the label table does not list; `labels` already follow it.
        lists_labels: Whether the label table lists names, so that it may leave some out.
        pixels: Reads images that are not files of their own.
        places: Where each image is; empty for an archive that is not split by blocks of space.
    """

    name: str
    root: Path
    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: Tensor
    vocabulary: LabelVocabulary
    split_sizes: tuple[int, int, int] | None = None
    unlisted: Unlisted = "absent"
    lists_labels: bool = False
    pixels: PixelSource | None = None
    places: tuple[Place, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, position: int) -> np.ndarray:
        """The image at a position. (H, W, C)"""
        if self.pixels is not None:
            return self.pixels.read(self.ids[position])
        return read_image(self.paths[position])

    def pixel_format(self, position: int) -> PixelFormat:
        """The pixel format of the image at a position, without reading it."""
        if self.pixels is not None:
            return self.pixels.pixel_format(self.ids[position])
        return read_pixel_format(self.paths[position])

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the images come from."""
        return self.paths if self.pixels is None else self.pixels.files

    def without(self, ids: Collection[str]) -> "Archive":
        """The archive without some of its images.

        Raises:
            DataError: If an id is not in the archive.
        """
        unknown = next((image for image in ids if image not in self.position_of), None)
        if unknown is not None:
            raise DataError(f"{self.root}: there is no image '{unknown}' to leave out.")
        if not ids:
            return self
        remaining = [position for position, image in enumerate(self.ids) if image not in ids]
        return replace(
            self,
            ids=tuple(self.ids[position] for position in remaining),
            paths=tuple(self.paths[position] for position in remaining),
            labels=self.labels[remaining],
            split_sizes=None,
            places=tuple(self.places[position] for position in remaining) if self.places else (),
        )

    @property
    def has_unknown(self) -> bool:
        """Whether a label of an image is unknown."""
        return bool((self.labels < 0).any())

    @cached_property
    def position_of(self) -> dict[str, int]:
        """Positions by id."""
        return {image: position for position, image in enumerate(self.ids)}

    @cached_property
    def label_checksum(self) -> str:
        """A checksum of ids, label names and labels, independent of their order."""
        digest = hashlib.sha256()
        order = np.argsort(np.array(self.ids, dtype=object), kind="stable")
        columns = np.argsort(np.array(self.vocabulary.names, dtype=object), kind="stable")
        for name in (self.vocabulary[k] for k in columns):
            digest.update(_bytes(name) + b"\0")
        table = self.labels.numpy()[:, columns]
        for position in order:
            # One byte per label. Known labels have the same bytes as bool and as int8.
            digest.update(_bytes(self.ids[position]) + b"\0" + table[position].tobytes())
        return digest.hexdigest()


def open_archive(
    dataset: str,
    root: str | Path | None,
    labels: str | Path | None = None,
    unlisted: Unlisted | None = None,
) -> Archive:
    """Read an archive by the name of its dataset.

    Args:
        dataset: The dataset's name.
        root: The archive's folder; only `scenes` has a default.
        labels: A label table outside the folder.
        unlisted: What labels are that the table does not list; by default what it says itself, else absent.

    Raises:
        ConfigError: For an unknown dataset, or a missing `root`.
        DataError: If the folder is not such an archive, or has no images.
    """
    reader = create_reader(dataset)
    if root is None:
        if dataset != "scenes":
            raise ConfigError(f"dataset '{dataset}' needs --root, the folder with: {reader.LAYOUT}.")
        root = cache_folder() / "scenes"
    refuse_address("--root", root)
    root = Path(root)
    if dataset != "scenes" and not root.is_dir():
        raise DataError(f"{dataset}: root={root} is not a folder. Expected there: {reader.LAYOUT}.")
    archive = reader.read(root, labels, unlisted)
    if not len(archive):
        raise DataError(f"{dataset}: the label table of {root} lists no images.")
    return archive


def _bytes(name: str) -> bytes:
    """Encode as UTF-8, including lone surrogates (Python's form of file names that are not UTF-8)."""
    return name.encode("utf-8", "surrogatepass")


def image_files(folder: Path, suffixes: frozenset[str]) -> list[Path]:
    """Files with these suffixes below a folder, sorted; follows links, skips hidden files."""
    files, visited = [], set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        if (real := Path(parent).resolve()) in visited:
            folders.clear()  # a link to a folder already visited, perhaps to a parent
            continue
        visited.add(real)
        paths = (Path(parent, name) for name in names if not name.startswith("."))
        files += [path for path in paths if path.suffix.lower() in suffixes and path.is_file()]
    return sorted(files)


def images_by_stem(folder: Path, suffixes: frozenset[str]) -> dict[str, Path]:
    """Image files anywhere below a folder, by file name without suffix; two of one name are an error."""
    paths: dict[str, Path] = {}
    for path in image_files(folder, suffixes):
        if path.stem in paths:
            raise DataError(f"{path} and {paths[path.stem]} are both named '{path.stem}'. Keep one.")
        paths[path.stem] = path
    return paths
