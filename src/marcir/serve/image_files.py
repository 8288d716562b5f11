"""The files of the images: only those inside their folder or prefix, and only images."""

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import quote

import numpy as np
from PIL import Image

from marcir.data.decode.limits import MAX_BYTES
from marcir.data.images import decode_image
from marcir.data.object_storage import ImagePath, S3Path
from marcir.data.prefetch import read_batches
from marcir.errors import BrokenImageError, DataError, MissingImageError
from marcir.figures.samples import display_bytes
from marcir.search.store import Store
from marcir.serve.request_log import escaped

_SIGNATURES = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_CHUNK = 2**20
_SAMPLE = 100  # files that are checked at the start
_MAX_SIDE = 2048  # pixels of a picture that is made for a browser


@dataclass(frozen=True)
class OpenFile:
    """A file that was opened; `chunks` and `close` close it, also repeatedly."""

    content: BinaryIO
    size: int  # in bytes
    media_type: str  # by its content; image/tiff where no browser shows it
    tag: str  # changes with the file

    def chunks(self) -> Iterator[bytes]:
        """Its bytes; it is closed at the end."""
        with self.content:
            while part := self.content.read(_CHUNK):
                yield part

    def close(self) -> None:
        """Close it without reading the rest."""
        self.content.close()


class Originals:
    """The folder of images, or their prefix on object storage, which ids are relative to.

    Raises:
        DataError: Where there is nothing below the prefix, or it may not be listed.
    """

    def __init__(self, root: ImagePath) -> None:
        if isinstance(root, S3Path):
            root.check()
        self.root = root if isinstance(root, S3Path) else root.resolve()

    def open(self, image: str) -> OpenFile:
        """Open the file of an id of the store.

        Raises:
            MissingImageError: Where there is none inside the folder, or it is not an image.
            DataError: Where object storage cannot be reached or refuses this process.
        """
        if isinstance(self.root, S3Path):
            return _open_object(self.root, image)
        return _open_file(self.root, image)

    def has(self, image: str) -> bool:
        """Whether the file of an id can be shown."""
        try:
            self.open(image).close()
        except (MissingImageError, DataError):
            return False
        return True


def _open_object(root: S3Path, image: str) -> OpenFile:
    """Open an object; its key is below the prefix, since `S3Path.open` refuses all others."""
    absent = MissingImageError(f"the file of '{image}' cannot be read as an image from object storage.")
    path = root / image
    with ExitStack() as opened:
        try:
            file = opened.enter_context(path.open())
            with path.reading():
                media_type = _media_type(file.read_at(16, 0))
                metadata = repr(sorted(file.metadata().items()))  # among it, the ETag
                size = file.size()
        except BrokenImageError:
            raise absent from None
        except DataError:  # object storage as a whole: the file may well be there
            raise
        except (OSError, ValueError):
            raise absent from None
        if media_type is None:
            raise absent
        opened.pop_all()
    return OpenFile(file, size, media_type, hashlib.blake2b(metadata.encode(), digest_size=12).hexdigest())


def _open_file(root: Path, image: str) -> OpenFile:
    absent = MissingImageError(f"the file of '{image}' is not in the folder of images.")
    try:
        path = (root / image).resolve(strict=True)
        if not path.is_relative_to(root):
            raise absent
        # Resolved: a link that appears now is not followed; a pipe does not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError):
        raise absent from None
    try:
        status = os.fstat(descriptor)
        media_type = _media_type(os.pread(descriptor, 16, 0)) if stat.S_ISREG(status.st_mode) else None
        if media_type is None:
            raise absent
        tag = f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
        return OpenFile(os.fdopen(descriptor, "rb"), status.st_size, media_type, tag)
    except BaseException:
        os.close(descriptor)
        raise


class Shows(Protocol):
    """Tells which images of a store it can show."""

    def has(self, image: str) -> bool:
        """Whether the file of an id can be shown."""


def files_warning(store: Store, files: Shows, given: str, threads: int | None) -> str | None:
    """What to print at the start where files or scenes are not those of a store.

    Args:
        store: The store.
        files: What was given.
        given: The option, as it was given.
        threads: Threads that look for files.
    """
    if store.exact:
        ids = store.sample(_SAMPLE)
    else:  # without reading all ids
        ids = [hit.id for hit in store.search(np.ones((1, store.about.dim)), _SAMPLE)[0]]
    checked = read_batches(ids, files.has, _SAMPLE, threads=threads)
    found = sum(map(sum, checked))
    if found == len(ids):
        return None
    given, indexed = escaped(given), escaped(store.about.root)
    if not found:
        return (
            f"WARNING: {given} holds none of the files of the store, which was indexed from "
            f"{indexed}: originals cannot be shown. Give the folder that was indexed."
        )
    return (
        f"WARNING: {given} holds {found} of {len(ids)} files of the store that were checked. "
        f"It was indexed from {indexed}: the other originals cannot be shown."
    )


def _media_type(start: bytes) -> str | None:
    """The media type of an image by its first bytes; None for anything else."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    if start[:4] in _TIFF:
        return "image/tiff"
    return next((kind for begin, kind in _SIGNATURES.items() if start.startswith(begin)), None)


def as_png(file: OpenFile, image: str) -> bytes:
    """A file that no browser shows, as a PNG."""
    if file.size > MAX_BYTES:
        file.close()
        raise BrokenImageError(f"'{image}' is too large to be shown. Download it.")
    pixels = decode_image(b"".join(file.chunks()), image)
    step = -(-max(pixels.shape[:2]) // _MAX_SIDE)
    return png(display_bytes(pixels[::step, ::step]))


def png(shown: np.ndarray) -> bytes:
    """Bytes of a picture as a PNG. (H, W) or (H, W, 3)"""
    out = io.BytesIO()
    Image.fromarray(shown).save(out, "PNG", compress_level=1)
    return out.getvalue()


def attachment(name: str) -> str:
    r"""Content-Disposition of a file that is saved under a name, whatever the name contains.

    >>> attachment('a"b\r\nX: y/ü.tif'), attachment(r"C:\a\ü.tif")
    ("attachment; filename*=UTF-8''%C3%BC.tif", "attachment; filename*=UTF-8''%C3%BC.tif")
    """
    last = name.replace("\\", "/").split("/")[-1]
    kept = "".join(letter for letter in last if letter.isprintable()).strip(". ") or "image"
    return f"attachment; filename*=UTF-8''{quote(kept, safe='')}"
