"""Hits as tables and maps."""

import csv
import io
import json
import re
from typing import Any

from marcir.serve.errors import Refusal

# Our own columns; metadata never take their names.
_COLUMNS = ("id", "similarity", "labels", "width", "height", "west", "south", "east", "north", "date")
# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def as_csv(hits: list[dict[str, Any]]) -> bytes:
    """One line per hit, UTF-8 with its mark; text that a spreadsheet would run has a ' before it.

    Metadata are columns of their own, after ours.
    """
    names = metadata_names(hits)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*_COLUMNS, *map(harmless, names.values())])
    for hit in hits:
        writer.writerow(
            [
                harmless(hit["id"]),
                hit["similarity"],
                harmless(";".join(hit["labels"])),
                hit["width"],
                hit["height"],
                *(hit["bbox"] or [""] * 4),
                hit["date"] or "",
                *(_cell(hit["metadata"].get(key)) for key in names),
            ]
        )
    return out.getvalue().encode("utf-8-sig")


def metadata_names(hits: list[dict[str, Any]]) -> dict[str, str]:
    """The keys of the metadata of some hits, and the names that they have in an export.

    A key keeps its name; one that is the name of our own columns is preceded by `metadata.`.

    >>> metadata_names([{"metadata": {"sensor": "S2", "width": "9"}}])
    {'sensor': 'sensor', 'width': 'metadata.width'}
    """
    keys = dict.fromkeys(key for hit in hits for key in hit["metadata"])
    names: dict[str, str] = {}
    for key in keys:
        name = f"metadata.{key}" if key in _COLUMNS else key
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
    """A text that no spreadsheet takes for a formula; a number stays one.

    >>> harmless("=1+1"), harmless("a=1"), harmless("-1.5")
    ("'=1+1", 'a=1', '-1.5')
    """
    is_formula = text.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def as_geojson(hits: list[dict[str, Any]]) -> bytes:
    """One feature per hit, with metadata among its properties; no geometry where there is no bounding box.

    Raises:
        Refusal: 422, where no hit has one.
    """
    if not any(hit["bbox"] for hit in hits):
        raise Refusal(422, "geojson: no hit of this page has a bounding box. Ask for json or csv.")
    names = metadata_names(hits)
    features = [
        {
            "type": "Feature",
            "id": hit["id"],
            **({"bbox": hit["bbox"]} if hit["bbox"] else {}),
            "geometry": geometry(hit["bbox"]) if hit["bbox"] else None,
            "properties": {
                **{name: hit[name] for name in ("id", "similarity", "labels", "date")},
                **{names[key]: value for key, value in hit["metadata"].items()},
            },
        }
        for hit in hits
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False).encode()


def geometry(bbox: tuple[float, float, float, float]) -> dict[str, Any]:
    """A box in degrees as a polygon; two where it crosses the date line.

    >>> geometry((1, 2, 3, 4))["coordinates"]
    [[[1, 2], [3, 2], [3, 4], [1, 4], [1, 2]]]
    >>> geometry((170, 0, -170, 1))["type"]
    'MultiPolygon'
    """
    west, south, east, north = bbox
    if west <= east:
        return {"type": "Polygon", "coordinates": _ring(west, south, east, north)}
    parts = [_ring(west, south, 180.0, north), _ring(-180.0, south, east, north)]
    return {"type": "MultiPolygon", "coordinates": parts}


def _ring(west: float, south: float, east: float, north: float) -> list[list[list[float]]]:
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]
