"""The hits of a search as a picture."""

import io
from collections.abc import Iterator, Sequence
from itertools import islice
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
    image: str | Path | None = None,
    query: str | None = None,
    like: Sequence[str] = (),
    unlike: Sequence[str] = (),
) -> None:
    """Draw the query and the first hits in rows; frames show the agreement with the labels of the query.

    Args:
        archive: What was searched.
        result: What was found.
        out: File of the picture: .png, .pdf or .svg.
        image: The file of the query.
        query: The id of the query.
        like: Ids or files of the examples.
        unlike: Ids or files of the counter-examples.

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
            hit.labels if hit.agreement is None else hit.shared,
            hit.agreement,
        )
        for hit, row in zip(shown, rows, strict=True)
    )
    first, *others = islice(_examples(archive, result, image, query, like, unlike), MAX_EXAMPLES)
    row = SheetRow(first.image, first.title, first.labels, hits, first.heading, tuple(others))
    draw_retrieval_sheet([row], out)


def _examples(
    archive: SearchableArchive,
    result: SearchResult,
    image: str | Path | None,
    query: str | None,
    like: Sequence[str],
    unlike: Sequence[str],
) -> Iterator[SheetExample]:
    """The images of the query; a grey box where it was labels."""
    if query is not None:
        yield _stored(archive, query, "QUERY")
    elif image is not None:
        yield _read(image, "QUERY")
    elif like:
        for each, heading in [*((each, "LIKE") for each in like), *((each, "UNLIKE") for each in unlike)]:
            yield _read(each, heading) if Path(each).is_file() else _stored(archive, each, heading)
    else:
        yield SheetExample(np.full((8, 8, 3), 235, np.uint8), "these labels", result.query_labels, "QUERY")


def _stored(archive: SearchableArchive, image: str, heading: str) -> SheetExample:
    (row,) = archive.store.get([image])
    return SheetExample(_picture(row), row.id, row.labels, heading)


def _read(file: str | Path, heading: str) -> SheetExample:
    return SheetExample(read_image(file), Path(file).name, (), heading)


def _picture(row: Row) -> np.ndarray:
    with Image.open(io.BytesIO(row.thumbnail), formats=["JPEG"]) as picture:
        return np.asarray(picture.convert("RGB"))
