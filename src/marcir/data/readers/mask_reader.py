"""Datasets with segmentation masks: an image has every label that occurs in its mask."""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from marcir.data.archive import Archive, images_by_stem
from marcir.data.decode.limits import wrap_decode_errors
from marcir.data.decode.pillow import load_with_pillow
from marcir.data.images import SUFFIXES
from marcir.data.label_csv import Unlisted
from marcir.data.readers.base import DatasetReader
from marcir.errors import DataError
from marcir.files import cache_outside, fingerprint, mark_used, remove_unused
from marcir.progress import track
from marcir.schema import load, save

if TYPE_CHECKING:
    from PIL import Image

_THREADS = 8
# Part of the fingerprint: raise it when the reading of masks changes.
_VERSION = 2


class MaskReader(DatasetReader):
    """A dataset with one mask per image; the labels are cached.

    Attributes:
        MASK_FOLDER: The folder of the masks, which have the names of the images.
    """

    MASK_FOLDER: ClassVar[str]

    @abstractmethod
    def labels_of(self, mask: "Image.Image", path: Path) -> list[str]:
        """The labels that occur in a mask."""

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Pair images with masks by name, and take the labels from the masks."""
        if labels is not None:
            raise DataError(f"{self.NAME}: labels come from its masks; leave --labels out.")
        self.refuse_unlisted(unlisted)
        images = images_by_stem(self.need(root / self.IMAGE_FOLDER, root), SUFFIXES)
        masks = images_by_stem(self.need(root / self.MASK_FOLDER, root), frozenset({".png"}))
        if not images:
            raise DataError(f"{self.NAME}: there are no images in {root / self.IMAGE_FOLDER}.")
        missing = next((name for name in images if name not in masks), None)
        if missing is not None:
            raise DataError(f"{images[missing]}: its mask {self.MASK_FOLDER}/.../{missing}.png is missing.")
        ids = list(images)
        rows = self._cached_labels(root, [masks[name] for name in ids])
        return self.archive(root, ids, [images[name] for name in ids], rows)

    def _cached_labels(self, root: Path, masks: Sequence[Path]) -> list[list[str]]:
        """The labels of all masks, from the cache if no mask has changed."""
        key = fingerprint(masks, _VERSION, self.LABELS)
        file = cache_outside(root) / "masks" / f"{self.NAME}-{key}.json"
        rows = self._load_cached(file, len(masks))
        if rows is None:
            with ThreadPoolExecutor(_THREADS) as threads:
                labels = threads.map(self._labels_of_file, masks)
                rows = list(track(labels, len(masks), f"{self.NAME}: reading masks"))
            save(file, rows)
            remove_unused(file.parent)
        mark_used(file)
        return rows

    def _load_cached(self, file: Path, masks: int) -> list[list[str]] | None:
        """The labels in a cache file; None if it is missing or damaged."""
        try:
            rows = load(list[list[str]], file, "the labels of masks")
        except DataError:
            return None
        return rows if len(rows) == masks and all(set(row) <= set(self.LABELS) for row in rows) else None

    def _labels_of_file(self, path: Path) -> list[str]:
        with wrap_decode_errors(path, "a mask"), path.open("rb") as file:
            mask = load_with_pillow(file, ("PNG",))
        return self.labels_of(mask, path)

    def labels_of_values(self, values: np.ndarray, path: Path) -> list[str]:
        """Labels of an indexed mask: value v is label v of 1..L, and 0 is no label."""
        if values.size and int(values.max()) > len(self.LABELS):
            raise DataError(
                f"{path}: the mask has the value {int(values.max())}, but {self.NAME} has the labels "
                f"1 to {len(self.LABELS)}."
            )
        return [self.LABELS[value - 1] for value in values.tolist() if value]
