"""The interface of a store: snapshots to read from, and what changes its rows."""
# ruff: noqa: D102  (the reading methods of `Store` are documented in `Snapshot`)

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

import numpy as np

from marcir.search.records import About, Filter, Neighbour, Row

T = TypeVar("T")
OptionalField = Literal["bbox", "date"]


class Snapshot(Protocol):
    """One state of the rows of a store, to be read from.

    An unknown id raises `MissingImageError`, an unknown label `StoreError`, both with the nearest known ones.
    """

    @property
    def exact(self) -> bool:
        """Whether search is exact; an approximate one may miss neighbours."""

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

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that have all of the labels; `StoreError` where there are none. (D,)"""

    def ids(self) -> list[str]:
        """All ids, sorted."""

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


class Store(Snapshot, Protocol):
    """A store of embeddings. Its own reading methods are those of its newest snapshot."""

    uri: str
    about: About

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """The result of `work` on one snapshot, so that its parts agree while others write.

        Where another process changes the store meanwhile, `work` may be repeated on a newer snapshot.
        """

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

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        return self.read(lambda snapshot: snapshot.centroid(labels))

    def ids(self) -> list[str]:
        return self.read(lambda snapshot: snapshot.ids())

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
