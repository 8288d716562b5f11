"""Hits: what a search found, and the one place that writes them as JSON, CSV and GeoJSON."""

import csv
import datetime
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marcir.errors import StoreError
from marcir.search.area import box_wkb, wkb_to_geojson
from marcir.search.records import Row

# The columns of an export before those of the metadata.
COLUMNS = (
    *("id", "similarity", "labels", "unknown", "labelled", "width", "height"),
    *("west", "south", "east", "north", "date"),
)
# A spreadsheet runs a cell that begins like this as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Hit:
    """An image of the archive that was found.

    Attributes:
        id: Path relative to the root of the archive.
        similarity: Cosine similarity with the query; None without a query.
        labels: Names of its labels.
        unknown: Names of labels that it may have: whether it has them is not known.
        shared: Those of its labels that the query has, too.
        agreement: Of the labels of both, the share that they have in common (Jaccard), without labels that
            are unknown for either; None where the query has no labels, and where they share none but may
            share one: a label of one of them is unknown for the other.
        width: In pixels.
        height: In pixels.
        bbox: West, south, east, north in degrees (WGS84), where known.
        date: When it was taken, where known.
        metadata: Everything else that is known of it.
        footprint: The ground that it shows, as a geometry of GeoJSON, where known.
        labelled: Whether anything is known of its labels; if not, all of them are unknown.
    """

    id: str
    similarity: float | None
    labels: tuple[str, ...]
    unknown: tuple[str, ...]
    shared: tuple[str, ...]
    agreement: float | None
    width: int
    height: int
    bbox: tuple[float, float, float, float] | None
    date: datetime.date | None
    metadata: Mapping[str, Any]
    footprint: dict[str, Any] | None = None
    labelled: bool = True

    @classmethod
    def from_row(
        cls,
        row: Row,
        similarity: float | None = None,
        query_labels: Sequence[str] = (),
        query_unknown: Sequence[str] = (),
    ) -> "Hit":
        """A row of a store as a hit of a query."""
        wanted, labels = set(query_labels), set(row.labels)
        shared = wanted & labels
        either = (wanted | labels).difference(row.unknown, query_unknown)
        may_share = not shared and not (
            row.labelled and wanted.isdisjoint(row.unknown) and labels.isdisjoint(query_unknown)
        )
        return cls(
            row.id,
            None if similarity is None else max(-1.0, min(1.0, similarity)),  # rounding may pass 1
            row.labels,
            row.unknown,
            tuple(label for label in row.labels if label in shared),
            len(shared) / len(either) if wanted and not may_share else None,
            row.width,
            row.height,
            row.bbox,
            row.date,
            row.metadata,
            None if row.footprint is None else wkb_to_geojson(row.footprint),
            row.labelled,
        )

    def as_json(self) -> dict[str, Any]:
        """The hit as JSON: all of its attributes, by name."""
        return {
            **vars(self),
            "labels": list(self.labels),
            "unknown": list(self.unknown),
            "shared": list(self.shared),
            "bbox": self.bbox and list(self.bbox),
            "date": self.date and self.date.isoformat(),
            "metadata": dict(self.metadata),
        }


def file_below(root: str, image: str, metadata: Mapping[str, Any]) -> str | None:
    """The file of an image, as a path below the root of its archive.

    That of a window is its scene; None for one of a STAC catalog, whose ids are not paths.

    >>> file_below("/tiles", "a/1.png", {}), file_below("/scenes", "a.tif@x=0,y=0", {"scene": "a.tif"})
    ('a/1.png', 'a.tif')
    >>> file_below("/scenes/catalog.json", "a@x=0,y=0", {"scene": "a"}) is None
    True
    """
    scene = str(metadata.get("scene", ""))
    if not scene or not image.startswith(f"{scene}@"):
        return image
    return None if root.endswith(".json") else scene


def label_shares(hits: Sequence[Hit]) -> dict[str, float]:
    """The share of the hits that have each label; the most common first."""
    counts = Counter(label for hit in hits for label in hit.labels)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {label: count / len(hits) for label, count in ordered}


def as_csv(hits: Sequence[Hit]) -> bytes:
    """Hits as CSV, one line per hit, in UTF-8 with a byte order mark.

    Metadata are columns of their own, after `COLUMNS`. Text that a spreadsheet would run has a ' before it.
    """
    names = metadata_names(hits)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*COLUMNS, *map(harmless, names.values())])
    for hit in hits:
        writer.writerow(
            [
                harmless(hit.id),
                hit.similarity,
                harmless(";".join(hit.labels)),
                harmless(";".join(hit.unknown)),
                hit.labelled,
                hit.width,
                hit.height,
                *(hit.bbox or [""] * 4),
                hit.date or "",
                *(_cell(hit.metadata.get(key)) for key in names),
            ]
        )
    return out.getvalue().encode("utf-8-sig")


def as_geojson(hits: Sequence[Hit]) -> bytes:
    """Hits as GeoJSON, one feature per hit; its metadata are properties.

    Raises:
        StoreError: Where no hit has a bounding box.
    """
    if not any(hit.bbox for hit in hits):
        raise StoreError("geojson: no hit of this page has a bounding box. Ask for json or csv.")
    names = metadata_names(hits)
    features = [_feature(hit.as_json(), names) for hit in hits]
    return json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False).encode()


def _feature(hit: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    bbox = hit["bbox"]
    return {
        "type": "Feature",
        "id": hit["id"],
        **({"bbox": bbox} if bbox else {}),
        "geometry": hit["footprint"] or (wkb_to_geojson(box_wkb(bbox)) if bbox else None),
        "properties": {
            **{name: hit[name] for name in ("id", "similarity", "labels", "unknown", "labelled", "date")},
            **{names[key]: value for key, value in hit["metadata"].items()},
        },
    }


def metadata_names(hits: Sequence[Hit], columns: Collection[str] = COLUMNS) -> dict[str, str]:
    """The keys of the metadata of some hits, and their names in an export with these columns."""
    return export_names(dict.fromkeys(key for hit in hits for key in hit.metadata), columns)


def export_names(keys: Collection[str], columns: Collection[str]) -> dict[str, str]:
    """Keys of metadata, and their names in an export.

    A key keeps its name; one that is among the columns gets the prefix `metadata.`.

    >>> export_names(["sensor", "date"], COLUMNS)
    {'sensor': 'sensor', 'date': 'metadata.date'}
    """
    names: dict[str, str] = {}
    for key in keys:
        name = f"metadata.{key}" if key in columns else key
        while name != key and name in keys:  # another key has that name already
            name = f"metadata.{name}"
        names[key] = name
    return names


def _cell(value: Any) -> str:
    """A value of the metadata as a cell: a text as it is, anything else as JSON."""
    if value is None:
        return ""
    return harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def harmless(text: str) -> str:
    """A text that no spreadsheet runs as a formula; a number stays a number.

    >>> harmless("=1+1"), harmless("a=1"), harmless("-1.5")
    ("'=1+1", 'a=1', '-1.5')
    """
    is_formula = text.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text
