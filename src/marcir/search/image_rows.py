"""Read image files and make the rows of a store from them: fingerprint, size, thumbnail and vector.

The same loop runs in the process of `index` and in the actors of a cluster.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np

from marcir.data.images import decode_image, read_content
from marcir.data.object_storage import ImagePath, reading_threads
from marcir.data.prefetch import in_batches, read_batches
from marcir.errors import BrokenImageError, needs
from marcir.figures.samples import displayable
from marcir.model.model import Model
from marcir.progress import track
from marcir.search.records import Row

with needs("train"):
    from PIL import Image

THUMBNAIL = 256
# A JPEG of at most so many bytes and THUMBNAIL pixels is its own thumbnail.
_SMALL = 64 * 1024


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file that is to be in the store.

    Attributes:
        id: Path relative to the root of the archive.
        path: Where it is.
        stored: Fingerprint of the bytes that its row was made from; None for a new image.
    """

    id: str
    path: ImagePath
    stored: str | None = None


@dataclass(frozen=True, slots=True)
class NotEmbedded:
    """A file that gets no vector: its bytes are those of the row in the store, or it is broken.

    Attributes:
        id: Path relative to the root of the archive.
        problem: What is wrong with the file; None where nothing is.
    """

    id: str
    problem: str | None = None


class EmbedRows(Protocol):
    """Makes rows from files, in this process or on a cluster."""

    def __call__(
        self,
        model: Mapping[str, bytes],
        files: Sequence[ImageFile],
        batch_size: int,
        note: Callable[[NotEmbedded], None],
    ) -> Iterator[list[Row]]:
        """Yield the rows of new and changed files, in any order, in whole batches, and show progress.

        Args:
            model: The files of the model by name.
            files: What to read.
            batch_size: Images that are embedded at a time.
            note: Called for every file that is not embedded.
        """
        ...


def embed_rows(
    model: Model,
    files: Sequence[ImageFile],
    batch_size: int,
    note: Callable[[NotEmbedded], None],
    threads: int | None = None,
) -> Iterator[list[Row]]:
    """Yield the rows of new and changed files in batches, in order; `content` is the bytes' fingerprint.

    Args:
        model: Embeds the images.
        files: What to read.
        batch_size: Images that are embedded at a time.
        note: Called for every file that is not embedded.
        threads: Threads that read files; None for one per processor. There are more for objects.
    """

    def batches() -> Iterator[tuple[list[Row], list[np.ndarray]]]:
        several = reading_threads(files[0].path, threads) if files else threads
        found = read_batches(files, lambda file: _read(model, file), batch_size, threads=several)
        read = track(chain.from_iterable(found), len(files), "indexing")
        for batch in in_batches(_readable(read, note), batch_size):
            yield [row for row, _ in batch], [square for _, square in batch]

    for rows, vectors in model.embed_batches(batches()):
        yield [replace(row, vector=vector) for row, vector in zip(rows, vectors, strict=True)]


def _readable(
    read: Iterable[tuple[Row, np.ndarray] | NotEmbedded], note: Callable[[NotEmbedded], None]
) -> Iterator[tuple[Row, np.ndarray]]:
    """Rows and images that must be embedded; the others are noted on the way."""
    for file in read:
        if isinstance(file, NotEmbedded):
            note(file)
        else:
            yield file


def _read(model: Model, file: ImageFile) -> tuple[Row, np.ndarray] | NotEmbedded:
    """A row without its vector, and the network's input; files with the stored bytes are not decoded."""
    try:
        _check_name(file.id)
        data = read_content(file.path)
        content = hashlib.blake2b(data, digest_size=16).hexdigest()
        if content == file.stored:
            return NotEmbedded(file.id)
        pixels = decode_image(data, file.path)
        square = model.preprocess(pixels, file.path)
    except BrokenImageError as error:
        return NotEmbedded(file.id, str(error))
    row = Row(
        file.id,
        np.zeros(0, np.float32),
        width=pixels.shape[1],
        height=pixels.shape[0],
        thumbnail=thumbnail(pixels, data),
        content=content,
    )
    return row, square


def _check_name(image: str) -> None:
    """Refuse a file whose name no store, no JSON and no screen can hold."""
    try:
        image.encode()
    except UnicodeEncodeError:
        shown = image.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise BrokenImageError(f"{shown}: its name is not UTF-8. Rename it.") from None


def thumbnail(pixels: np.ndarray, data: bytes = b"") -> bytes:
    """An image as a JPEG of at most 256 pixels; a small JPEG is its own.

    Args:
        pixels: Any bands and type. (H, W, C)
        data: The file it was read from.
    """
    if data[:2] == b"\xff\xd8" and len(data) <= _SMALL and max(pixels.shape[:2]) <= THUMBNAIL:
        return data
    step = max(1, max(pixels.shape[:2]) // (4 * THUMBNAIL))
    shown = (255 * displayable(pixels[::step, ::step])).astype(np.uint8)
    picture = Image.fromarray(shown)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    return out.getvalue()
