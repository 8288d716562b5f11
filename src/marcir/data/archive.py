"""An archive in memory: which images there are, where, and with which labels."""

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from marcir.catalog import create_reader
from marcir.data.images import read_image
from marcir.errors import ConfigError, DataError
from marcir.files import cache_folder
from marcir.labels import LabelVocabulary


@dataclass(frozen=True, eq=False)
class Archive:
    """The images of an archive with their labels, in a fixed order.

    Attributes:
        name: The dataset's name.
        root: The folder that was read.
        ids: One id per image: its name in a published dataset, its path in your own.
        paths: The image files.
        labels: Multi-hot labels, bool. (N, L)
        vocabulary: The names of the labels.
        split_sizes: Published sizes of the training, validation and test parts of a complete archive.
    """

    name: str
    root: Path
    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: Tensor
    vocabulary: LabelVocabulary
    split_sizes: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, position: int) -> np.ndarray:
        """The image at a position. (H, W, C)"""
        return read_image(self.paths[position])

    def without(self, ids: Collection[str]) -> "Archive":
        """The archive without some of its images.

        Raises:
            DataError: Where an id is not in the archive.
        """
        unknown = next((image for image in ids if image not in self.position_of), None)
        if unknown is not None:
            raise DataError(f"{self.root}: there is no image '{unknown}' to leave out.")
        if not ids:
            return self
        left = [position for position, image in enumerate(self.ids) if image not in ids]
        return replace(
            self,
            ids=tuple(self.ids[position] for position in left),
            paths=tuple(self.paths[position] for position in left),
            labels=self.labels[left],
            split_sizes=None,
        )

    @cached_property
    def position_of(self) -> dict[str, int]:
        """From ids to positions."""
        return {image: position for position, image in enumerate(self.ids)}

    @cached_property
    def label_checksum(self) -> str:
        """A fingerprint of ids, label names and labels: equal tables have equal ones, in any order."""
        digest = hashlib.sha256()
        order = np.argsort(np.array(self.ids, dtype=object), kind="stable")
        columns = np.argsort(np.array(self.vocabulary.names, dtype=object), kind="stable")
        for name in (self.vocabulary[k] for k in columns):
            digest.update(_bytes(name) + b"\0")
        table = self.labels.numpy()[:, columns]
        for position in order:
            digest.update(_bytes(self.ids[position]) + b"\0" + table[position].tobytes())
        return digest.hexdigest()


def open_archive(dataset: str, root: str | Path | None, labels: str | Path | None = None) -> Archive:
    """Read an archive by the name of its dataset; only `scenes` has a folder of its own.

    Args:
        dataset: The dataset's name.
        root: The archive's folder.
        labels: A label table elsewhere than in the folder.

    Raises:
        ConfigError: For an unknown dataset, or one without a folder.
        DataError: Where the folder holds something else, or no images.
    """
    reader = create_reader(dataset)
    if root is None:
        if dataset != "scenes":
            raise ConfigError(f"dataset '{dataset}' needs --root, the folder with: {reader.LAYOUT}.")
        root = cache_folder() / "scenes"
    root = Path(root)
    if dataset != "scenes" and not root.is_dir():
        raise DataError(f"{dataset}: root={root} is not a folder. Expected there: {reader.LAYOUT}.")
    archive = reader.read(root, labels)
    if not len(archive):
        raise DataError(f"{dataset}: the label table of {root} names no images.")
    return archive


def _bytes(name: str) -> bytes:
    """UTF-8, also of file names that are not (Python reads their bytes as lone surrogates)."""
    return name.encode("utf-8", "surrogatepass")


def image_files(folder: Path, suffixes: frozenset[str]) -> list[Path]:
    """Files of these endings below a folder, in order; links are followed, hidden files left out."""
    found, seen = [], set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        if (real := Path(parent).resolve()) in seen:
            folders.clear()  # a link to a folder that is read already, perhaps to one above
            continue
        seen.add(real)
        paths = (Path(parent, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix.lower() in suffixes and path.is_file()]
    return sorted(found)


def images_below(folder: Path, suffixes: frozenset[str]) -> dict[str, Path]:
    """Image files anywhere below a folder, by their name without its ending.

    Raises:
        DataError: Where two files have the same name: an image must be one file.
    """
    found: dict[str, Path] = {}
    for path in image_files(folder, suffixes):
        if path.stem in found:
            raise DataError(f"{path} and {found[path.stem]} are both named '{path.stem}'. Keep one.")
        found[path.stem] = path
    return found
