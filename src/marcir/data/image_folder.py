"""A folder of image files, or a prefix on object storage, as a source of images."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from marcir.data.archive import image_files
from marcir.data.image_source import ImageContent, ImageSource, Omitted
from marcir.data.images import (
    SUFFIXES,
    PixelFormat,
    decode_image,
    read_content,
    read_image,
    read_pixel_format,
)
from marcir.data.label_csv import path_below
from marcir.data.object_storage import ImagePath, S3Path, image_path, reading_threads
from marcir.errors import BrokenImageError, DataError


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file.

    Attributes:
        id: Path relative to the root of the archive.
        path: Where it is.
        stored: Fingerprint of the bytes that its row was made from; None for a new image.
    """

    id: str
    path: ImagePath
    stored: str | None = None

    @property
    def where(self) -> str:
        """Its path."""
        return str(self.path)

    @property
    def root(self) -> str:
        """The folder, or the prefix on object storage, that the id is relative to."""
        return str(self.path)[: -len(self.id)]

    @property
    def neighbours(self) -> int:
        """Files share nothing."""
        return 1

    def read(self) -> ImageContent | Omitted:
        """Read and decode it; a file with the stored bytes is not decoded."""
        _check_name(self.id)
        file = read_content(self.path)
        fingerprint = hashlib.blake2b(file, digest_size=16).hexdigest()
        if fingerprint == self.stored:
            return "unchanged"
        pixels = decode_image(file, self.path)
        height, width = pixels.shape[:2]
        return ImageContent(pixels, width, height, fingerprint, file)

    def may_be_there(self) -> bool:
        """Whether it is in its folder; True for an object. A link to nothing is there, but broken."""
        return isinstance(self.path, S3Path) or os.path.lexists(self.path)

    def absolute(self) -> "ImageFile":
        """The same file by its absolute path."""
        return replace(self, path=self.path.absolute())

    def reading_threads(self, threads: int | None) -> int | None:
        """More threads for objects than for files."""
        return reading_threads(self.path, threads)


class ImageFolder(ImageSource):
    """The images below a folder, or below `s3://bucket/prefix`.

    Raises:
        DataError: If it is neither, has no images, or cannot be listed.
    """

    option, what = "--images", "images"

    def __init__(self, folder: str | ImagePath) -> None:
        self.folder = image_path(folder)
        self.root = str(self.folder.absolute())
        self.ids, self.paths = images_of_folder(folder)
        self.broken = {}

    def image(self, position: int, stored: str | None = None) -> ImageFile:
        """The file at a position."""
        return ImageFile(self.ids[position], self.paths[position], stored)

    def read(self, position: int) -> np.ndarray:
        """The pixels of the file at a position. (H, W, C)"""
        return read_image(self.paths[position])

    def pixel_format(self, position: int) -> PixelFormat:
        """The pixel format of the file at a position, from its header."""
        return read_pixel_format(self.paths[position])

    def id_of(self, name: str) -> str:
        """The path of a table, relative to the folder."""
        return path_below(self.folder, name)

    def reading_threads(self, threads: int | None) -> int | None:
        """More threads for objects than for files."""
        return reading_threads(self.folder, threads)


def images_of_folder(folder: str | ImagePath) -> tuple[list[str], list[ImagePath]]:
    """Ids (relative paths) and paths of all images below a folder, or below `s3://bucket/prefix`.

    Raises:
        DataError: If it is neither, has no images, or cannot be listed.
    """
    root = image_path(folder)
    paths: list[ImagePath]
    if isinstance(root, S3Path):
        ids = _image_keys(root.keys())
        paths = [root / image for image in ids]
    elif root.is_dir():
        files = image_files(root, SUFFIXES)
        ids, paths = [path.relative_to(root).as_posix() for path in files], [*files]
    else:
        raise DataError(f"--images {folder}: not a folder, and not an address s3://bucket/prefix.")
    if not ids:
        raise DataError(f"--images {root}: no images below it ({', '.join(sorted(SUFFIXES))}).")
    return ids, paths


def _image_keys(keys: Iterable[str]) -> list[str]:
    """Keys of images, in the order and with the names that `image_files` accepts.

    >>> _image_keys(["a.png", "a/b.PNG", "a/.c.png", "labels.csv"])
    ['a/b.PNG', 'a.png']
    """
    names = [key.split("/") for key in keys]
    images = [parts for parts in names if PurePosixPath(parts[-1]).suffix.lower() in SUFFIXES]
    return ["/".join(parts) for parts in sorted(images) if not parts[-1].startswith(".")]


def _check_name(image: str) -> None:
    """Refuse a file whose name no store, no JSON and no screen can hold."""
    try:
        image.encode()
    except UnicodeEncodeError:
        shown = image.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise BrokenImageError(f"{shown}: its name is not UTF-8. Rename it.") from None
