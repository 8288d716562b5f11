"""Read images and make the rows of a store from them: fingerprint, size, thumbnail and vector.

The same loop runs in the process of `index` and in the actors of a cluster.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np

from marcir.data.image_source import ImageContent, SourceImage
from marcir.data.prefetch import in_batches, read_batches
from marcir.errors import BrokenImageError, needs
from marcir.figures.samples import display_bytes
from marcir.model.model import Model
from marcir.progress import track
from marcir.search.records import Row

with needs("train"):
    from PIL import Image

THUMBNAIL = 256
# A JPEG of at most so many bytes and THUMBNAIL pixels is its own thumbnail.
_SMALL = 64 * 1024


@dataclass(frozen=True, slots=True)
class NotEmbedded:
    """An image that gets no vector: it is that of the row in the store, is left out, or is broken.

    Attributes:
        id: Its id.
        problem: What is wrong with it; None where nothing is.
        skipped: Whether too many of its pixels are missing.
    """

    id: str
    problem: str | None = None
    skipped: bool = False


class EmbedRows(Protocol):
    """Makes rows from images, in this process or on a cluster."""

    def __call__(
        self,
        model: Mapping[str, bytes],
        images: Sequence[SourceImage],
        batch_size: int,
        note: Callable[[NotEmbedded], None],
    ) -> Iterator[list[Row]]:
        """Yield the rows of new and changed images, in any order, in whole batches, and show progress.

        Args:
            model: The files of the model by name.
            images: What to read.
            batch_size: Images that are embedded at a time.
            note: Called for every image that is not embedded.
        """
        ...


def embed_rows(
    model: Model,
    images: Sequence[SourceImage],
    batch_size: int,
    note: Callable[[NotEmbedded], None],
    threads: int | None = None,
) -> Iterator[list[Row]]:
    """Yield the rows of new and changed images in batches, in order; `content` is the bytes' fingerprint.

    Args:
        model: Embeds the images.
        images: What to read.
        batch_size: Images that are embedded at a time.
        note: Called for every image that is not embedded.
        threads: Threads that read images; None for one per processor. There are more for objects.
    """

    def batches() -> Iterator[tuple[list[Row], list[np.ndarray]]]:
        read = track(_read_all(model, images, batch_size, threads), len(images), "indexing")
        for batch in in_batches(_readable(read, note), batch_size):
            yield [row for row, _ in batch], [square for _, square in batch]

    for rows, vectors in model.embed_batches(batches()):
        yield [replace(row, vector=vector) for row, vector in zip(rows, vectors, strict=True)]


def _read_all(
    model: Model, images: Sequence[SourceImage], batch_size: int, threads: int | None
) -> Iterator[tuple[Row, np.ndarray] | NotEmbedded]:
    """Read images in threads; one thread reads those in a row that share blocks of a file."""
    if not images:
        return
    together = images[0].neighbours
    found = read_batches(
        in_batches(images, together),
        lambda part: [_read(model, image) for image in part],
        max(1, batch_size // together),
        threads=images[0].reading_threads(threads),
    )
    yield from chain.from_iterable(chain.from_iterable(found))


def _readable(
    read: Iterable[tuple[Row, np.ndarray] | NotEmbedded], note: Callable[[NotEmbedded], None]
) -> Iterator[tuple[Row, np.ndarray]]:
    """Rows and images that must be embedded; the others are noted on the way."""
    for image in read:
        if isinstance(image, NotEmbedded):
            note(image)
        else:
            yield image


def _read(model: Model, image: SourceImage) -> tuple[Row, np.ndarray] | NotEmbedded:
    """A row without its vector, and the network's input."""
    try:
        content = image.read()
        if not isinstance(content, ImageContent):
            return NotEmbedded(image.id, skipped=content == "skipped")
        square = model.preprocess(content.pixels, image.where)
    except BrokenImageError as error:
        return NotEmbedded(image.id, str(error))
    row = Row(
        image.id,
        np.zeros(0, np.float32),
        width=content.width,
        height=content.height,
        thumbnail=thumbnail(content.pixels[: content.height, : content.width], content.file),
        content=content.fingerprint,
        metadata=content.metadata,
        bbox=content.bbox,
        footprint=content.footprint,
        date=content.date,
        labelled=False,
    )
    return row, square


def thumbnail(pixels: np.ndarray, data: bytes = b"") -> bytes:
    """An image as a JPEG of at most 256 pixels; a small JPEG is its own.

    Args:
        pixels: Any bands and type. (H, W, C)
        data: The file it was read from.
    """
    if data[:2] == b"\xff\xd8" and len(data) <= _SMALL and max(pixels.shape[:2]) <= THUMBNAIL:
        return data
    step = max(1, max(pixels.shape[:2]) // (4 * THUMBNAIL))
    picture = Image.fromarray(display_bytes(pixels[::step, ::step]))
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    return out.getvalue()
