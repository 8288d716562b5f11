"""Image cache: all images of an archive in one memory-mapped file, with metadata.

    packed/<archive>-<size>-<key>.json              metadata: file name, fingerprints, broken images
    packed/<archive>-<size>-<key>-<random>.npy      the images, (N, S, S, C)

The metadata name the image file, so both always match. They hold a fingerprint of the sources' sizes, times
and inodes, which is checked on every start, and a checksum of their contents, which is computed again only if
the fingerprint differs.
"""

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from marcir.data.archive import Archive
from marcir.data.images import decode_image, read_content
from marcir.data.resize import to_square
from marcir.data.validation import map_images, raise_if_broken, require_format
from marcir.errors import BrokenImageError, ConfigError, needs
from marcir.files import atomic_write, cache_outside, fingerprint, mark_used, reason, remove_unused
from marcir.schema import load, record, save

with needs("train"):
    from filelock import FileLock

# Part of the key: raise it when packing changes, so that old caches are not read.
_VERSION = 3


@record()
class Pack:
    """Metadata of a packed archive.

    Attributes:
        file: Name of the image file.
        status: Fingerprint of the sources' sizes, times and inodes.
        checksum: Checksum of the sources' contents.
        broken: What is wrong with images that could not be packed, by id; their rows are zero.
    """

    file: str
    status: str
    checksum: str
    broken: dict[str, str]


def open_pack(archive: Archive, size: int) -> tuple[Path, Pack, np.ndarray]:
    """Open a packed archive, building it if needed: its file, metadata and images. (N, S, S, C)"""
    metadata = cache_outside(archive.root) / "packed" / f"{archive.name}-{size}-{_key(archive, size)}.json"
    status = fingerprint(archive.files)
    cached = _try_open(metadata)
    if cached is None or cached[0].status != status:
        with _locked(metadata):
            pack = _update(metadata, archive, size, status)
            cached = pack, load_packed(metadata.with_name(pack.file))
            _remove_stale(metadata, pack)
    pack, images = cached
    path = metadata.with_name(pack.file)
    mark_used(metadata, path)
    return path, pack, images


def load_packed(path: Path) -> np.ndarray:
    """Memory-map the images of a packed archive. (N, S, S, C)"""
    images: np.ndarray = np.load(path, mmap_mode="r")
    return images


def _update(metadata: Path, archive: Archive, size: int, status: str) -> Pack:
    """Bring the pack up to date; another process may have done so, or only file times have changed."""
    cached = _try_open(metadata)
    pack = cached[0] if cached else None
    if pack is not None and pack.status == status:
        return pack
    if pack is None or pack.checksum != checksum_of_files(archive):
        pack = _build(metadata, archive, size, status)
    pack = replace(pack, status=status)
    save(metadata, pack)
    return pack


def _build(metadata: Path, archive: Archive, size: int, status: str) -> Pack:
    """Read, resize and write all images."""
    pixel_format = require_format(archive)
    broken: dict[str, str] = {}
    file = metadata.with_name(f"{metadata.stem}-{secrets.token_hex(4)}.npy")
    with atomic_write(file) as temporary:
        images = np.lib.format.open_memmap(
            temporary, "w+", pixel_format.dtype, (len(archive), size, size, pixel_format.bands)
        )
        _reserve(temporary)

        def pack(position: int) -> bytes:
            path, digest = archive.paths[position], b""
            try:
                digest, decode = _hashed(archive, position)
                images[position] = to_square(pixel_format.fit(decode(), path), size)
            except BrokenImageError as error:
                broken[archive.ids[position]] = str(error)
            return digest

        checksum = _joined(map_images(archive, pack, "packing images"))
        if len(broken) == len(archive):
            raise_if_broken(broken)
        images.flush()
    return Pack(file.name, status, checksum, broken)


def _try_open(metadata: Path) -> tuple[Pack, np.ndarray] | None:
    """The metadata and the images; None if either cannot be read."""
    try:
        pack = load(Pack, metadata, "the metadata of a packed archive")
        images = load_packed(metadata.with_name(pack.file))
    except (OSError, ValueError, EOFError):
        return None
    return (pack, images) if images.ndim == 4 else None


def checksum_of_files(archive: Archive) -> str:
    """Checksum of all image files, in the order of the archive; reads all of them."""

    def digest(position: int) -> bytes:
        try:
            return _hashed(archive, position)[0]
        except BrokenImageError:
            return b""

    return _joined(map_images(archive, digest, "comparing images"))


def _hashed(archive: Archive, position: int) -> tuple[bytes, Callable[[], np.ndarray]]:
    """Hash of an image's file, or of its pixels where it is no file of its own, and its pixels."""
    if archive.pixels is not None:
        pixels = np.ascontiguousarray(archive.read(position))
        return hashlib.sha256(pixels.data).digest(), lambda: pixels
    path = archive.paths[position]
    content = read_content(path)
    return hashlib.sha256(content).digest(), lambda: decode_image(content, path)


def _joined(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(digest.ljust(32, b"\0") for digest in digests)).hexdigest()


def _key(archive: Archive, size: int) -> str:
    """A hash of the ids and paths of the images, not of their content."""
    source = "" if archive.pixels is None else f" {archive.pixels.key}"
    digest = hashlib.sha256(f"{_VERSION} {size}{source}".encode())
    for image, path in zip(archive.ids, archive.paths, strict=True):
        name = image.encode("utf-8", "surrogatepass")
        digest.update(name + b"\0" + os.fsencode(os.path.abspath(path)) + b"\0")  # noqa: PTH100  no disk access
    return digest.hexdigest()[:24]


def _reserve(path: Path) -> None:
    """Allocate the whole file now: a full disk under a memory map would kill the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise


@contextmanager
def _locked(metadata: Path) -> Iterator[None]:
    """Let only one process build the pack."""
    lock = FileLock(metadata.with_suffix(".lock"))
    try:
        metadata.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise ConfigError(
            f"{metadata.parent}: cannot be written ({reason(error)}). Set MARCIR_CACHE to a writable folder."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _remove_stale(metadata: Path, pack: Pack) -> None:
    """Remove outdated and temporary files of this archive, and all packs unused for 30 days."""
    for path in metadata.parent.iterdir():
        temporary = path.name.startswith(f".{metadata.stem}")
        outdated = path.name.startswith(metadata.stem) and path.suffix == ".npy" and path.name != pack.file
        if temporary or outdated:
            with suppress(OSError):
                path.unlink()
    remove_unused(metadata.parent)
