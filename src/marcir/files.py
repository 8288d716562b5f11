"""Cache folder, atomic writes, locks, and fingerprints that tell whether files have changed."""

import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marcir.errors import ConfigError, DataError, needs

_KEPT_SECONDS = 30 * 24 * 3600


def cache_folder() -> Path:
    """`$MARCIR_CACHE`, or the user's cache folder."""
    if given := os.environ.get("MARCIR_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "marcir"


def cache_outside(root: Path) -> Path:
    """The cache folder, if it does not lie in a folder of images.

    Raises:
        DataError: Nothing is ever written into the user's images.
    """
    cache = cache_folder()
    if cache.resolve().is_relative_to(Path(root).resolve()):
        raise DataError(f"{cache}: the cache lies in the archive {root}. Set MARCIR_CACHE to another folder.")
    return cache


@contextmanager
def atomic_write(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary path beside the real one, renamed when all is written: nobody ever sees half a file.

    Args:
        path: The real path.
        durable: Also after a power failure, which takes some milliseconds a file.

    Raises:
        ConfigError: Where the file cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _new_file_for(path)
        yield temporary
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({reason(error)}). {_advice(path)}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def folder_lock(folder: Path, purpose: str, wait: bool = True) -> Iterator[None]:
    """Keep other processes of this machine from doing the same with a folder.

    The lock is a file in the cache: nothing is written into the folder.

    Args:
        folder: The folder.
        purpose: What must not be done twice at a time, as part of a file name.
        wait: Whether to wait until another process is done.

    Raises:
        BlockingIOError: Where another process is at it, and `wait` is off.
    """
    with needs("train"):
        from filelock import FileLock, Timeout
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    path = cache_folder() / "locks" / f"{purpose}-{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise BlockingIOError(f"{folder}: another process works on it") from None
    try:
        yield
    finally:
        lock.release()


def mark_used(*paths: Path) -> None:
    """Note that files of the cache were used now, where the user may."""
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def remove_unused(folder: Path) -> None:
    """Remove files of a folder of the cache that nobody has used for 30 days."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.stat().st_mtime < time.time() - _KEPT_SECONDS:
                path.unlink(missing_ok=True)


def fingerprint(paths: Iterable[str | Path], *key: object) -> str:
    """Changes when a file is added, removed, replaced or edited, and with the key.

    Looks at each file's path, size, times and inode, never at its content, so it is quick. A missing file
    is no error.
    """
    digest = hashlib.sha256(repr(key).encode())
    for path in paths:
        digest.update(os.fsencode(os.path.abspath(path)) + _status(path))  # noqa: PTH100  no disk access
    return digest.hexdigest()[:24]


def reason(error: BaseException) -> str:
    """What an error says, in one line and without the path that its reader knows.

    >>> reason(OSError(28, "No space left on device", "/tmp/a")), reason(KeyError())
    ('No space left on device', 'KeyError')
    """
    said = getattr(error, "strerror", None) or str(error)
    return (said.splitlines() or [""])[0].rstrip(".") or type(error).__name__


def _status(path: str | Path) -> bytes:
    try:
        found = os.stat(path)  # noqa: PTH116  twice as fast for a hundred thousand files
    except OSError:
        return b"\0missing\0"
    return f"\0{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}\0".encode()


def _new_file_for(path: Path) -> Path:
    """An empty file with the user's usual rights (`mkstemp` would hide it from everyone else)."""
    temporary = path.parent / f".{path.name[:60]}.{secrets.token_hex(4)}.part"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def in_cache(path: str | Path) -> bool:
    """Whether a path is the cache folder or lies in it."""
    return Path(path).absolute().is_relative_to(cache_folder().absolute())


def _advice(path: Path) -> str:
    return "Set MARCIR_CACHE to a folder that can." if in_cache(path) else "Choose another place."
