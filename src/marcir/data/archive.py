"""An archive in memory: which images there are, where, and with which labels."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from marcir.data.images import read_image
from marcir.errors import DataError
from marcir.labels import LabelVocabulary


@dataclass(frozen=True, eq=False)
class Archive:
    """The images of an archive with their labels, in a fixed order.

    Attributes:
        name: The dataset's name.
        root: The folder that was read.
        ids: One id an image: its name in a published dataset, its path in your own.
        paths: The image files.
        labels: Multi-hot labels, bool. (N, L)
        vocabulary: The names of the labels.
    """

    name: str
    root: Path
    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: Tensor
    vocabulary: LabelVocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, position: int) -> np.ndarray:
        """The image at a position. (H, W, C)"""
        return read_image(self.paths[position])

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
            digest.update(name.encode() + b"\0")
        table = self.labels.numpy()[:, columns]
        for position in order:
            digest.update(self.ids[position].encode() + b"\0" + table[position].tobytes())
        return digest.hexdigest()


def images_below(folder: Path, suffixes: frozenset[str]) -> dict[str, Path]:
    """Image files anywhere below a folder, by their name without its ending.

    Raises:
        DataError: Where two files have the same name: an image must be one file.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in suffixes or path.name.startswith("."):
            continue
        if path.stem in found:
            raise DataError(f"{path} and {found[path.stem]} are both named '{path.stem}'. Keep one.")
        found[path.stem] = path
    return found
