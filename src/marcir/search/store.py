"""The interface of a store: snapshots to read from, and what changes its rows."""
# ruff: noqa: D102  (the reading methods of `Store` are documented in `Snapshot`)

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np

from marcir.search.embedding_map import EmbeddingMap
from marcir.search.listing_order import Listed, SortKey
from marcir.search.records import About, Extent, Filter, LabelStates, Neighbour, Row

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
OptionalField = Literal["bbox", "date"]


class Snapshot(Protocol):
    """One state of the rows of a store, to be read from.

    An unknown id raises `MissingImageError`, an unknown label `StoreError`, both with the nearest known ones.
    """

    @property
    def exact(self) -> bool:
        """Whether search is exact; an approximate one may miss neighbours."""

    @property
    def version(self) -> str:
        """A text that is another one where the rows are others; their labels may be relabelled."""

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        """The k nearest images of each vector, best first; ties in the order of ids. (Q, D)

        With an offset, that many of the best are skipped: pages of one search share no image.
        """

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images in the order of their ids, without vector and thumbnail, which are large."""

    def look_up(self, image: str) -> Row:
        """Vector, labels and unknown labels of one image; the rest may be left out."""

    def look_up_all(self, ids: Sequence[str]) -> list[Row]:
        """`look_up` of many images, in their order."""

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Those of some ids that are not in the store, in their order."""

    def with_labels(self, labels: Mapping[str, LabelStates], unknown: Sequence[str]) -> "Snapshot":
        """The same images with other labels.

        Where search is approximate, rows have them, but filters, counts and `centroid` do not.

        Args:
            labels: Present and unknown labels of some images of the store, instead of their own.
            unknown: Labels that are unknown for all others.
        """

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that have all of the labels; `StoreError` where there are none. (D,)"""

    def ids(self, where: Filter | None = None) -> list[str]:
        """Ids of all images that pass a filter, sorted."""

    def extent(self) -> Extent:
        """Where and when the images were taken."""

    def count(self, where: Filter | None = None) -> int:
        """Number of images that pass a filter."""

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        """For every label of the store, how many of the images that pass a filter have it; may be 0."""

    def unknown_counts(self, where: Filter | None = None) -> dict[str, int]:
        """Likewise, of how many it is unknown whether they have it."""

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        """Ids of random images that pass a filter; the same for the same seed."""

    def knows(self, what: OptionalField) -> bool:
        """Whether any image has a bounding box, or a date."""

    def page(
        self,
        offset: int,
        limit: int,
        where: Filter | None = None,
        sort: SortKey = "id",
        descending: bool = False,
    ) -> Listed:
        """Images that pass a filter, in an order; those without a date are last when sorted by date."""

    # Rows count from 0 in the order of ids.

    def rows(self, where: Filter | None = None) -> np.ndarray:
        """Rows of the images that pass a filter. (M,)"""

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        """Rows of images; -1 where there is none. (M,)"""

    def ids_of(self, rows: np.ndarray) -> list[str]:
        """Ids of the images of some rows. (M,)"""

    def states(self, label: str) -> np.ndarray:
        """For every row 1 where a label is present, 0 where it is absent, -1 where it is unknown, int8. (N,)

        A label that the store does not know is unknown for all of them, and all labels are unknown for an
        image that is not labelled.
        """

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of some rows. (M,) -> (M, D)"""

    def products(self, weights: np.ndarray) -> np.ndarray:
        """Products of all rows with a vector of any length, float32. (D,) -> (N,)"""


class RowTable(Protocol):
    """One state of the rows of a store as Arrow tables: all of them can be read, but not all at once."""

    def scan(self, columns: Sequence[str]) -> "Iterator[tuple[np.ndarray, pa.Table]]":
        """All rows in parts: their keys, uint64, and some of their columns. (N,)"""

    def take(self, keys: np.ndarray, columns: Sequence[str]) -> "pa.Table":
        """Columns of the rows with these keys, in this order. (N,)"""


class Store(Snapshot, Protocol):
    """A store of embeddings. Its own reading methods are those of its newest snapshot."""

    uri: str
    about: About

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """The result of `work` on one snapshot, so that its parts agree while others write.

        Where another process changes the store meanwhile, `work` may be repeated on a newer snapshot.
        """

    def read_table(self, work: Callable[[RowTable], T]) -> T:
        """Likewise, on all rows of one state."""

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Complete images, in the order of their ids."""

    def thumbnail(self, image: str) -> bytes:
        """The JPEG of one image."""
        return self.get([image])[0].thumbnail

    def contents(self) -> dict[str, str]:
        """Fingerprint of the file of every image, by id."""
        return {row.id: row.content for row in self.describe(self.ids())}

    def model_files(self) -> dict[str, bytes]:
        """The files of the model that made the vectors."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add images in one commit; an image whose id is there already is replaced."""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; returns how many there were."""

    def optimize(self) -> None:
        """Bring files and indices in order after many changes."""

    def read_map(self) -> EmbeddingMap | None:
        """The map of the images in two dimensions, where one was made."""

    def write_map(self, found: EmbeddingMap) -> None:
        """Replace the map."""

    def search_method(self) -> str:
        """How vectors are searched, for `marcir info`."""

    @property
    def exact(self) -> bool:
        return self.read(lambda snapshot: snapshot.exact)

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        return self.read(lambda snapshot: snapshot.search(vectors, k, where, offset))

    def describe(self, ids: Sequence[str]) -> list[Row]:
        return self.read(lambda snapshot: snapshot.describe(ids))

    def look_up(self, image: str) -> Row:
        return self.read(lambda snapshot: snapshot.look_up(image))

    def look_up_all(self, ids: Sequence[str]) -> list[Row]:
        return self.read(lambda snapshot: snapshot.look_up_all(ids))

    def missing(self, ids: Sequence[str]) -> list[str]:
        return self.read(lambda snapshot: snapshot.missing(ids))

    def with_labels(self, labels: Mapping[str, LabelStates], unknown: Sequence[str]) -> Snapshot:
        return self.read(lambda snapshot: snapshot.with_labels(labels, unknown))

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.centroid(labels))

    def ids(self, where: Filter | None = None) -> list[str]:
        return self.read(lambda snapshot: snapshot.ids(where))

    def extent(self) -> Extent:
        return self.read(lambda snapshot: snapshot.extent())

    def count(self, where: Filter | None = None) -> int:
        return self.read(lambda snapshot: snapshot.count(where))

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self.read(lambda snapshot: snapshot.label_counts(where))

    def unknown_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self.read(lambda snapshot: snapshot.unknown_counts(where))

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        return self.read(lambda snapshot: snapshot.sample(count, seed, where))

    def knows(self, what: OptionalField) -> bool:
        return self.read(lambda snapshot: snapshot.knows(what))

    @property
    def version(self) -> str:
        return self.read(lambda snapshot: snapshot.version)

    def page(
        self,
        offset: int,
        limit: int,
        where: Filter | None = None,
        sort: SortKey = "id",
        descending: bool = False,
    ) -> Listed:
        return self.read(lambda snapshot: snapshot.page(offset, limit, where, sort, descending))

    def rows(self, where: Filter | None = None) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.rows(where))

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.rows_of(ids))

    def ids_of(self, rows: np.ndarray) -> list[str]:
        return self.read(lambda snapshot: snapshot.ids_of(rows))

    def states(self, label: str) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.states(label))

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.vectors(rows))

    def products(self, weights: np.ndarray) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.products(weights))
