"""All images of an archive in one memory-mapped file in the cache, with notes on what they were made from.

    packed/<archive>-<size>-<key>.json              which file, from which sources, which images are broken
    packed/<archive>-<size>-<key>-<random>.npy      the images, (N, S, S, C)

The notes name the file, so that images and notes always belong together. They hold two marks of the
sources: one of sizes, times and inodes, looked at on every start, and a checksum of the contents, which is
computed again only where the first differs.
"""

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from marcir.data.archive import Archive
from marcir.data.images import decode_image, read_content
from marcir.data.resize import to_square
from marcir.data.validation import for_all, needed_form, refuse_broken
from marcir.errors import BrokenImageError, ConfigError, needs
from marcir.files import atomic_write, cache_outside, fingerprint, mark_used, reason, remove_unused
from marcir.schema import load, record, save

with needs("train"):
    from filelock import FileLock

# Part of the key: a cache of another way of packing is not read.
_VERSION = 3


@record()
class Pack:
    """Notes on a packed archive.

    Attributes:
        file: Name of the file with the images.
        status: Mark of the sources' sizes, times and inodes.
        checksum: Of the sources' contents.
        broken: What is wrong with images that could not be packed, by id; their places are black.
    """

    file: str
    status: str
    checksum: str
    broken: dict[str, str]


def open_pack(archive: Archive, size: int) -> tuple[Path, Pack, np.ndarray]:
    """The packed archive, made (again) where it must be: its file, its notes, its images. (N, S, S, C)"""
    notes = cache_outside(archive.root) / "packed" / f"{archive.name}-{size}-{_key(archive, size)}.json"
    status = fingerprint(archive.paths)
    found = _opened(notes)
    if found is None or found[0].status != status:
        with _locked(notes):
            pack = _renewed(notes, archive, size, status)
            found = pack, load_packed(notes.with_name(pack.file))
            _sweep(notes, pack)
    pack, images = found
    path = notes.with_name(pack.file)
    mark_used(notes, path)
    return path, pack, images


def load_packed(path: Path) -> np.ndarray:
    """The images of a packed archive, memory-mapped. (N, S, S, C)"""
    images: np.ndarray = np.load(path, mmap_mode="r")
    return images


def _renewed(notes: Path, archive: Archive, size: int, status: str) -> Pack:
    """The pack, once it is our turn: another process may have made it, or only times may have changed."""
    found = _opened(notes)
    pack = found[0] if found else None
    if pack is not None and pack.status == status:
        return pack
    if pack is None or pack.checksum != checksum_of_files(archive):
        pack = _packed(notes, archive, size, status)
    pack = replace(pack, status=status)
    save(notes, pack)
    return pack


def _packed(notes: Path, archive: Archive, size: int, status: str) -> Pack:
    """Read, resize and write all images."""
    form = needed_form(archive)
    broken: dict[str, str] = {}
    file = notes.with_name(f"{notes.stem}-{secrets.token_hex(4)}.npy")
    with atomic_write(file) as temporary:
        images = np.lib.format.open_memmap(
            temporary, "w+", form.dtype, (len(archive), size, size, form.bands)
        )
        _reserve(temporary)

        def pack(position: int) -> bytes:
            path, digest = archive.paths[position], b""
            try:
                content = read_content(path)
                digest = hashlib.sha256(content).digest()
                images[position] = to_square(form.fit(decode_image(content, path), path), size)
            except BrokenImageError as error:
                broken[archive.ids[position]] = str(error)
            return digest

        checksum = _joined(for_all(archive, pack, "packing images"))
        if len(broken) == len(archive):
            refuse_broken(broken)
        images.flush()
    return Pack(file.name, status, checksum, broken)


def _opened(notes: Path) -> tuple[Pack, np.ndarray] | None:
    """The notes and the images, if both can be read."""
    try:
        pack = load(Pack, notes, "notes on a packed archive")
        images = load_packed(notes.with_name(pack.file))
    except (OSError, ValueError, EOFError):
        return None
    return (pack, images) if images.ndim == 4 else None


def checksum_of_files(archive: Archive) -> str:
    """Of the contents of all image files, in the order of the archive; reads all of them."""

    def digest(position: int) -> bytes:
        try:
            return hashlib.sha256(read_content(archive.paths[position])).digest()
        except BrokenImageError:
            return b""

    return _joined(for_all(archive, digest, "comparing images"))


def _joined(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(digest.ljust(32, b"\0") for digest in digests)).hexdigest()


def _key(archive: Archive, size: int) -> str:
    """Which images are packed, in which order; not what is in them."""
    digest = hashlib.sha256(f"{_VERSION} {size}".encode())
    for image, path in zip(archive.ids, archive.paths, strict=True):
        name = image.encode("utf-8", "surrogatepass")
        digest.update(name + b"\0" + os.fsencode(os.path.abspath(path)) + b"\0")  # noqa: PTH100  no disk access
    return digest.hexdigest()[:24]


def _reserve(path: Path) -> None:
    """Take the whole file's room now: a disk that fills up under a memory map kills the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise


@contextmanager
def _locked(notes: Path) -> Iterator[None]:
    """One process at a time."""
    lock = FileLock(notes.with_suffix(".lock"))
    try:
        notes.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise ConfigError(
            f"{notes.parent}: cannot be written ({reason(error)}). Set MARCIR_CACHE to a folder that can."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _sweep(notes: Path, pack: Pack) -> None:
    """Remove older images of this archive, what killed processes left of them, and what nobody has used."""
    for path in notes.parent.iterdir():
        left = path.name.startswith(f".{notes.stem}")
        older = path.name.startswith(notes.stem) and path.suffix == ".npy" and path.name != pack.file
        if left or older:
            with suppress(OSError):
                path.unlink()
    remove_unused(notes.parent)
