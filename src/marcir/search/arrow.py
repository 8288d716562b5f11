"""Rows as Arrow tables, and back."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marcir.search.exact import Details, ExactSearch, position
from marcir.search.records import Row
from marcir.search.store import OptionalField

_CORNERS = ("west", "south", "east", "north")
# Columns beside id and labels that are small.
DETAILS = ("width", "height", "content", "metadata", *_CORNERS, "date")
_NO_VECTOR = np.zeros(0, np.float32)


def schema(dim: int) -> pa.Schema:
    """The columns of the table of images."""
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), dim), nullable=False),
            pa.field("labels", pa.list_(pa.string())),
            pa.field("width", pa.int32()),
            pa.field("height", pa.int32()),
            pa.field("thumbnail", pa.binary()),
            pa.field("content", pa.string()),
            pa.field("metadata", pa.string()),
            *(pa.field(corner, pa.float64()) for corner in _CORNERS),
            pa.field("date", pa.date32()),
        ]
    )


def to_table(rows: Sequence[Row], dim: int) -> pa.Table:
    """Rows as a table."""
    vectors = np.concatenate([np.asarray(row.vector, dtype=np.float32) for row in rows])
    corners = [row.bbox or (None,) * 4 for row in rows]
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), dim),
        "labels": [list(row.labels) for row in rows],
        "width": [row.width for row in rows],
        "height": [row.height for row in rows],
        "thumbnail": [row.thumbnail for row in rows],
        "content": [row.content for row in rows],
        "metadata": [json.dumps(dict(row.metadata), ensure_ascii=False) for row in rows],
        **{corner: [box[place] for box in corners] for place, corner in enumerate(_CORNERS)},
        "date": [row.date for row in rows],
    }
    return pa.table(columns, schema=schema(dim))


def to_rows(table: pa.Table) -> list[Row]:
    """A table as rows."""
    vectors = vector_matrix(table["vector"])
    rows = to_descriptions(table.drop(["vector"]))
    return [replace(row, vector=vectors[place].copy()) for place, row in enumerate(rows)]


def to_descriptions(table: pa.Table) -> list[Row]:
    """A table without vectors, and possibly without thumbnails, as rows that have none."""
    rows = []
    for values in table.to_pylist():
        corners = tuple(values.pop(corner) for corner in _CORNERS)
        values["bbox"] = None if None in corners else corners
        values["metadata"] = json.loads(values["metadata"] or "{}")
        values["labels"] = tuple(values["labels"] or ())
        rows.append(Row(vector=_NO_VECTOR, **values))
    return rows


def optional_column(what: OptionalField) -> str:
    """A column that is null where an image has no bounding box, or no date."""
    return {"bbox": _CORNERS[0]}.get(what, what)


class ArrowDetails:
    """All but vectors and thumbnails of some rows, in memory.

    Args:
        ids: Sorted.
        table: Ids, labels and `DETAILS`, in the order of the ids.
    """

    def __init__(self, ids: Sequence[str], table: pa.Table) -> None:
        self._ids, self._table = ids, table

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images in the order of their ids, without vector and thumbnail."""
        rows = np.array([position(self._ids, image) for image in ids], dtype=np.int64)
        return to_descriptions(self._table.take(rows))

    def knows(self, what: OptionalField) -> bool:
        """Whether any image has a bounding box, or a date."""
        values = self._table[optional_column(what)]
        return bool(len(values) > values.null_count)


def exact_search(table: pa.Table, details: Details | None = None) -> ExactSearch:
    """Exact search in a table.

    Args:
        table: Ids, vectors and labels, in any order.
        details: Where the rest is read from; without it, `DETAILS` are columns of the table.
    """
    order = pc.sort_indices(table["id"])
    rest = table.drop(["vector"]).take(order).combine_chunks()
    vectors = vector_matrix(table["vector"])[order.to_numpy()]  # Arrow would take ten times as long
    ids = rest["id"].to_pylist()
    return ExactSearch(ids, vectors, LabelColumn(rest["labels"]), details or ArrowDetails(ids, rest))


def label_lists(column: pa.ChunkedArray) -> list[tuple[str, ...]]:
    """A column of label names as one tuple per row.

    >>> label_lists(pa.chunked_array([[["a", "b"], None, []], [["a"]]]))
    [('a', 'b'), (), (), ('a',)]
    """
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    ends = [0, *np.cumsum(lengths).tolist()]
    flat = pc.list_flatten(column).to_pylist()
    return [tuple(flat[begin:end]) for begin, end in pairwise(ends)]


def vector_matrix(column: pa.ChunkedArray) -> np.ndarray:
    """A column of vectors as a matrix. (N, D)"""
    dim = column.type.list_size
    parts = [np.asarray(chunk.flatten()).reshape(-1, dim) for chunk in column.chunks if len(chunk)]
    matrix = np.concatenate(parts) if parts else np.zeros((0, dim), dtype=np.float32)
    return np.ascontiguousarray(matrix, dtype=np.float32)


class LabelColumn(Sequence[tuple[str, ...]]):
    """A column of labels as a sequence; it is converted as a whole only when it is iterated over.

    Args:
        column: Lists of names.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, row: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, row: slice) -> list[tuple[str, ...]]: ...

    def __getitem__(self, row: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(row, slice):
            return list(self)[row]
        return tuple(self._column[row].as_py() or ())

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(label_lists(self._column))
