"""Bring the map of a store up to date after its images."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from marcir.errors import DependencyError, UnusableStoreError
from marcir.search.embedding_map import MapMethod, updated_map
from marcir.search.known import bytes_of
from marcir.search.lance import LanceStore
from marcir.search.lance_io import TRIES, back_off, is_conflict


def update_map(store: LanceStore, method: MapMethod | None) -> list[str]:
    """Bring the map of a store up to date, where its images are others than when that was done last.

    Where others write all the time, the rest is left to the next run.

    Returns:
        What the user should know of it.
    """
    scanned = LanceStore(store.uri, approximate=True)  # the vectors need not fit into memory
    for failures in range(1, TRIES + 1):
        # First the state: images that come before the map is made are none of it, and the next run sees so.
        before, state = store.read_map(), state_of_images(store.contents())
        if before is not None and before.state == state and method in (None, before.method):
            return []
        try:
            found = scanned.read(partial(updated_map, before=before, method=method))
        except DependencyError:
            if method is not None:
                raise
            return [
                "the map of the store was made by UMAP, and there are too many new images to put them beside "
                "others: pip install umap-learn, or make another one with --map pca"
            ]
        if found is None:
            return []
        try:
            store.write_map(replace(found, state=state))
        except UnusableStoreError as error:
            if not is_conflict(error):
                raise
            back_off(failures)
            continue
        if scanned.count() == len(found.ids):  # otherwise others have added images meanwhile
            break
    return []


def state_of_images(contents: Mapping[str, str]) -> str:
    """A fingerprint of the ids of images and of their bytes, which their vectors follow from.

    Args:
        contents: The fingerprint of each image, by id, see `Known.fingerprint`.

    >>> state_of_images({"a": "0a:labels", "b": "0b"}) == state_of_images({"b": "0b", "a": "0a:others"})
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for image in sorted(contents):
        digest.update(f"{image}\0{bytes_of(contents[image])}\0".encode())
    return digest.hexdigest()
