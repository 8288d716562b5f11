"""What a store keeps, what it is asked, and what it answers."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from marcir.checks import check_finite
from marcir.errors import ConfigError, StoreError
from marcir.schema import record

# How far from 1 the length of a unit vector may be.
_UNIT = 1e-2


@dataclass(frozen=True, eq=False)
class Row:
    """An image of the archive.

    Attributes:
        id: Its path, relative to the archive's root.
        vector: Its embedding, unit length, float32. (D,)
        labels: Names of its labels.
        width: In pixels.
        height: In pixels.
        thumbnail: A JPEG of at most 256 pixels.
        content: Fingerprint of the file's bytes.
        metadata: Whatever else is known of it.
        bbox: West, south, east, north in degrees (WGS84), where known.
        date: When it was taken, where known.
    """

    id: str
    vector: np.ndarray
    labels: tuple[str, ...] = ()
    width: int = 0
    height: int = 0
    thumbnail: bytes = b""
    content: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bbox: tuple[float, float, float, float] | None = None
    date: datetime.date | None = None


@dataclass(frozen=True)
class Filter:
    """Which images may be found; labels filter, they never rank.

    Attributes:
        any: At least one of these labels.
        all: All of these labels.
        none: None of these labels.
        min_similarity: Least cosine with the query, -1 to 1.
        without: Ids that are left out.

    Raises:
        ConfigError: For a least cosine that no cosine can be.
    """

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    min_similarity: float | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (
            self.min_similarity is not None
            and not -1 <= check_finite("min_similarity", self.min_similarity) <= 1
        ):
            raise ConfigError(
                f"min_similarity = {self.min_similarity}: must lie between -1 and 1, as every cosine does."
            )

    @property
    def by_labels(self) -> bool:
        """Whether any label is named."""
        return bool(self.any or self.all or self.none)


@dataclass(frozen=True)
class Hit:
    """An image that was found.

    Attributes:
        id: Its id.
        similarity: Cosine with the query.
        labels: Names of its labels.
    """

    id: str
    similarity: float
    labels: tuple[str, ...]


@record()
class About:
    """What a store says of itself.

    Attributes:
        model: Fingerprint of the model whose vectors it holds.
        dim: Their length.
        root: The folder that its ids start from, when it was indexed.
        version: Of the store's tables.
    """

    model: str
    dim: int
    root: str
    version: Literal[1] = 1


class Store(Protocol):
    """What every store does."""

    about: About

    def add(self, rows: Sequence[Row]) -> None:
        """Add images; one whose id is there already is replaced."""

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Hit]]:
        """The k most similar images to each vector, best first; ties in the order of ids. (Q, D)

        With an offset, as many of the best are passed over: pages of one answer share no image.
        """

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, in the order of the ids.

        Raises:
            MissingImageError: Names an id that is not there.
        """

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, with neither vector nor thumbnail: those are large."""

    def look_up(self, image: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of one image."""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; how many there were."""

    def count(self, where: Filter | None = None) -> int:
        """Number of images."""

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        """Of the images that a filter lets through, how many carry each label of the store; also none."""

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        """Ids of some images, drawn at random; the same for the same seed."""

    def optimize(self) -> None:
        """Tidy up after many changes."""


def check_rows(rows: Sequence[Row], dim: int) -> None:
    """Refuse rows that do not belong into a store.

    Raises:
        StoreError: Names the id.
    """
    seen: set[str] = set()
    for row in rows:
        if not row.id:
            raise StoreError("an image without an id cannot be stored.")
        if row.id in seen:
            raise StoreError(f"duplicate id '{row.id}'. Keep one.")
        seen.add(row.id)
        if row.vector.shape != (dim,):
            raise StoreError(
                f"'{row.id}': a vector of {row.vector.shape}, the store holds vectors of ({dim},)."
            )
        if not np.isfinite(row.vector).all():
            raise StoreError(f"'{row.id}': its vector is not finite.")
        if abs(float(np.linalg.norm(row.vector)) - 1) > _UNIT:
            raise StoreError(f"'{row.id}': its vector is not of unit length.")


def check_queries(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Query vectors as float32 at unit length. (Q, D)

    Raises:
        StoreError: For another shape, and for vectors without a direction.
    """
    try:
        queries = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise StoreError(f"a query must be an array of vectors of ({dim},).") from error
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise StoreError(f"a query of shape {np.shape(vectors)}: the store holds vectors of ({dim},).")
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    if not np.isfinite(queries).all() or not (lengths > 0).all():
        raise StoreError("a query vector is zero or not finite and has no direction.")
    unit: np.ndarray = queries / lengths
    return unit
