"""The rows of a LanceDB table in the order of ids, found again by the row ids of LanceDB."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marcir.errors import StoreError
from marcir.search.listing_order import NO_DATE, ListingOrder


class TableRows:
    """Ids and dates of one version of a table.

    Args:
        table: Its columns `id`, `date` and `_rowid`, in any order.
    """

    def __init__(self, table: pa.Table) -> None:
        order = pc.sort_indices(table["id"])
        self.ids: pa.Array = table["id"].take(order).combine_chunks()
        days = table["date"].take(order).cast(pa.int32())
        self.listing = ListingOrder(np.asarray(pc.fill_null(days, NO_DATE)))
        row_ids = np.asarray(table["_rowid"].take(order))  # (N,)
        self._rows = np.argsort(row_ids)
        self._row_ids = row_ids[self._rows]

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, row_ids: pa.ChunkedArray) -> np.ndarray:
        """Rows by their LanceDB row ids. (M,)

        Raises:
            StoreError: For row ids of another version of the table.
        """
        wanted = np.asarray(row_ids)
        places = np.searchsorted(self._row_ids, wanted)
        if not np.array_equal(self._row_ids[places[places < len(self)]], wanted):
            raise StoreError("the store has changed while it was read. Try again.")
        rows: np.ndarray = self._rows[places]
        return rows

    def find_ids(self, ids: pa.Array) -> np.ndarray:
        """Rows by the ids of their images; -1 where there is none. (M,)"""
        return np.asarray(pc.fill_null(pc.index_in(ids, self.ids), -1), dtype=np.int64)
