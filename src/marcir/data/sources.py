"""Batches of images, from files or from a packed cache that training need not wait for."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from marcir.data.archive import Archive
from marcir.data.cache import cache_folder, written_whole
from marcir.data.images import fit_bands, read_image
from marcir.data.resize import to_square
from marcir.errors import BrokenImageError, DataError
from marcir.progress import track

OnBroken = Literal["error", "skip"]
_THREADS = 4
# How many broken images an error names.
_NAMED = 10
# Part of the fingerprint: a cache of another way of packing is not read.
_VERSION = 1


class ImageSource(Protocol):
    """Square images of one size, bands and dtype, by position in the archive."""

    size: int
    bands: int

    def batch(self, positions: Sequence[int]) -> Tensor:
        """Images in the source's dtype. (B, C, S, S)"""
        ...


class ImageFiles:
    """Images read from their files for every batch (`cache: off`).

    Args:
        archive: Where the files are.
        size: Side of the images, S.
    """

    def __init__(self, archive: Archive, size: int) -> None:
        self.archive = archive
        self.size = size
        first = first_readable(archive)
        self.bands, self.dtype = first.shape[2], first.dtype

    def batch(self, positions: Sequence[int]) -> Tensor:
        """Images in the source's dtype. (B, C, S, S)"""
        images = [self.image(position) for position in positions]
        return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)

    def image(self, position: int) -> np.ndarray:
        """One image at the source's size. (S, S, C)"""
        path = self.archive.paths[position]
        image = fit_bands(read_image(path), self.bands, path)
        if image.dtype != self.dtype:
            raise BrokenImageError(f"{path}: its pixels are {image.dtype}, the archive's are {self.dtype}.")
        return to_square(image, self.size)


class PackedImages:
    """All images of an archive in one memory-mapped file in the cache, made once.

    The file is rebuilt when an image changes; it is written beside and renamed, and of two processes that
    start at once one packs while the other waits. Nothing is written into the archive's folder.

    Args:
        archive: What to pack.
        size: Side of the packed images, S; 1.25 times the training size leaves room for crops.
        on_broken: `error` refuses an archive with broken images, naming them; `skip` leaves them black
            and lists them in `broken`.

    Attributes:
        broken: What is wrong with each broken image, by id.
    """

    def __init__(self, archive: Archive, size: int, on_broken: OnBroken = "error") -> None:
        self.size = size
        self.path = cache_folder() / "packed" / f"{archive.name}-{size}-{fingerprint(archive, size)}.npy"
        if not self.path.is_file():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock")):
                if not self.path.is_file():
                    self._pack(archive)
        self.broken: dict[str, str] = json.loads(self._notes.read_text("utf-8"))
        if on_broken == "error":
            refuse_broken(self.broken)
        self.images = np.load(self.path, mmap_mode="r")  # (N, S, S, C)
        self.bands = self.images.shape[3]

    def batch(self, positions: Sequence[int]) -> Tensor:
        """Images in the source's dtype. (B, C, S, S)"""
        return torch.from_numpy(self.images[np.asarray(positions, dtype=np.int64)]).permute(0, 3, 1, 2)

    def _pack(self, archive: Archive) -> None:
        files = ImageFiles(archive, self.size)
        shape = (len(archive), self.size, self.size, files.bands)
        broken: dict[str, str] = {}
        with written_whole(self.path) as temporary:
            packed = np.lib.format.open_memmap(temporary, "w+", files.dtype, shape)

            def pack(position: int) -> None:
                try:
                    packed[position] = files.image(position)
                except BrokenImageError as error:
                    broken[archive.ids[position]] = str(error)

            with ThreadPoolExecutor(_THREADS) as threads:
                for _ in track(threads.map(pack, range(len(archive))), len(archive), "packing images"):
                    pass
            packed.flush()
            # The notes first: where the images are, the notes are.
            with written_whole(self._notes) as notes:
                notes.write_text(json.dumps(broken, ensure_ascii=False), "utf-8")

    @property
    def _notes(self) -> Path:
        return self.path.with_suffix(".json")


def first_readable(archive: Archive) -> np.ndarray:
    """The first image that can be read: it says what bands and dtype the archive has."""
    problem: BrokenImageError | None = None
    for position in range(len(archive)):
        try:
            return archive.read(position)
        except BrokenImageError as error:
            problem = problem or error
    raise problem or DataError(f"{archive.root}: the archive has no images.")


def broken_images(archive: Archive) -> dict[str, str]:
    """What is wrong with every image that cannot be used, by id; reads all of them."""
    first = first_readable(archive)

    def problem(position: int) -> str | None:
        try:
            image = fit_bands(archive.read(position), first.shape[2], archive.paths[position])
        except BrokenImageError as error:
            return str(error)
        if image.dtype != first.dtype:
            return (
                f"{archive.paths[position]}: its pixels are {image.dtype}, the archive's are {first.dtype}."
            )
        return None

    with ThreadPoolExecutor(_THREADS) as threads:
        found = list(track(threads.map(problem, range(len(archive))), len(archive), "reading images"))
    return {image: text for image, text in zip(archive.ids, found, strict=True) if text is not None}


def refuse_broken(broken: Mapping[str, str]) -> None:
    """One error for all broken images, with what to do."""
    if broken:
        named = " ".join(sorted(broken.values())[:_NAMED])
        more = f" ... and {len(broken) - _NAMED} more." if len(broken) > _NAMED else ""
        raise DataError(
            f"{len(broken)} broken image(s): {named}{more} "
            "Mend them, or leave them out with --on-broken skip."
        )


def fingerprint(archive: Archive, size: int) -> str:
    """Changes when an image is added, removed, replaced or edited, and with the size."""
    digest = hashlib.sha256(f"{_VERSION} {size}".encode())
    for path in archive.paths:
        status = Path(path).stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:24]
