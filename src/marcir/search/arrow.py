"""Rows as Arrow tables, and back."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from marcir.search.records import Row
from marcir.search.store import OptionalField, RowTable

CORNERS = ("west", "south", "east", "north")
# Columns that a table does not have before an image needs them; null where an image has no such value.
UNKNOWN, FOOTPRINT = "unknown", "footprint"
OPTIONAL = {
    UNKNOWN: pa.field(UNKNOWN, pa.list_(pa.string())),
    FOOTPRINT: pa.field(FOOTPRINT, pa.binary()),
}
LABELS = ("labels", UNKNOWN)
# Where and when an image was taken.
PLACE = (*CORNERS, "date", FOOTPRINT)
# Columns beside id and labels that are small.
DETAILS = ("width", "height", "content", "metadata", *PLACE)
# Columns with the values of the attributes of a row, as they are.
_PLAIN = ("id", "width", "height", "thumbnail", "content", "date")
_NO_VECTOR = np.zeros(0, np.float32)
# With this metadata of the id, LanceDB notices where two processes add the same image at the same moment.
KEY = {"lance-schema:unenforced-primary-key": "true"}


def schema(dim: int) -> pa.Schema:
    """The columns of the table of images, without those of `OPTIONAL`."""
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
            *(pa.field(corner, pa.float64()) for corner in CORNERS),
            pa.field("date", pa.date32()),
        ]
    )


def to_table(rows: Sequence[Row], dim: int, optional: Iterable[str] = OPTIONAL) -> pa.Table:
    """Rows as a table, with these columns of `OPTIONAL`."""
    vectors = np.array([row.vector for row in rows], dtype=np.float32).ravel()
    corners = [row.bbox or (None,) * 4 for row in rows]
    columns: dict[str, Any] = {
        **{name: [getattr(row, name) for row in rows] for name in _PLAIN},
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), dim),
        "labels": [row.labels if row.labelled else None for row in rows],
        "metadata": [json.dumps(dict(row.metadata), ensure_ascii=False) for row in rows],
        **{corner: [box[place] for box in corners] for place, corner in enumerate(CORNERS)},
    }
    table = pa.table(columns, schema=schema(dim))
    for name in optional:
        values = pa.array([getattr(row, name) or None for row in rows], OPTIONAL[name].type)
        table = table.append_column(OPTIONAL[name], values)
    return table


def needed_columns(rows: Iterable[Row]) -> set[str]:
    """The columns of `OPTIONAL` that a table needs to keep these rows."""
    return {name for row in rows for name in OPTIONAL if getattr(row, name)}


def complete(table: pa.Table, names: Iterable[str] = OPTIONAL) -> pa.Table:
    """A table with these columns; those of `OPTIONAL` that it lacks are all null."""
    for name in names:
        if name in OPTIONAL and name not in table.column_names:
            table = table.append_column(OPTIONAL[name], pa.nulls(table.num_rows, OPTIONAL[name].type))
    return table


def to_rows(table: pa.Table) -> list[Row]:
    """A table as rows."""
    vectors = vector_matrix(table["vector"])
    rows = to_descriptions(table.drop(["vector"]))
    return [replace(row, vector=vectors[place].copy()) for place, row in enumerate(rows)]


def to_descriptions(table: pa.Table) -> list[Row]:
    """A table without vectors, and possibly without thumbnails, as rows that have none."""
    rows = []
    for values in table.to_pylist():
        corners = tuple(values.pop(corner) for corner in CORNERS)
        values["bbox"] = None if None in corners else corners
        values["metadata"] = read_metadata(values["metadata"])
        values["labelled"] = values["labels"] is not None
        values |= {name: tuple(values[name] or ()) for name in LABELS}
        rows.append(Row(vector=_NO_VECTOR, **values))
    return rows


def read_metadata(text: str | None) -> dict[str, Any]:
    """Metadata as they are stored; numbers that JSON does not have are null.

    >>> read_metadata('{"metres_per_pixel": NaN}')
    {'metres_per_pixel': None}
    """
    found: dict[str, Any] = json.loads(text or "{}", parse_constant=lambda _: None)
    return found


def scan_descriptions(rows: RowTable) -> Iterator[Row]:
    """All rows, one after another, without vector and thumbnail."""
    for _, table in rows.scan(["id", *LABELS, *DETAILS]):
        yield from to_descriptions(table)


def has_key(columns: pa.Schema) -> bool:
    """Whether the id of a table is marked as its key; tables of early versions lack the mark."""
    metadata = columns.field("id").metadata or {}
    return all(metadata.get(name.encode()) == value.encode() for name, value in KEY.items())


def optional_column(what: OptionalField) -> str:
    """A column that is null where an image has no bounding box, or no date."""
    return {"bbox": CORNERS[0]}.get(what, what)


def vector_matrix(column: pa.ChunkedArray) -> np.ndarray:
    """A column of vectors as a matrix. (N, D)"""
    dim = column.type.list_size
    parts = [np.asarray(chunk.flatten()).reshape(-1, dim) for chunk in column.chunks if len(chunk)]
    matrix = np.concatenate(parts) if parts else np.zeros((0, dim), dtype=np.float32)
    return np.ascontiguousarray(matrix, dtype=np.float32)
