"""Rows as Arrow tables, and back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from marcir.search.records import Row
from marcir.search.store import OptionalField

_CORNERS = ("west", "south", "east", "north")
# The column of unknown labels; null where an image has none. Tables without unknown labels do not have it.
UNKNOWN = "unknown"
LABELS = ("labels", UNKNOWN)
# Columns beside id and labels that are small.
DETAILS = ("width", "height", "content", "metadata", *_CORNERS, "date")
# Columns with the values of the attributes of a row, as they are.
_PLAIN = ("id", "labels", "width", "height", "thumbnail", "content", "date")
UNKNOWN_FIELD = pa.field(UNKNOWN, pa.list_(pa.string()))
_NO_VECTOR = np.zeros(0, np.float32)
# With this metadata of the id, LanceDB notices where two processes add the same image at the same moment.
KEY = {"lance-schema:unenforced-primary-key": "true"}


def schema(dim: int) -> pa.Schema:
    """The columns of the table of images, without that of unknown labels."""
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False, metadata=KEY),
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


def to_table(rows: Sequence[Row], dim: int, with_unknown: bool = True) -> pa.Table:
    """Rows as a table, with or without the column of unknown labels."""
    vectors = np.array([row.vector for row in rows], dtype=np.float32).ravel()
    corners = [row.bbox or (None,) * 4 for row in rows]
    columns: dict[str, Any] = {
        **{name: [getattr(row, name) for row in rows] for name in _PLAIN},
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), dim),
        "metadata": [json.dumps(dict(row.metadata), ensure_ascii=False) for row in rows],
        **{corner: [box[place] for box in corners] for place, corner in enumerate(_CORNERS)},
    }
    table = pa.table(columns, schema=schema(dim))
    if not with_unknown:
        return table
    unknown = pa.array([row.unknown or None for row in rows], UNKNOWN_FIELD.type)
    return table.append_column(UNKNOWN_FIELD, unknown)


def complete(table: pa.Table) -> pa.Table:
    """A table with the column of unknown labels: all null where it had none."""
    if UNKNOWN in table.column_names:
        return table
    return table.append_column(UNKNOWN_FIELD, pa.nulls(table.num_rows, UNKNOWN_FIELD.type))


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
        values |= {name: tuple(values[name] or ()) for name in LABELS}
        rows.append(Row(vector=_NO_VECTOR, **values))
    return rows


def has_key(columns: pa.Schema) -> bool:
    """Whether the id of a table is marked as its key; tables of early versions lack the mark."""
    metadata = columns.field("id").metadata or {}
    return all(metadata.get(name.encode()) == value.encode() for name, value in KEY.items())


def optional_column(what: OptionalField) -> str:
    """A column that is null where an image has no bounding box, or no date."""
    return {"bbox": _CORNERS[0]}.get(what, what)


def vector_matrix(column: pa.ChunkedArray) -> np.ndarray:
    """A column of vectors as a matrix. (N, D)"""
    dim = column.type.list_size
    parts = [np.asarray(chunk.flatten()).reshape(-1, dim) for chunk in column.chunks if len(chunk)]
    matrix = np.concatenate(parts) if parts else np.zeros((0, dim), dtype=np.float32)
    return np.ascontiguousarray(matrix, dtype=np.float32)
