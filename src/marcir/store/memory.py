"""The exact store in memory: the reference, and what other stores search with."""

from collections.abc import Sequence

import numpy as np
import torch

from marcir.checks import whole
from marcir.errors import StoreError, did_you_mean
from marcir.store.exact import best
from marcir.store.label_index import LabelIndex
from marcir.store.records import About, Filter, Hit, Row, check_queries, check_rows


class VectorMatrix:
    """Vectors in one matrix, in the order of their ids, with their labels.

    Args:
        ids: In order.
        vectors: float32. (N, D)
        labels: Label names of each.
    """

    def __init__(self, ids: Sequence[str], vectors: np.ndarray, labels: Sequence[Sequence[str]]) -> None:
        self.ids, self.vectors = ids, torch.from_numpy(vectors)
        self.labels = LabelIndex(labels)

    def search(self, queries: np.ndarray, k: int, where: Filter | None) -> list[list[Hit]]:
        """The k most similar rows to each query. (Q, D)"""
        whole("k", k, 1)
        allowed = self.labels.allowed(where)
        least = None if where is None else where.min_similarity
        found = best(self.vectors, torch.from_numpy(queries), k, allowed, least)
        return [
            [
                Hit(self.ids[row], value, tuple(self.labels.labels[row]))
                for row, value in zip(rows.tolist(), values.tolist(), strict=True)
            ]
            for rows, values in found
        ]

    def count(self, where: Filter | None) -> int:
        """Rows that a filter lets through."""
        allowed = self.labels.allowed(where)
        return len(self.ids) if allowed is None else int(allowed.sum())

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean of the vectors that carry all of the labels. (D,)

        Raises:
            StoreError: Where there are none.
        """
        rows = np.flatnonzero(self.labels.carrying(labels))
        if not len(rows):
            raise StoreError(f"no image of the store carries all of: {', '.join(labels)}.")
        mean: np.ndarray = self.vectors[torch.from_numpy(rows)].mean(0).numpy()
        return mean


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

    def search(self, vectors: np.ndarray, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k most similar images to each vector, best first; ties in the order of ids. (Q, D)"""
        return self.matrix.search(check_queries(vectors, self.about.dim), k, where)

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, in the order of the ids."""
        for image in ids:
            if image not in self._rows:
                raise missing(image, self.matrix.ids)
        return [self._rows[image] for image in ids]

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; how many there were."""
        found = [image for image in dict.fromkeys(ids) if self._rows.pop(image, None) is not None]
        self._matrix = None
        return len(found)

    def count(self, where: Filter | None = None) -> int:
        """Number of images."""
        return self.matrix.count(where)

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


def missing(image: str, ids: Sequence[str]) -> StoreError:
    """The error for an id that is not there, with the nearest one."""
    hint = did_you_mean(image, ids[:2000])
    return StoreError(f"no image '{image}' in the store. {hint if hint.startswith('Did') else ''}".strip())
