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

    Attributes:
        ids: Ids of the images, sorted. (N,)
        listing: Their order by date.
        row_ids: Their row ids in LanceDB, uint64. (N,)
    """

    def __init__(self, table: pa.Table) -> None:
        order = pc.sort_indices(table["id"])
        self.ids: pa.Array = table["id"].take(order).combine_chunks()
        days = table["date"].take(order).cast(pa.int32())
        self.listing = ListingOrder(np.asarray(pc.fill_null(days, NO_DATE)))
        self.row_ids = np.asarray(table["_rowid"].take(order))
        self._rows = np.argsort(self.row_ids)
        self._sorted = self.row_ids[self._rows]

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, row_ids: pa.ChunkedArray) -> np.ndarray:
        """Rows by their LanceDB row ids. (M,)

        Raises:
            StoreError: For row ids of another version of the table.
        """
        wanted = np.asarray(row_ids)
        places = np.searchsorted(self._sorted, wanted)
        if not np.array_equal(self._sorted[places[places < len(self)]], wanted):
            raise StoreError("the store has changed while it was read. Try again.")
        rows: np.ndarray = self._rows[places]
        return rows

    def find_ids(self, ids: pa.Array) -> np.ndarray:
        """Rows by the ids of their images; -1 where there is none. (M,)"""
        return np.asarray(pc.fill_null(pc.index_in(ids, self.ids), -1), dtype=np.int64)
