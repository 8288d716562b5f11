"""The records of a store: rows, filters, nearest neighbours, and its description."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from marcir.checks import check_within
from marcir.errors import StoreError
from marcir.schema import record

# How far from 1 the length of a unit vector may be.
_UNIT_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Row:
    """One image of the archive, as a store keeps it.

    Attributes:
        id: Path relative to the root of the archive.
        vector: Embedding, unit length, float32. (D,)
        labels: Names of its labels.
        unknown: Names of labels that it may have: whether it has them is not known.
        width: In pixels.
        height: In pixels.
        thumbnail: A JPEG of at most 256 pixels.
        content: Fingerprint of the bytes of the file.
        metadata: Everything else that is known of it.
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
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filter:
    """Which images may be found. Labels filter, they never rank.

    A label of an image is present, absent or unknown. Only labels that are known count.

    Attributes:
        any: At least one of these labels is present.
        all: All of these labels are present.
        none: All of these labels are absent.
        min_similarity: Minimum cosine similarity with the query, -1 to 1.
        without: Ids that are left out.
        none_unknown_ok: The labels of `none` may also be unknown.

    Raises:
        ConfigError: For a minimum outside of -1 to 1.

    >>> Filter(any=("ship", "dock"), none=("car",)).by_labels
    True
    """

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    min_similarity: float | None = None
    without: tuple[str, ...] = ()
    none_unknown_ok: bool = False

    def __post_init__(self) -> None:
        if self.min_similarity is not None:
            check_within("min_similarity", self.min_similarity, -1, 1)

    @property
    def by_labels(self) -> bool:
        """Whether it filters by labels."""
        return bool(self.label_names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels that it names."""
        return (*self.all, *self.any, *self.none)


@dataclass(frozen=True)
class Neighbour:
    """One of the nearest images of a query vector: id, cosine similarity with the query, and labels."""

    id: str
    similarity: float
    labels: tuple[str, ...]


@record()
class About:
    """The description of a store, kept in its header.

    Attributes:
        model: Fingerprint of the model that made its vectors.
        dim: Length of the vectors.
        root: Folder that the ids are relative to, when it was indexed.
        version: Of the store's tables. 2: images may have unknown labels, which version 1 cannot keep.
    """

    model: str
    dim: int
    root: str
    version: Literal[1, 2] = 1


def check_rows(rows: Sequence[Row], dim: int) -> None:
    """Refuse rows that a store cannot hold; the error names the id."""
    seen: set[str] = set()
    for row in rows:
        if not row.id:
            raise StoreError("an image without an id cannot be stored.")
        if row.id in seen:
            raise StoreError(f"duplicate id '{row.id}'. Keep one.")
        seen.add(row.id)
        if both := sorted(set(row.labels).intersection(row.unknown)):
            raise StoreError(f"'{row.id}': the label '{both[0]}' is both present and unknown.")
        if row.vector.shape != (dim,):
            raise StoreError(
                f"'{row.id}': a vector of {row.vector.shape}, the store holds vectors of ({dim},)."
            )
        if not np.isfinite(row.vector).all():
            raise StoreError(f"'{row.id}': its vector is not finite.")
        if abs(float(np.linalg.norm(row.vector)) - 1) > _UNIT_TOLERANCE:
            raise StoreError(f"'{row.id}': its vector is not of unit length.")


def check_queries(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Query vectors as float32 of unit length. (Q, D)

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
