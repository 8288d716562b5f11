"""Size limits of all decoders, and one error type that names the file."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from marcir.errors import BrokenImageError, MarcirError
from marcir.files import reason

# About 9,460 x 9,460: protects against decompression bombs.
MAX_PIXELS = 89_478_485
# Limit of the file and of its pixels in memory: 12 bands of bytes at MAX_PIXELS.
MAX_BYTES = 1 << 30


@contextmanager
def wrap_decode_errors(path: object, what: str = "an image") -> Iterator[None]:
    """Turn every exception of a decoder into a BrokenImageError of one line that names the file."""
    try:
        with _IGNORED_WARNINGS:
            yield
    except BrokenImageError as error:
        raise BrokenImageError(f"{path}: {error}") from error
    except MarcirError:
        raise  # nothing is wrong with the file: object storage cannot be reached, a package is missing
    except FileNotFoundError:
        raise BrokenImageError(f"{path}: there is no such file.") from None
    except Exception as error:  # damaged files make decoders raise almost any exception
        raise BrokenImageError(f"{path}: cannot be read as {what} ({reason(error)}).") from error


def check_size(width: int, height: int, bytes_per_pixel: int) -> None:
    """Refuse an empty image and one that is too large for memory, before it is decoded.

    >>> check_size(256, 256, 3)
    """
    if width < 1 or height < 1:
        raise BrokenImageError(f"the image is empty, {width} x {height} pixels.")
    if width * height > MAX_PIXELS:
        raise BrokenImageError(
            f"{width} x {height} pixels are more than the limit of {MAX_PIXELS:,}. Cut it into tiles."
        )
    if width * height * bytes_per_pixel > MAX_BYTES:
        raise BrokenImageError(
            f"{width} x {height} pixels of {bytes_per_pixel} bytes are more than the limit of "
            f"{MAX_BYTES >> 20:,} MiB. Cut it into tiles, or leave bands out."
        )


class _IgnoredWarnings:
    """Ignores warnings while any thread decodes: damaged metadata does not damage pixels.

    `warnings.catch_warnings` alone is not thread-safe.
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


_IGNORED_WARNINGS = _IgnoredWarnings()
