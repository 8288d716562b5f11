"""What a search found, as a picture."""

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from marcir.data.images import read_image
from marcir.errors import StoreError, needs
from marcir.figures.canvas import figure_path
from marcir.figures.retrieval_sheet import SheetExample, SheetHit, SheetRow, draw_retrieval_sheet
from marcir.search.queries import Answer, SearchableArchive
from marcir.search.records import Row

with needs("train"):
    from PIL import Image

# Hits and examples that are drawn: more would not fit into a picture.
MOST, MOST_EXAMPLES = 100, 12


def draw_answer(
    archive: SearchableArchive,
    answer: Answer,
    out: str | Path,
    image: str | Path | None = None,
    query: str | None = None,
    like: Sequence[str] = (),
    unlike: Sequence[str] = (),
) -> None:
    """Draw the query and the first hits in rows; frames show agreement with the query's labels.

    Args:
        archive: Where it was searched.
        answer: What was found.
        out: Where the picture goes.
        image: The file that was searched with.
        query: The id that was searched with.
        like: Ids or files that were examples.
        unlike: Ids or files that were counter-examples.

    Raises:
        ConfigError: Where the name of the picture ends in neither .png, .pdf nor .svg.
        StoreError: Where nothing was found.
    """
    figure_path(out)
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
    first, *others = islice(_examples(archive, answer, image, query, like, unlike), MOST_EXAMPLES)
    row = SheetRow(first.image, first.title, first.labels, hits, first.heading, tuple(others))
    draw_retrieval_sheet([row], out)


def _examples(
    archive: SearchableArchive,
    answer: Answer,
    image: str | Path | None,
    query: str | None,
    like: Sequence[str],
    unlike: Sequence[str],
) -> Iterator[SheetExample]:
    """The images that were searched with; a grey box where it was labels."""
    if query is not None:
        yield _stored(archive, query, "QUERY")
    elif image is not None:
        yield _read(image, "QUERY")
    elif like:
        for each, heading in [*((each, "LIKE") for each in like), *((each, "UNLIKE") for each in unlike)]:
            yield _read(each, heading) if Path(each).is_file() else _stored(archive, each, heading)
    else:
        yield SheetExample(np.full((8, 8, 3), 235, np.uint8), "these labels", answer.query_labels, "QUERY")


def _stored(archive: SearchableArchive, image: str, heading: str) -> SheetExample:
    (row,) = archive.store.get([image])
    return SheetExample(_picture(row), row.id, row.labels, heading)


def _read(file: str | Path, heading: str) -> SheetExample:
    return SheetExample(read_image(file), Path(file).name, (), heading)


def _picture(row: Row) -> np.ndarray:
    with Image.open(io.BytesIO(row.thumbnail), formats=["JPEG"]) as picture:
        return np.asarray(picture.convert("RGB"))
