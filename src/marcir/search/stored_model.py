"""The model in a store: search needs nothing else."""

import hashlib
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.errors import ConfigError, StoreError
from marcir.files import cache_outside, reason
from marcir.search.store import Store

if TYPE_CHECKING:
    from marcir.model.model import Model


def fingerprint_of_model(files: Mapping[str, bytes]) -> str:
    """Of weights and configuration: vectors of equal ones can be compared."""
    digest = hashlib.sha256()
    for name in ("config.json", "model.safetensors"):
        digest.update(files[name])
    return digest.hexdigest()


def unpacked_model(store: Store, device: str = "auto") -> "Model":
    """The model of a store, unpacked into the cache once.

    Raises:
        StoreError: Where its files are not those that made the vectors, and where the cache cannot be used.
    """
    from marcir.model.device import choose_device
    from marcir.model.model import load_model  # imports timm, which most searches do without

    place = choose_device(device)
    try:
        folder = cache_outside(Path(store.about.root)) / "models" / store.about.model
        if not folder.is_dir():
            _unpack(store, folder)
    except (OSError, RuntimeError) as error:  # a folder that cannot be entered or written, and no home folder
        raise StoreError(
            f"the cache for the store's model cannot be used ({reason(error)}). "
            "Set MARCIR_CACHE to a folder that can be written."
        ) from error
    try:
        return load_model(folder, place)
    except ConfigError as error:
        raise StoreError(
            f"{error} This is the copy of the store's model in the cache: remove it, or set MARCIR_CACHE to "
            "another folder."
        ) from error


def _unpack(store: Store, folder: Path) -> None:
    files = store.model_files()
    if fingerprint_of_model(files) != store.about.model:
        raise StoreError(
            f"{store.uri}: the model in the store is not the one that its vectors were made with."
        )
    temporary = folder.with_name(f".{secrets.token_hex(8)}.part")
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            (temporary / Path(name).name).write_bytes(content)
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was first
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
