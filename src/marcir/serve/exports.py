"""Hits as tables and maps."""

import csv
import io
import json
from typing import Any

from marcir.serve.problems import Refusal

_COLUMNS = (
    "id",
    "similarity",
    "labels",
    "width",
    "height",
    "west",
    "south",
    "east",
    "north",
    "date",
    "metadata",
)
# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(hits: list[dict[str, Any]]) -> bytes:
    """One line a hit, UTF-8 with its mark; text that a spreadsheet would run has a ' before it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
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
                harmless(json.dumps(hit["metadata"], ensure_ascii=False) if hit["metadata"] else ""),
            ]
        )
    return out.getvalue().encode("utf-8-sig")


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def as_geojson(hits: list[dict[str, Any]]) -> bytes:
    """A feature a hit; those without a bounding box have no geometry.

    Raises:
        Refusal: 422, where no hit has one.
    """
    if not any(hit["bbox"] for hit in hits):
        raise Refusal(422, "geojson: no hit of this page has a bounding box. Ask for json or csv.")
    features = [
        {
            "type": "Feature",
            "id": hit["id"],
            **({"bbox": hit["bbox"]} if hit["bbox"] else {}),
            "geometry": geometry(hit["bbox"]) if hit["bbox"] else None,
            "properties": {name: hit[name] for name in ("id", "similarity", "labels", "date", "metadata")},
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
