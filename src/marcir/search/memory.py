"""A store in memory: the reference that all other stores are tested against."""
# ruff: noqa: D102  (documented in `Store`)

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from marcir.errors import needs
from marcir.search.embedding_map import EmbeddingMap
from marcir.search.exact import ExactSearch
from marcir.search.missing import missing
from marcir.search.records import About, Row, check_rows
from marcir.search.store import RowTable, Snapshot, Store

with needs("store"):
    import pyarrow as pa

    from marcir.search.arrow import to_table

T = TypeVar("T")


class MemoryStore(Store):
    """All rows in memory, searched exactly.

    Args:
        about: What it holds.
        model: The files of the model that made the vectors, by name.
    """

    def __init__(self, about: About, model: Mapping[str, bytes] | None = None) -> None:
        self.uri, self.about = "memory", about
        self._model = dict(model or {})
        self._rows: dict[str, Row] = {}
        self._snapshot: ExactSearch | None = None
        self._map: EmbeddingMap | None = None

    def read(self, work: Callable[[Snapshot], T]) -> T:
        if self._snapshot is None:
            table = to_table(list(self._rows.values()), self.about.dim)
            self._snapshot = ExactSearch(table.drop(["thumbnail"]))
        return work(self._snapshot)

    def read_table(self, work: Callable[[RowTable], T]) -> T:
        return work(_MemoryRows(to_table(list(self._rows.values()), self.about.dim)))

    def get(self, ids: Sequence[str]) -> list[Row]:
        for image in ids:
            if image not in self._rows:
                raise missing(image, self.ids())
        return [self._rows[image] for image in ids]

    def add(self, rows: Sequence[Row]) -> None:
        check_rows(rows, self.about.dim)
        self._rows |= {row.id: row for row in rows}
        self._snapshot = None

    def delete(self, ids: Sequence[str]) -> int:
        self._snapshot = None
        return sum(self._rows.pop(image, None) is not None for image in dict.fromkeys(ids))

    def model_files(self) -> dict[str, bytes]:
        return dict(self._model)

    def read_map(self) -> EmbeddingMap | None:
        return self._map

    def write_map(self, found: EmbeddingMap) -> None:
        self._map = found

    def optimize(self) -> None:
        pass

    def search_method(self) -> str:
        return "exactly, in memory"


class _MemoryRows(RowTable):
    """Rows in the order in which they were added; their keys are their positions."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.Table]]:
        yield np.arange(self._table.num_rows, dtype=np.uint64), self._table.select(list(columns))

    def take(self, keys: np.ndarray, columns: Sequence[str]) -> pa.Table:
        return self._table.select(list(columns)).take(keys)
