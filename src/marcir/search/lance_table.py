"""One version of a table in LanceDB, read as Arrow tables."""
# ruff: noqa: D102  (documented in `RowTable`)

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from marcir.search.arrow import OPTIONAL, complete
from marcir.search.lance_io import translate_errors
from marcir.search.store import RowTable


def optional_columns(table: Any) -> set[str]:
    """The columns of `OPTIONAL` that a LanceDB table has."""
    return OPTIONAL.keys() & set(table.schema.names)


class LanceTable(RowTable):
    """A LanceDB table of rows.

    Args:
        uri: The store.
        table: Opened for this object alone, so that it stays at one version.
    """

    def __init__(self, uri: str, table: Any) -> None:
        self._uri, self._table = uri, table

    def select(
        self,
        columns: list[str] | None,
        condition: str | None = None,
        limit: int | None = None,
        row_ids: bool = False,
    ) -> pa.Table:
        """Columns of the rows that fulfil a condition; all columns and rows by default.

        Args:
            columns: Their names.
            condition: In SQL.
            limit: Number of rows.
            row_ids: Whether the column `_rowid` is added.
        """
        with translate_errors(self._uri):
            query = self._table.search().with_row_id(row_ids)
            if columns is not None:
                query = query.select(self._present(columns))
            query = query if condition is None else query.where(condition)
            found = query.limit(limit or self._most()).to_arrow()
        return complete(found, OPTIONAL if columns is None else columns)

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.Table]]:
        with translate_errors(self._uri):
            query = self._table.search().select(self._present(columns)).with_row_id(True)
            for batch in query.limit(self._most()).to_batches():
                table = pa.Table.from_batches([batch])
                keys = table["_rowid"].to_numpy()
                yield keys, complete(table, columns).select(list(columns))

    def take(self, keys: np.ndarray, columns: Sequence[str]) -> pa.Table:
        with translate_errors(self._uri):
            query = self._table.take_row_ids(keys.tolist()).select(self._present(columns)).with_row_id()
            found = query.to_arrow()
        # LanceDB sorts the rows by their ids.
        order = np.argsort(found["_rowid"].to_numpy())
        order = order[np.searchsorted(found["_rowid"].to_numpy(), keys, sorter=order)]
        return complete(found, columns).select(list(columns)).take(order)

    def _present(self, columns: Iterable[str]) -> list[str]:
        """Those of the columns that the table has."""
        absent = OPTIONAL.keys() - self.optional
        return [name for name in columns if name not in absent]

    @property
    def optional(self) -> set[str]:
        """The columns of `OPTIONAL` that the table has."""
        return optional_columns(self._table)

    def count_rows(self, condition: str | None = None) -> int:
        """Number of rows that fulfil a condition; of all rows by default."""
        with translate_errors(self._uri):
            return int(self._table.count_rows(condition))

    def _most(self) -> int:
        """A limit that all rows are within; LanceDB refuses 0."""
        return max(1, int(self._table.count_rows()))
