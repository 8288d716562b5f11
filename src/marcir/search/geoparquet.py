"""GeoParquet 1.1 (https://geoparquet.org): an archive, or hits, for GIS software, DuckDB and data frames."""

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from marcir import __version__
from marcir.data.image_source import moment_of
from marcir.errors import ConfigError, StoreError, needs
from marcir.files import atomic_write, refuse_address
from marcir.search.area import Box, box_wkb, geojson_to_wkb
from marcir.search.hilbert import codes_of_boxes
from marcir.search.hits import COLUMNS, Hit, export_names, metadata_names
from marcir.search.records import About
from marcir.search.store import RowTable, Store

with needs("store"):
    import pyarrow as pa
    from pyarrow import parquet

    from marcir.search.arrow import CORNERS, FOOTPRINT, read_metadata
    from marcir.search.places import PlaceIndex

_RESERVED = (*COLUMNS, "datetime", "geometry", "bbox", "embedding")
_READ = ("id", "date", "labels", "unknown", "width", "height", "metadata", *CORNERS, FOOTPRINT, "vector")
_BBOX = pa.struct([(name, pa.float64()) for name in ("xmin", "ymin", "xmax", "ymax")])
_SUFFIXES = (".parquet", ".geoparquet")
_LIST = pa.list_(pa.string())
_TIME = pa.timestamp("ms", "UTC")
_KINDS = (
    *("", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
    "GeometryCollection",  # an empty one: windows beyond a pole, in stores of earlier versions
)
# Rows of a row group, which a reader skips or reads as a whole: fewer where vectors are long.
_GROUP_ROWS, _GROUP_BYTES = 2**16, 2**26


def write_geoparquet(store: Store, out: str | Path) -> int:
    """Write all images of a store, in the order of a Hilbert curve over the centres of their boxes.

    Images without a place have no geometry and come last. Vectors are the column `embedding`; the `emb` block
    of the file's metadata describes them, as the `geo` block describes geometries.

    Returns:
        The number of images.

    Raises:
        ConfigError: If the file cannot be written.
        StoreError: If the store has no images, or cannot be read.
    """
    check_parquet_name(out)
    path = Path(out)
    if path.is_dir():
        raise ConfigError(f"--geoparquet {out}: is a folder. Give the name of a file.")
    with atomic_write(path) as temporary:
        return store.read_table(lambda rows: _write(rows, store, temporary))


def check_parquet_name(out: str | Path) -> None:
    """Refuse a name that other programs would not take for GeoParquet.

    Raises:
        ConfigError: If it does not end in .parquet or .geoparquet, or is an address.
    """
    refuse_address("--geoparquet", out)
    if not Path(out).is_dir() and Path(out).suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"--geoparquet {out}: use a name that ends in .parquet or .geoparquet.")


