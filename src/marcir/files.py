"""Cache folder, atomic writes, locks, and fingerprints that detect changed files."""

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marcir.errors import ConfigError, DataError, needs

_MAX_AGE_SECONDS = 30 * 24 * 3600


def cache_folder() -> Path:
    """`$MARCIR_CACHE`, or the user's cache folder."""
    if folder := os.environ.get("MARCIR_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "marcir"


def cache_outside(root: Path) -> Path:
    """The cache folder; a DataError if it is inside an image folder, where nothing is ever written."""
    cache = cache_folder()
    if cache.resolve().is_relative_to(Path(root).resolve()):
        raise DataError(f"{cache}: the cache lies in the archive {root}. Set MARCIR_CACHE to another folder.")
    return cache


@contextmanager
def atomic_write(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and rename it at the end: the file is complete or absent.

    Args:
        path: The final path.
        durable: Call fsync, which takes some milliseconds per file, to survive a power failure.

    Raises:
        ConfigError: If the file cannot be written.
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
def atomic_folder(path: Path, option: str) -> Iterator[Path]:
    """Yield a temporary folder beside a new or empty one, and rename it at the end: complete or absent.

    Args:
        path: The final path.
        option: The option that gave it, for errors.

    Raises:
        ConfigError: If it is there and not an empty folder, or cannot be written.
    """
    check_new_folder(path, option)
    temporary = path.absolute().with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        check_new_folder(path, option)
        temporary.replace(path)  # which may be an empty folder
    except OSError as error:
        raise ConfigError(f"{option} {path}: cannot be written ({reason(error)}). Choose another.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_new_folder(path: Path, option: str) -> None:
    """Refuse a path that is there already and not an empty folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ConfigError(f"{option} {path}: is there already and not an empty folder. Choose another.")


@contextmanager
def folder_lock(folder: Path, purpose: str, busy: str = "") -> Iterator[None]:
    """Lock a folder against other processes of this machine that have the same purpose.

    The lock is a file in the cache: nothing is written into the folder.

    Args:
        folder: The folder.
        purpose: Name of the lock, as part of a file name.
        busy: Text of the ConfigError if another process holds the lock; without it, wait for that process.
    """
    with needs("train"):
        from filelock import FileLock, Timeout
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    path = cache_folder() / "locks" / f"{purpose}-{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        acquired = FileLock(path).acquire(timeout=0 if busy else -1)
    except Timeout:
        raise ConfigError(busy) from None
    with acquired:
        yield


def mark_used(*paths: Path) -> None:
    """Set the modification time of cache files to now, if permitted."""
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def remove_unused(folder: Path) -> None:
    """Remove files of a cache folder that were not used for 30 days."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.stat().st_mtime < time.time() - _MAX_AGE_SECONDS:
                path.unlink(missing_ok=True)


def fingerprint(paths: Iterable[str | Path], *key: object) -> str:
    """A hash of files and a key: it changes when a file is added, removed, replaced or edited.

    It covers each file's path, size, times and inode, not its content, so it is fast. A missing file is not
    an error.
    """
    digest = hashlib.sha256(repr(key).encode())
    for path in paths:
        digest.update(os.fsencode(os.path.abspath(path)) + _status(path))  # noqa: PTH100  no disk access
    return digest.hexdigest()[:24]


def reason(error: BaseException) -> str:
    """The first line of an error's message, without the path of an OSError.

    >>> reason(OSError(28, "No space left on device", "/tmp/a")), reason(KeyError())
    ('No space left on device', 'KeyError')
    """
    message = getattr(error, "strerror", None) or str(error)
    return (message.splitlines() or [""])[0].rstrip(".") or type(error).__name__


def refuse_address(option: str, path: str | Path | None) -> None:
    """Refuse an address such as `s3://bucket/key` where only what is on a disk can be used.

    >>> refuse_address("--root", "tiles")
    """
    if path is not None and "://" in str(path):
        raise ConfigError(
            f"{option} {path}: must be on a disk. On object storage may only be --store, and --images of "
            "marcir index, embed and serve."
        )


def _status(path: str | Path) -> bytes:
    try:
        stat = os.stat(path)  # noqa: PTH116  twice as fast for a hundred thousand files
    except OSError:
        return b"\0missing\0"
    return f"\0{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}\0".encode()


def _new_file_for(path: Path) -> Path:
    """Create an empty file with default permissions (`mkstemp` makes files that only the user can read)."""
    temporary = path.parent / f".{path.name[:60]}.{secrets.token_hex(4)}.part"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def in_cache(path: str | Path) -> bool:
    """Whether a path is the cache folder or lies in it."""
    return Path(path).absolute().is_relative_to(cache_folder().absolute())


def _advice(path: Path) -> str:
    return "Set MARCIR_CACHE to a writable folder." if in_cache(path) else "Choose another path."
