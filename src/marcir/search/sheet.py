"""The hits of a search as a picture."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.data.images import read_image
from marcir.errors import StoreError, needs
from marcir.figures.canvas import figure_path
from marcir.figures.retrieval_sheet import SheetExample, SheetHit, SheetRow, draw_retrieval_sheet
from marcir.search.queries import SearchableArchive, SearchResult
from marcir.search.records import Row

with needs("train"):
    from PIL import Image

# More would not fit into a picture.
MAX_HITS, MAX_EXAMPLES = 100, 12


def draw_result(
    archive: SearchableArchive,
    result: SearchResult,
    out: str | Path,
    query: Sequence[tuple[str, str | Path]] = (),
) -> None:
    """Draw the query and the first hits in rows; frames show the agreement with the labels of the query.

    Args:
        archive: What was searched.
        result: What was found.
        out: File of the picture: .png, .pdf or .svg.
        query: Heading and image of every example: an id (str), or a file (Path); the first `MAX_EXAMPLES` are
            drawn. None for labels.

    Raises:
        ConfigError: Where the name of the picture ends in neither .png, .pdf nor .svg.
        StoreError: Where nothing was found.
    """
    figure_path(out)
    if not result.hits:
        raise StoreError("nothing was found: there is no picture to draw.")
    shown = result.hits[:MAX_HITS]
    rows = archive.store.get([hit.id for hit in shown])
    hits = tuple(
        SheetHit(
            _picture(row),
            hit.id,
            hit.similarity or 0.0,
            hit.shared if result.query_labels else _names(hit.labels, hit.unknown),
            hit.agreement,
            left_open=bool(result.query_labels) and hit.agreement is None,
        )
        for hit, row in zip(shown, rows, strict=True)
    )
    grey = SheetExample(np.full((8, 8, 3), 235, np.uint8), "these labels", result.query_labels, "QUERY")
    examples = [_example(archive, *each) for each in query[:MAX_EXAMPLES]]
    first, *others = examples or [grey]
    row = SheetRow(first.image, first.title, first.labels, hits, first.heading, tuple(others))
    draw_retrieval_sheet([row], out)


def _example(archive: SearchableArchive, heading: str, image: str | Path) -> SheetExample:
    if isinstance(image, Path):
        return SheetExample(read_image(image), image.name, None, heading)
    (row,) = archive.store.get([image])
    labels = _names(row.labels, row.unknown) if row.labelled else None
    return SheetExample(_picture(row), row.id, labels, heading)


def _names(labels: Sequence[str], unknown: Sequence[str]) -> tuple[str, ...]:
    """Labels as they are shown, the unknown ones with a question mark."""
    return (*labels, *(f"{name}?" for name in unknown))


def _picture(row: Row) -> np.ndarray:
    with Image.open(io.BytesIO(row.thumbnail), formats=["JPEG"]) as picture:
        return np.asarray(picture.convert("RGB"))
