"""Collections as CSV, GeoJSON and lists of paths: whole, without a limit."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from marcir.annotations.annotations import Annotations
from marcir.annotations.names import shown
from marcir.checks import check_choice
from marcir.errors import AnnotationError, StoreError
from marcir.search.hits import Hit, as_csv, as_geojson, file_below
from marcir.search.records import Row
from marcir.search.store import Snapshot, Store

Format = Literal["csv", "geojson", "paths"]
# Images of a collection that are not in the store have this in the column `missing`.
_MISSING = {"missing": "true"}


def collection_hits(store: Store, annotations: Annotations, name: str) -> list[Hit]:
    """The images of a collection, in their order; of those that are not in the store, the id alone."""
    return hits_of(store, annotations.collections.images(name))


def hits_of(store: Store, images: Sequence[str]) -> list[Hit]:
    """Images by their ids; of those that are not in the store, the id alone."""

    def describe(snapshot: Snapshot) -> list[Hit]:
        gone = set(snapshot.missing(images))
        rows = iter(snapshot.describe([image for image in images if image not in gone]))
        return [Hit.from_row(_absent(image) if image in gone else next(rows)) for image in images]

    return store.read(describe)


def export_collection(store: Store, annotations: Annotations, name: str, form: Format) -> bytes:
    """A collection as a file.

    Args:
        store: Where its images are.
        annotations: Where the collection is.
        name: Its name.
        form: `csv` and `geojson` as those of a search; `paths`: see `collection_files`, one per line.

    Raises:
        StoreError: For GeoJSON where no image has a place.
        AnnotationError: For paths with a line break, and where ids are not paths.
    """
    check_choice("format", form, get_args(Format))
    if form == "paths":
        return paths_text(collection_files(store, annotations, name)).encode()
    return hits_file(collection_hits(store, annotations, name), form)


def hits_file(hits: Sequence[Hit], form: Literal["csv", "geojson"]) -> bytes:
    """The images of a collection as a file.

    Raises:
        StoreError: For GeoJSON where no image has a place.
    """
    if form == "csv":
        return as_csv(hits)
    if not any(hit.bbox for hit in hits):
        raise StoreError("geojson: none of these images has a place. Use csv or paths.")
    return as_geojson(hits)


def collection_files(store: Store, annotations: Annotations, name: str) -> list[str]:
    """The files of the images of a collection, as paths below the root of the archive, each once.

    The file of a window is that of its scene. Images that are not in the store any more are left out.

    Raises:
        AnnotationError: For windows of a STAC catalog, whose ids are not paths.
    """
    images = annotations.collections.images(name)

    def find(snapshot: Snapshot) -> list[str]:
        gone, files = set(snapshot.missing(images)), dict[str, None]()
        for row in snapshot.describe([image for image in images if image not in gone]):
            file = file_below(store.about.root, row.id, row.metadata)
            if file is None:
                raise AnnotationError(
                    f"collection '{name}': {shown(row.id)} is of a STAC catalog, whose ids are not paths of "
                    "files. Use csv."
                )
            files[file] = None
        return list(files)

    return store.read(find)


def paths_text(paths: Sequence[str]) -> str:
    """Paths, one per line.

    >>> paths_text(["a.png", "b.png"])
    'a.png\\nb.png\\n'
    """
    for path in paths:
        if len(path.splitlines()) > 1 or path.endswith("\n"):
            raise AnnotationError(
                f"{shown(path)}: has a line break, which a list of paths cannot hold. Use csv."
            )
    return "".join(f"{path}\n" for path in paths)


def _absent(image: str) -> Row:
    return Row(image, np.zeros(0, np.float32), metadata=_MISSING, labelled=False)
