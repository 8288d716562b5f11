"""Intermediate results of a long computation, saved in several files."""

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from safetensors.torch import load, save
from torch import Tensor

from marcir.files import atomic_write, mark_used, remove_unused

# A part is written once the last one is this old.
PART_SECONDS = 30.0


class Parts:
    """Tensors by name, in files `<name>-<checksum>.safetensors` of one folder.

    The checksum covers the content of a file and the key, which identifies what the tensors are computed
    from: a damaged file, or one with another key, is removed and its tensors are missing. Only one process at
    a time may use the same name. A ConfigError is raised if a file cannot be written.

    Attributes:
        tensors: All saved and added tensors.
    """

    def __init__(self, folder: Path, name: str, key: str) -> None:
        self._folder, self._name, self._key = folder, name, key
        self._unsaved: dict[str, Tensor] = {}
        self._saved_at = time.monotonic()
        self.tensors = self._load()

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor; save all unsaved ones if the last part is old enough."""
        self.tensors[name] = self._unsaved[name] = tensor
        if time.monotonic() - self._saved_at >= PART_SECONDS:
            self.save_added()

    def save_added(self) -> None:
        """Save the unsaved tensors."""
        if self._unsaved:
            self.save(self._unsaved)
        self._unsaved, self._saved_at = {}, time.monotonic()

    def save(self, tensors: Mapping[str, Tensor]) -> None:
        """Add tensors as one part, written atomically."""
        content = save(dict(tensors))
        with atomic_write(self._path(content)) as temporary:
            temporary.write_bytes(content)
        self.tensors |= tensors

    def _load(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for path in sorted(self._folder.glob(f"{self._name}-*")):
            with suppress(OSError):
                content = path.read_bytes()
                if path == self._path(content):
                    tensors |= load(content)
                    mark_used(path)
                else:
                    path.unlink()
        return tensors

    def _path(self, content: bytes) -> Path:
        checksum = hashlib.sha256(self._key.encode() + b"\0" + content).hexdigest()[:16]
        return self._folder / f"{self._name}-{checksum}.safetensors"


def remove_parts(folder: Path, name: str) -> None:
    """Remove parts with this prefix, their temporary files, and all parts unused for 30 days."""
    for path in (*folder.glob(f"{name}-*"), *folder.glob(f".{name}-*")):
        with suppress(OSError):
            path.unlink()
    remove_unused(folder)
