"""An archive as a torch dataset: images from files, or from a packed cache."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from marcir.checks import check_bool, check_int
from marcir.data.archive import Archive
from marcir.data.image_cache import checksum_of_files, load_packed, open_pack
from marcir.data.prefetch import read_batches
from marcir.data.resize import to_square
from marcir.data.validation import OnBroken, check_on_broken, leave_out_broken, require_format, without_broken
from marcir.errors import DataError

Sample = dict[str, Any]
_BATCH = 64  # files per batch


class ArchiveDataset(Dataset[Sample], ABC):
    """Square images of one size, bands and dtype with their labels, by position in the archive.

    A `torch.utils.data.Dataset`: each sample has `image` (C, S, S), `label` (L,) and `id`. Labels are
    those of `Archive.labels`, -1 for unknown ones.

    >>> loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=4)  # doctest: +SKIP

    Attributes:
        archive: The images of the dataset, without skipped broken ones.
        broken: What is wrong with skipped images, by id.
        size: Side of the images, S.
        bands: Number of bands, C.
        dtype: Type of the pixels.
    """

    archive: Archive
    broken: dict[str, str]
    size: int
    bands: int
    dtype: np.dtype

    @property
    @abstractmethod
    def checksum(self) -> str:
        """Checksum of all image files of the archive, including broken ones."""

    @abstractmethod
    def batch(self, positions: Sequence[int]) -> Tensor:
        """Read images in the source's dtype, on the CPU. (B, C, S, S)"""

    def __len__(self) -> int:
        return len(self.archive)

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(position)  # ends a loop over the dataset
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[Sample]:
        """Samples of a whole batch, fetched at once by `DataLoader`."""
        labels = self.archive.labels[list(positions)]
        names = [self.archive.ids[position] for position in positions]
        return [
            {"image": image, "label": label, "id": name}
            for image, label, name in zip(self.batch(positions), labels, names, strict=True)
        ]


def open_images(
    archive: Archive, size: int, on_broken: OnBroken = "error", packed: bool = True
) -> ArchiveDataset:
    """Open the images of an archive; positions refer to the dataset's own `archive`.

    Args:
        archive: The archive.
        size: Side of the images.
        on_broken: `error` refuses broken images, naming them; `skip` leaves them out.
        packed: Pack the images into the cache, instead of reading the files for every batch.
    """
    source = PackedImages if check_bool("packed", packed) else ImageFiles
    return source(archive, size, on_broken)


class ImageFiles(ArchiveDataset):
    """Images read from their files for every batch (`cache: off`).

    Args:
        archive: The archive.
        size: Side of the images, S.
        on_broken: `error`: a batch with a broken image raises, naming it; `skip` reads all images once
            and leaves the broken ones out of `archive`.
    """

    def __init__(self, archive: Archive, size: int, on_broken: OnBroken = "error") -> None:
        self.size = check_int("size", size, 1)
        self._all, self.archive, self.broken = archive, archive, dict[str, str]()
        if check_on_broken(on_broken) == "skip":
            self.archive, self.broken = leave_out_broken(archive, "skip")
        self.pixel_format = require_format(self.archive)
        self.bands, self.dtype = self.pixel_format.bands, self.pixel_format.dtype

    def batch(self, positions: Sequence[int]) -> Tensor:
        """Read images in the source's dtype. (B, C, S, S)"""
        images = np.empty((len(positions), self.size, self.size, self.bands), self.dtype)
        read = chain.from_iterable(read_batches(positions, self.image, _BATCH))
        for image, pixels in zip(images, read, strict=True):
            image[:] = pixels
        return torch.from_numpy(images).permute(0, 3, 1, 2)

    @cached_property
    def checksum(self) -> str:
        """Checksum of all image files; reads all of them."""
        return checksum_of_files(self._all)

    def image(self, position: int) -> np.ndarray:
        """Read and resize one image. (S, S, C)"""
        path = self.archive.paths[position]
        return to_square(self.pixel_format.fit(self.archive.read(position), path), self.size)


class PackedImages(ArchiveDataset):
    """All images of an archive in one memory-mapped file in the cache.

    The file is rebuilt when an image changes. It is written atomically, by one process at a time. Nothing
    is written into the archive's folder.

    Args:
        archive: The archive.
        size: Side of the packed images, S; 1.25 times the training size, for random crops.
        on_broken: `error` refuses an archive with broken images, naming them; `skip` leaves them out of
            `archive`.

    Attributes:
        path: The file in the cache.
    """

    def __init__(self, archive: Archive, size: int, on_broken: OnBroken = "error") -> None:
        self.size = check_int("size", size, 1)
        check_on_broken(on_broken)
        if not len(archive):
            raise DataError(f"{archive.root}: the archive has no images.")
        self.path, pack, self._images = open_pack(archive, self.size)
        self.broken, self._checksum = pack.broken, pack.checksum
        self.archive = without_broken(archive, self.broken, on_broken)
        # Rows of the images in the file, which has unused rows for broken images.
        self._rows = np.array([k for k, image in enumerate(archive.ids) if image not in self.broken])
        self.bands, self.dtype = self._images.shape[3], self._images.dtype

    def batch(self, positions: Sequence[int]) -> Tensor:
        """Read images in the source's dtype. (B, C, S, S)"""
        rows = self._rows[np.asarray(positions, dtype=np.int64)]
        return torch.from_numpy(self._images[rows]).permute(0, 3, 1, 2)

    @property
    def checksum(self) -> str:
        """Checksum of all image files."""
        return self._checksum

    def __getstate__(self) -> dict[str, Any]:
        # A worker process maps the file itself instead of receiving all images.
        return {name: value for name, value in vars(self).items() if name != "_images"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        try:
            self._images = load_packed(self.path)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: the packed images were removed ({error}). Start again.") from error
