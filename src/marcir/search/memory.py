"""A store in memory: the reference that all other stores are tested against."""
# ruff: noqa: D102  (documented in `Store`)

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from marcir.errors import needs
from marcir.search.exact import ExactSearch
from marcir.search.missing import missing
from marcir.search.records import About, Row, check_rows
from marcir.search.store import Snapshot, Store

with needs("store"):
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

    def read(self, work: Callable[[Snapshot], T]) -> T:
        if self._snapshot is None:
            table = to_table(list(self._rows.values()), self.about.dim)
            self._snapshot = ExactSearch(table.drop(["thumbnail"]))
        return work(self._snapshot)

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

    def optimize(self) -> None:
        pass

    def search_method(self) -> str:
        return "exactly, in memory"
