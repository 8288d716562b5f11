"""Exact search: all vectors in one matrix."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from marcir.checks import whole
from marcir.errors import StoreError
from marcir.search.label_index import LabelIndex
from marcir.search.missing import missing
from marcir.search.records import Filter, Neighbour, Row, check_queries
from marcir.search.store import OptionalField
from marcir.search.topk import best

# Vectors that are summed at a time: most images of a large store may have one label.
_ROWS = 2**16


class Details(Protocol):
    """Where an exact search finds what is neither id, vector nor label."""

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images in the order of their ids, without vector and thumbnail."""

    def knows(self, what: OptionalField) -> bool:
        """Whether any image has a bounding box, or a date."""


class ExactSearch:
    """A `Snapshot` whose vectors are in memory; never changed, so that threads may share it.

    Args:
        ids: Sorted.
        vectors: float32, in the order of the ids. (N, D)
        labels: Label names of each image.
        details: What else is known of the images.
    """

    exact = True

    def __init__(
        self, ids: Sequence[str], vectors: np.ndarray, labels: Sequence[Sequence[str]], details: Details
    ) -> None:
        self._ids, self._vectors, self._labels = ids, vectors, labels
        self._label_index = LabelIndex(labels)
        self.describe, self.knows = details.describe, details.knows

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        """The k nearest images of each vector, after the first `offset`. (Q, D)"""
        queries = check_queries(vectors, self._vectors.shape[1])
        end = whole("offset", offset, 0) + whole("k", k, 1)
        least = None if where is None else where.min_similarity
        return [
            [
                Neighbour(self._ids[row], value, tuple(self._labels[row]))
                for row, value in zip(rows[offset:].tolist(), values[offset:].tolist(), strict=True)
            ]
            for rows, values in best(self._vectors, queries, end, self._allowed(where), least)
        ]

    def look_up(self, image: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of one image."""
        row = position(self._ids, image)
        return self._vectors[row], tuple(self._labels[row])

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that have all of the labels. (D,)"""
        rows = np.flatnonzero(self._label_index.carrying(labels))
        if not len(rows):
            raise no_common_image(labels)
        parts = [
            self._vectors[rows[start : start + _ROWS]].sum(0, dtype=np.float64)
            for start in range(0, len(rows), _ROWS)
        ]
        mean: np.ndarray = np.sum(parts, axis=0) / len(rows)
        return mean.astype(np.float32)

    def ids(self) -> list[str]:
        """All ids, sorted."""
        return list(self._ids)

    def count(self, where: Filter | None = None) -> int:
        """Number of images that pass a filter."""
        allowed = self._allowed(where)
        return len(self._ids) if allowed is None else int(np.count_nonzero(allowed))

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        """For every label, how many of the images that pass a filter have it."""
        return self._label_index.counts(self._allowed(where))

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        """Ids of random images that pass a filter."""
        allowed = self._allowed(where)
        rows = np.arange(len(self._ids)) if allowed is None else np.flatnonzero(allowed)
        return [self._ids[row] for row in random_rows(rows, count, seed).tolist()]

    def _allowed(self, where: Filter | None) -> np.ndarray | None:
        """Rows that pass a filter, bool; None where all do. (N,)"""
        mask = self._label_index.allowed(where)
        if where is None or not where.without:
            return mask
        mask = np.ones(len(self._ids), dtype=bool) if mask is None else mask
        mask[[row for row in (_position(self._ids, image) for image in where.without) if row is not None]] = (
            False
        )
        return mask


def position(ids: Sequence[str], image: str) -> int:
    """The position of an id among sorted ids.

    Raises:
        MissingImageError: Where it is not there.

    >>> position(["a", "b"], "b")
    1
    """
    row = _position(ids, image)
    if row is None:
        raise missing(image, ids)
    return row


def _position(ids: Sequence[str], image: str) -> int | None:
    row = bisect_left(ids, image)
    return row if row < len(ids) and ids[row] == image else None


def no_common_image(labels: Sequence[str]) -> StoreError:
    """The error for labels that no image has together."""
    return StoreError(f"no image of the store carries all of: {', '.join(labels)}.")


def random_rows(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random rows, each once; all of them where they are fewer than `count`.

    >>> random_rows(np.array([3, 5, 7]), 2, seed=0)
    array([7, 3])
    """
    whole("count", count, 1)
    order = np.random.default_rng(whole("seed", seed, 0)).permutation(len(rows))
    chosen: np.ndarray = rows[order[:count]]
    return chosen
