"""The table of a store that holds its map: ids and points, and how it was made in the schema's metadata.

A table of its own: the rows of the images are not written again, services need not read them again, and
earlier versions of marcir, which do not know it, can still use the store.
"""

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from marcir.schema import parse, record, to_json
from marcir.search.embedding_map import EmbeddingMap, MapMethod

NAME = "map"
_KEY = b"marcir"


@record()
class _Made:
    """How a map was made; vectors are little-endian 64-bit floats in base64."""

    method: MapMethod
    made_of: int
    centre: str
    axes: str
    state: str = ""
    version: int = 1


def map_to_table(found: EmbeddingMap) -> pa.Table:
    """A map as a table."""
    made = _Made(found.method, found.made_of, _encode(found.centre), _encode(found.axes), found.state)
    columns = {
        "id": pa.array(found.ids, pa.string()),
        "map_x": found.points[:, 0],
        "map_y": found.points[:, 1],
    }
    return pa.table(columns).replace_schema_metadata({_KEY: to_json(made)})


def table_to_map(table: Any) -> EmbeddingMap:
    """A table as a map."""
    made = parse(_Made, table.schema.metadata[_KEY].decode())
    points = np.stack([np.asarray(table[name], np.float32) for name in ("map_x", "map_y")], 1)
    axes = _decode(made.axes).reshape(2, -1)
    ids, centre = table["id"].to_pylist(), _decode(made.centre)
    return EmbeddingMap(made.method, made.made_of, ids, points, centre, axes, made.state)


def _encode(values: np.ndarray) -> str:
    return base64.b64encode(np.asarray(values, "<f8").tobytes()).decode()


def _decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f8").astype(np.float64)
