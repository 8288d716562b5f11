"""The rows of a store in memory, as of one version of it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marcir.search.arrow import DETAILS, LabelColumn, described, vector_matrix
from marcir.search.memory import VectorMatrix
from marcir.search.records import Row


class Loaded:
    """What was read at one version; never changed afterwards, so that threads may share it.

    Args:
        version: Of the table.
        table: Ids, vectors, labels, and all of `DETAILS` or none of them.
    """

    def __init__(self, version: int, table: pa.Table) -> None:
        self.version = version
        # Arrow takes ten times as long to move rows of vectors.
        order = pc.sort_indices(table["id"])
        rest = table.drop(["vector"]).take(order).combine_chunks()
        vectors = vector_matrix(table["vector"])[order.to_numpy()]
        self.matrix = VectorMatrix(rest["id"].to_pylist(), vectors, LabelColumn(rest["labels"]))
        self._details = rest if set(DETAILS) <= set(rest.column_names) else None

    def describe(self, ids: Sequence[str]) -> list[Row] | None:
        """Images by id without vectors and thumbnails; None where that was not read."""
        if self._details is None:
            return None
        rows = np.array([self.matrix.row(image) for image in ids], dtype=np.int64)
        return described(self._details.take(rows))

    def knows(self, column: str) -> bool | None:
        """Whether any image has a value in a column; None where that was not read."""
        if self._details is None:
            return None
        values = self._details[column]
        return bool(len(values) > values.null_count)
