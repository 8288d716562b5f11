"""Datasets whose labels are in masks: a label is present if any pixel has it."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image

from marcir.data.archive import Archive, images_below
from marcir.data.cache import cache_folder, written_whole
from marcir.data.dataset import DatasetReader
from marcir.data.images import SUFFIXES
from marcir.errors import BrokenImageError, DataError
from marcir.progress import track

_THREADS = 8


class MaskReader(DatasetReader):
    """A dataset with one mask an image, read once and kept in the cache.

    Attributes:
        IMAGE_FOLDER: The folder of the images, at any depth below it.
        MASK_FOLDER: The folder of the masks, named as the images.
    """

    IMAGE_FOLDER: ClassVar[str]
    MASK_FOLDER: ClassVar[str]

    @abstractmethod
    def labels_of(self, mask: Image.Image, path: Path) -> list[str]:
        """The labels that a mask shows."""

    def read(self, root: Path, labels: Path | None = None) -> Archive:
        """Pair images with masks by name, and take the labels from the masks."""
        if labels is not None:
            raise DataError(f"{self.NAME}: labels come from its masks; leave --labels out.")
        images = images_below(self.need(root / self.IMAGE_FOLDER, root), SUFFIXES)
        masks = images_below(self.need(root / self.MASK_FOLDER, root), frozenset({".png"}))
        if not images:
            raise DataError(f"{self.NAME}: there are no images in {root / self.IMAGE_FOLDER}.")
        without = next((name for name in images if name not in masks), None)
        if without is not None:
            raise DataError(f"{images[without]}: its mask {self.MASK_FOLDER}/.../{without}.png is missing.")
        ids = list(images)
        rows = self._cached_labels([masks[name] for name in ids])
        return self.archive(root, ids, [images[name] for name in ids], rows)

    def _cached_labels(self, masks: Sequence[Path]) -> list[list[str]]:
        file = cache_folder() / "masks" / f"{self.NAME}-{_fingerprint(masks)}.json"
        if file.is_file():
            kept: list[list[str]] = json.loads(file.read_text("utf-8"))
            return kept
        with ThreadPoolExecutor(_THREADS) as threads:
            found = threads.map(self._labels_of_file, masks)
            rows = list(track(found, len(masks), f"{self.NAME}: reading masks"))
        with written_whole(file) as temporary:
            temporary.write_text(json.dumps(rows), "utf-8")
        return rows

    def _labels_of_file(self, path: Path) -> list[str]:
        try:
            with Image.open(path) as mask:
                mask.load()
                return self.labels_of(mask, path)
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise BrokenImageError(f"{path}: the mask cannot be read ({error}).") from error

    def labels_of_values(self, values: np.ndarray, path: Path) -> list[str]:
        """Labels of an indexed mask, whose value v is label v of 1..L; 0 is nothing."""
        if values.size and int(values.max()) > len(self.LABELS):
            raise DataError(
                f"{path}: the mask has the value {int(values.max())}, but {self.NAME} has the labels "
                f"1 to {len(self.LABELS)}."
            )
        return [self.LABELS[value - 1] for value in values.tolist() if value]


def _fingerprint(masks: Sequence[Path]) -> str:
    """Changes when a mask is added, removed, replaced or edited."""
    digest = hashlib.sha256()
    for path in masks:
        status = path.stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:24]
