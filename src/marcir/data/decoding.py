"""What all decoders of images share: limits, and one kind of error that names the file."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marcir.errors import BrokenImageError
from marcir.files import reason

# About 9,460 x 9,460: a tile, not a mosaic, and no decompression bomb.
MAX_PIXELS = 89_478_485
# Of the file, and of its pixels in memory: 12 bands of bytes at the most pixels.
MAX_BYTES = 1 << 30


@contextmanager
def named(path: str | Path, what: str = "an image") -> Iterator[None]:
    """Whatever a decoder raises becomes one line that names the file.

    Raises:
        BrokenImageError: For all damage inside.
    """
    try:
        with _SILENCE:
            yield
    except BrokenImageError as error:
        raise BrokenImageError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise BrokenImageError(f"{path}: there is no such file.") from None
    except Exception as error:  # decoders meet damage with errors of all kinds, and some with their own
        raise BrokenImageError(f"{path}: cannot be read as {what} ({reason(error)}).") from error


def check_size(width: int, height: int, bytes_a_pixel: int) -> None:
    """Refuse an image without pixels, and one that would fill the memory, before it is unpacked.

    >>> check_size(256, 256, 3)
    """
    if width < 1 or height < 1:
        raise BrokenImageError(f"the image is empty, {width} x {height} pixels.")
    if width * height > MAX_PIXELS:
        raise BrokenImageError(
            f"{width} x {height} pixels are more than the limit of {MAX_PIXELS:,}. Cut it into tiles."
        )
    if width * height * bytes_a_pixel > MAX_BYTES:
        raise BrokenImageError(
            f"{width} x {height} pixels of {bytes_a_pixel} bytes are more than the limit of "
            f"{MAX_BYTES >> 20:,} MiB. Cut it into tiles, or leave bands out."
        )


class _Silence:
    """Ignores warnings while any thread decodes: damaged metadata does not damage pixels.

    `warnings.catch_warnings` in several threads at once may leave the filters of one to all others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_SILENCE = _Silence()
