"""What a search found, as a picture."""

import io
from pathlib import Path

import numpy as np

from marcir.data.images import read_image
from marcir.errors import StoreError, needs
from marcir.figures.retrieval_sheet import SheetHit, SheetRow, draw_retrieval_sheet
from marcir.stages.search import Answer, SearchableArchive
from marcir.store.records import Row

with needs("train"):
    from PIL import Image

# Hits that are drawn: beside each other, more would not fit into a picture.
MOST = 100


def draw_answer(
    archive: SearchableArchive,
    answer: Answer,
    out: str | Path,
    image: str | Path | None = None,
    query: str | None = None,
) -> None:
    """Draw the first hits, after the query where it is one image; frames show agreement with its labels.

    Args:
        archive: Where it was searched.
        answer: What was found.
        out: Where the PNG goes.
        image: The file that was searched with.
        query: The id that was searched with.
    """
    if not answer.hits:
        raise StoreError("nothing was found: there is no picture to draw.")
    wanted = set(answer.query_labels)
    rows = archive.store.get([hit.id for hit in answer.hits[:MOST]])
    hits = tuple(
        SheetHit(
            _picture(row),
            hit.id,
            hit.similarity,
            tuple(label for label in hit.labels if not wanted or label in wanted),
            len(wanted & set(hit.labels)) / len(wanted | set(hit.labels)) if wanted else None,
        )
        for hit, row in zip(answer.hits[:MOST], rows, strict=True)
    )
    pixels, title = np.full((8, 8, 3), 235, np.uint8), "several images or labels"
    if query is not None:
        pixels, title = _picture(archive.store.get([query])[0]), query
    elif image is not None:
        pixels, title = read_image(image), Path(image).name
    draw_retrieval_sheet([SheetRow(pixels, title, answer.query_labels, hits)], out)


def _picture(row: Row) -> np.ndarray:
    with Image.open(io.BytesIO(row.thumbnail), formats=["JPEG"]) as picture:
        return np.asarray(picture.convert("RGB"))