def as_geoparquet(hits: Sequence[Hit]) -> bytes:
    """Hits as GeoParquet, best first; their metadata are columns.

    Raises:
        StoreError: Where no hit has a bounding box.
    """
    if not any(hit.bbox for hit in hits):
        raise StoreError("geoparquet: no hit of this page has a bounding box. Ask for json or csv.")
    names = metadata_names(hits, _RESERVED)
    fields = _Fields()
    fields.add(hit.metadata for hit in hits)
    geometries = [
        _geometry(geojson_to_wkb(hit.footprint) if hit.footprint else None, hit.bbox) for hit in hits
    ]
    covered = _Covered()
    columns = {
        "id": pa.array([hit.id for hit in hits], pa.string()),
        "similarity": pa.array([hit.similarity for hit in hits], pa.float64()),
        "date": pa.array([hit.date for hit in hits], pa.date32()),
        "datetime": pa.array([moment_of(hit.metadata) for hit in hits], _TIME),
        "labels": pa.array([hit.labels if hit.labelled else None for hit in hits], _LIST),
        "unknown": pa.array([hit.unknown for hit in hits], _LIST),
        "width": pa.array([hit.width for hit in hits], pa.int32()),
        "height": pa.array([hit.height for hit in hits], pa.int32()),
        **fields.columns(names, [hit.metadata for hit in hits]),
        **covered.columns(geometries, [hit.bbox for hit in hits]),
    }
    table = pa.table(columns).replace_schema_metadata({"geo": covered.metadata()})
    out = io.BytesIO()
    parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _write(rows: RowTable, store: Store, path: Path) -> int:
    keys, codes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    fields = _Fields()
    for some, table in rows.scan([*CORNERS, "metadata"]):
        keys.append(some)
        codes.append(codes_of_boxes(PlaceIndex(table).corners))
        fields.add(map(read_metadata, table["metadata"].unique().to_pylist()))
    order = np.concatenate(keys)[np.argsort(np.concatenate(codes), kind="stable")]
    if not len(order):
        raise StoreError(f"{store.uri}: no images, so there is nothing to export.")
    names, covered = export_names(fields.kinds, _RESERVED), _Covered()
    size = max(1, min(_GROUP_ROWS, _GROUP_BYTES // (4 * store.about.dim)))
    writer = None
    try:
        for start in range(0, len(order), size):
            table = _features(rows.take(order[start : start + size], _READ), fields, names, covered)
            writer = writer or parquet.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=size)
        assert writer is not None  # noqa: S101
        writer.add_key_value_metadata({"geo": covered.metadata(), "emb": _about_vectors(store.about)})
    finally:
        if writer is not None:
            writer.close()
    return len(order)


def _features(table: pa.Table, fields: "_Fields", names: Mapping[str, str], covered: "_Covered") -> pa.Table:
    """Rows of a store as they are exported."""
    corners = PlaceIndex(table).corners.T.tolist()
    boxes = [None if math.isnan(box[0]) else (box[0], box[1], box[2], box[3]) for box in corners]
    footprints = table[FOOTPRINT].to_pylist()
    geometries = [_geometry(wkb, box) for wkb, box in zip(footprints, boxes, strict=True)]
    metadata = [read_metadata(text) for text in table["metadata"].to_pylist()]
    return pa.table(
        {
            "id": table["id"],
            "date": table["date"],
            "datetime": pa.array(map(moment_of, metadata), _TIME),
            "labels": table["labels"].cast(_LIST),
            "unknown": pa.array([labels or [] for labels in table["unknown"].to_pylist()], _LIST),
            **{name: table[name] for name in ("width", "height")},
            **fields.columns(names, metadata),
            **covered.columns(geometries, boxes),
            "embedding": table["vector"],
        }
    )


def _geometry(footprint: bytes | None, box: Box | None) -> bytes | None:
    return footprint or (box and box_wkb(box))


def _about_vectors(about: About) -> str:
    """The `emb` block: where the vectors of the column `embedding` come from, and how they are compared."""
    return json.dumps(
        {
            "column": "embedding",
            "model": about.model,
            "dim": about.dim,
            "distance": "cosine",
            "normalized": True,
            "marcir": __version__,
        }
    )


@dataclass
class _Fields:
    """The keys of metadata, and the type of the column of each.

    Texts, numbers and truth values keep their type; a key with values of several types, or with any others,
    becomes texts, as in CSV.
    """

    kinds: dict[str, set[type]] = field(default_factory=dict)

    def add(self, every: Iterable[Mapping[str, Any]]) -> None:
        """Note the types of the values of some images."""
        for metadata in every:
            for key, value in metadata.items():
                kinds = self.kinds.setdefault(key, set())
                if value is not None:
                    kinds.add(_kind(value))

    def columns(self, names: Mapping[str, str], every: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
        """The columns of some images, by their names in the export."""
        found = {}
        for key, name in names.items():
            target = self._type(key)
            values = [metadata.get(key) for metadata in every]
            if target == pa.string():
                values = [
                    value if value is None or isinstance(value, str) else _json(value) for value in values
                ]
            found[name] = pa.array(values, target)
        return found

    def _type(self, key: str) -> pa.DataType:
        kinds = self.kinds[key]
        if kinds == {bool}:
            return pa.bool_()
        if kinds and kinds <= {int, _LongInt}:
            return pa.int64()
        return pa.float64() if kinds and kinds <= {int, float} else pa.string()


class _LongInt:
    """The type of integers that a column of floats cannot hold."""


def _kind(value: Any) -> type:
    """The type of a value; an integer of more than 64 bits counts as any other value."""
    if type(value) is not int or -(2**53) <= value <= 2**53:
        return type(value)
    return _LongInt if -(2**63) <= value < 2**63 else object


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass
class _Covered:
    """Geometries and their boxes as columns, and what the `geo` block says of all that were written."""

    kinds: set[str] = field(default_factory=set)
    bounds: tuple[float, ...] = ()

    def columns(self, geometries: Sequence[bytes | None], boxes: Sequence[Box | None]) -> dict[str, pa.Array]:
        """The columns `bbox` and `geometry`."""
        self.kinds |= {_KINDS[int.from_bytes(wkb[1:5], "little")] for wkb in geometries if wkb is not None}
        # A box that crosses the date line covers all longitudes: readers compare numbers.
        covering = [box and ((-180.0, box[1], 180.0, box[3]) if box[0] > box[2] else box) for box in boxes]
        known = np.array([box for box in (*covering, self.bounds) if box])
        if len(known):
            self.bounds = (*known[:, :2].min(0).tolist(), *known[:, 2:].max(0).tolist())
        structs = [box and dict(zip(_BBOX.names, box, strict=True)) for box in covering]
        return {"bbox": pa.array(structs, _BBOX), "geometry": pa.array(geometries, pa.binary())}

    def metadata(self) -> str:
        """The `geo` block. Without a CRS, coordinates are OGC:CRS84: longitude and latitude in WGS84."""
        column = {
            "encoding": "WKB",
            "geometry_types": sorted(self.kinds),
            "edges": "planar",
            "orientation": "counterclockwise",
            **({"bbox": self.bounds} if self.bounds else {}),
            "covering": {"bbox": {name: ["bbox", name] for name in _BBOX.names}},
        }
        return json.dumps({"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}})
