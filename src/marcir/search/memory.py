"""The exact store in memory: the reference, and what other stores search with."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marcir.checks import check_int
from marcir.errors import StoreError
from marcir.search.label_index import LabelIndex
from marcir.search.missing import missing
from marcir.search.records import About, Filter, Hit, Row, check_queries, check_rows
from marcir.search.topk import best

# Vectors whose mean is taken at a time: a label may be that of most images of a large store.
_ROWS = 2**16


class VectorMatrix:
    """Vectors in one matrix, in the order of their ids, with their labels.

    Args:
        ids: In order.
        vectors: float32. (N, D)
        labels: Label names of each.
    """

    def __init__(self, ids: Sequence[str], vectors: np.ndarray, labels: Sequence[Sequence[str]]) -> None:
        self.ids, self.vectors = ids, vectors
        self.labels = LabelIndex(labels)

    def search(self, queries: np.ndarray, k: int, where: Filter | None, offset: int = 0) -> list[list[Hit]]:
        """The k most similar rows to each query, after the first `offset`. (Q, D)"""
        check_int("k", k, 1)
        check_int("offset", offset, 0)
        least = None if where is None else where.min_similarity
        found = best(self.vectors, queries, offset + k, self.allowed(where), least)
        return [
            [
                Hit(self.ids[row], value, tuple(self.labels.labels[row]))
                for row, value in zip(rows[offset:].tolist(), values[offset:].tolist(), strict=True)
            ]
            for rows, values in found
        ]

    def allowed(self, where: Filter | None) -> np.ndarray | None:
        """Rows that a filter lets through, bool; None where it lets all through. (N,)"""
        mask = self.labels.allowed(where)
        if where is None or not where.without:
            return mask
        mask = np.ones(len(self.ids), dtype=bool) if mask is None else mask
        mask[[row for row in map(self._row, where.without) if row is not None]] = False
        return mask

    def count(self, where: Filter | None) -> int:
        """Rows that a filter lets through."""
        allowed = self.allowed(where)
        return len(self.ids) if allowed is None else int(np.count_nonzero(allowed))

    def sample(self, count: int, seed: int, where: Filter | None) -> list[str]:
        """Ids of rows that a filter lets through, drawn at random."""
        allowed = self.allowed(where)
        rows = np.arange(len(self.ids)) if allowed is None else np.flatnonzero(allowed)
        return [self.ids[row] for row in drawn(rows, count, seed).tolist()]

    def row(self, image: str) -> int:
        """The place of an id.

        Raises:
            MissingImageError: Where it is not there.
        """
        found = self._row(image)
        if found is None:
            raise missing(image, self.ids)
        return found

    def look_up(self, image: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of an id."""
        row = self.row(image)
        return self.vectors[row], tuple(self.labels.labels[row])

    def _row(self, image: str) -> int | None:
        row = bisect_left(self.ids, image)
        return row if row < len(self.ids) and self.ids[row] == image else None

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean of the vectors that carry all of the labels. (D,)

        Raises:
            StoreError: Where there are none.
        """
        rows = np.flatnonzero(self.labels.carrying(labels))
        if not len(rows):
            raise StoreError(f"no image of the store carries all of: {', '.join(labels)}.")
        parts = [
            self.vectors[rows[start : start + _ROWS]].sum(0, dtype=np.float64)
            for start in range(0, len(rows), _ROWS)
        ]
        mean: np.ndarray = np.sum(parts, axis=0) / len(rows)
        return mean.astype(np.float32)


class MemoryStore:
    """All rows in memory; searched exactly.

    Args:
        about: What it holds.
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self._rows: dict[str, Row] = {}
        self._matrix: VectorMatrix | None = None

    def add(self, rows: Sequence[Row]) -> None:
        """Add images; one whose id is there already is replaced."""
        check_rows(rows, self.about.dim)
        self._rows |= {row.id: row for row in rows}
        self._matrix = None

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Hit]]:
        """The k most similar images to each vector, best first; ties in the order of ids. (Q, D)"""
        return self.matrix.search(check_queries(vectors, self.about.dim), k, where, offset)

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, in the order of the ids."""
        for image in ids:
            if image not in self._rows:
                raise missing(image, self.matrix.ids)
        return [self._rows[image] for image in ids]

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, with neither vector nor thumbnail."""
        return [replace(row, vector=np.zeros(0, np.float32), thumbnail=b"") for row in self.get(ids)]

    def look_up(self, image: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of one image."""
        return self.matrix.look_up(image)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; how many there were."""
        found = [image for image in dict.fromkeys(ids) if self._rows.pop(image, None) is not None]
        self._matrix = None
        return len(found)

    def count(self, where: Filter | None = None) -> int:
        """Number of images."""
        return self.matrix.count(where)

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        """Of the images that a filter lets through, how many carry each label."""
        return self.matrix.labels.counts(self.matrix.allowed(where))

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        """Ids of some images, drawn at random; the same for the same seed."""
        return self.matrix.sample(count, seed, where)

    def optimize(self) -> None:
        """Nothing to tidy up."""

    @property
    def matrix(self) -> VectorMatrix:
        """All vectors, in the order of ids."""
        if self._matrix is None:
            rows = [self._rows[image] for image in sorted(self._rows)]
            vectors = np.zeros((len(rows), self.about.dim), dtype=np.float32)
            for place, row in enumerate(rows):
                vectors[place] = row.vector
            self._matrix = VectorMatrix([row.id for row in rows], vectors, [row.labels for row in rows])
        return self._matrix


def drawn(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Some of the rows at random, each once; all of them where they are fewer.

    >>> drawn(np.array([3, 5, 7]), 2, seed=0)
    array([7, 3])
    """
    check_int("count", count, 1)
    order = np.random.default_rng(check_int("seed", seed, 0)).permutation(len(rows))
    chosen: np.ndarray = rows[order[:count]]
    return chosen
