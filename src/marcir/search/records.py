"""The records of a store: rows, filters, nearest neighbours, and its description."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from marcir.checks import check_within
from marcir.data.image_source import WindowCut
from marcir.errors import ConfigError, StoreError
from marcir.schema import record
from marcir.search.area import Area, Box, check_box

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
        labelled: Whether anything is known of its labels. Of an image that no table names, all labels are
            unknown; `labels` is empty then.
        width: In pixels.
        height: In pixels.
        thumbnail: A JPEG of at most 256 pixels.
        content: Fingerprint of the bytes of the file.
        metadata: Everything else that is known of it.
        bbox: West, south, east, north in degrees (WGS84), where known.
        date: When it was taken, where known.
        footprint: The ground that it shows, as WKB in degrees (WGS84), where known; within its bbox.
    """

    id: str
    vector: np.ndarray
    labels: tuple[str, ...] = ()
    width: int = 0
    height: int = 0
    thumbnail: bytes = b""
    content: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bbox: Box | None = None
    date: datetime.date | None = None
    unknown: tuple[str, ...] = ()
    footprint: bytes | None = None
    labelled: bool = True


@dataclass(frozen=True)
class Filter:
    """Which images may be found. Labels filter, they never rank.

    A label of an image is present, absent or unknown. Only labels that are known count. Of an image that is
    not labelled at all, every label is unknown.

    Attributes:
        any: At least one of these labels is present.
        all: All of these labels are present.
        none: All of these labels are absent.
        min_similarity: Minimum cosine similarity with the query, -1 to 1.
        without: Ids that are left out.
        among: Only these ids; None for all. Ids that are not in the store find nothing.
        none_unknown_ok: The labels of `none` may also be unknown.
        bbox: Images whose footprint, or else bounding box, touches this box: west, south, east, north in
            degrees (WGS84); west > east across the date line.
        within: Images whose footprint, or else bounding box, touches this area.
        date_from: Images of this day or later.
        date_to: Images of this day or earlier.

    Images without a place, or without a date, do not pass a filter by it.

    Raises:
        ConfigError: For a minimum outside of -1 to 1, a box that is none, and dates in the wrong order.

    >>> Filter(any=("ship", "dock"), none=("car",)).by_labels
    True
    """

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    min_similarity: float | None = None
    without: tuple[str, ...] = ()
    none_unknown_ok: bool = False
    bbox: Box | None = None
    within: Area | None = None
    date_from: datetime.date | None = None
    date_to: datetime.date | None = None
    among: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.min_similarity is not None:
            check_within("min_similarity", self.min_similarity, -1, 1)
        if self.bbox is not None:
            check_box(self.bbox, f"bbox = {self.bbox}: must be west, south, east, north in degrees.")
        if self.date_from is not None and self.date_to is not None and self.date_from > self.date_to:
            raise ConfigError(f"dates from {self.date_from} to {self.date_to}: give the earlier one first.")

    @property
    def by_labels(self) -> bool:
        """Whether it filters by labels."""
        return bool(self.label_names)

    @property
    def by_place(self) -> bool:
        """Whether it filters by place."""
        return self.bbox is not None or self.within is not None

    @property
    def by_place_or_date(self) -> bool:
        """Whether it filters by place or date."""
        return self.by_place or self.date_from is not None or self.date_to is not None

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels that it names."""
        return (*self.all, *self.any, *self.none)


class LabelStates(NamedTuple):
    """Labels of an image: those that it has, and those of which it is unknown whether it has them."""

    present: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Neighbour:
    """One of the nearest images of a query vector: id, cosine similarity with the query, and labels."""

    id: str
    similarity: float
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Extent:
    """Where and when the images of a store were taken; None where no image has a place, or a date.

    Attributes:
        bbox: The smallest box around all of them: west, south, east, north in degrees (WGS84); west > east
            across the date line.
        first: The earliest date.
        last: The latest date.
    """

    bbox: Box | None = None
    first: datetime.date | None = None
    last: datetime.date | None = None


@record()
class About:
    """The description of a store, kept in its header.

    Attributes:
        model: Fingerprint of the model that made its vectors.
        dim: Length of the vectors.
        root: Folder that the ids are relative to, when it was indexed.
        version: Of the store's tables. 2: images may have unknown labels, which version 1 cannot keep. 3:
            images may have footprints, and may be windows of scenes.
        windows: How windows were cut from scenes; None where the images are files.
    """

    model: str
    dim: int
    root: str
    version: Literal[1, 2, 3] = 1
    windows: WindowCut | None = None


def check_rows(rows: Sequence[Row], dim: int) -> None:
    """Refuse rows that a store cannot hold; the error names the id."""
    seen: set[str] = set()
    for row in rows:
        if not row.id:
            raise StoreError("an image without an id cannot be stored.")
        if row.id in seen:
            raise StoreError(f"duplicate id '{row.id}'. Keep one.")
        seen.add(row.id)
        if row.labels and not row.labelled:
            raise StoreError(f"'{row.id}': has labels, but is said to be not labelled.")
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
