"""Contact sheets of queries and their hits, framed by label overlap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.checks import check_fraction
from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure, fitted, text_width
from marcir.figures.samples import displayable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE, PITCH = 1.6, 1.86  # inches: side of an image, and distance of columns
ROW, CAPTION = 2.56, 0.32  # inches: distance of rows, and height of the captions above images
MARGIN = 0.18  # inches: the outer edge
TEXT = 1.58  # inches: width of a line of text
SIZE = 7  # font size of texts
LONGEST_SIDE = 512  # pixels; larger images are subsampled
MARK_SIZE = 10
COLUMNS = 8  # images per row


@dataclass(frozen=True)
class SheetHit:
    """A hit of a search.

    Attributes:
        image: Any dtype, any number of bands. (H, W, C)
        title: Text above it, such as its file name.
        similarity: Cosine with the query.
        shared: Names of the labels it shares with the query.
        overlap: Jaccard overlap J of its labels with the query's; None where the query's are not known, and
            `shared` are then the labels of the hit itself, and where it is left open.
        left_open: Whether it may share a label with the query that is unknown for one of them.
    """

    image: np.ndarray
    title: str
    similarity: float
    shared: tuple[str, ...]
    overlap: float | None
    left_open: bool = False


@dataclass(frozen=True)
class SheetExample:
    """An image of a query that has several.

    Attributes:
        image: Any dtype, any number of bands. (H, W, C)
        title: Text above it, such as its file name.
        labels: Names of its labels; None where they are not known.
        heading: Text above the title.
    """

    image: np.ndarray
    title: str
    labels: tuple[str, ...] | None
    heading: str


@dataclass(frozen=True)
class SheetRow:
    """A query and its hits, best first.

    Attributes:
        image: Any dtype, any number of bands. (H, W, C)
        title: Text above it, such as its file name.
        labels: Names of its labels; None where they are not known.
        hits: The hits.
        heading: Text above the title.
        examples: Further images of the query.
    """

    image: np.ndarray
    title: str
    labels: tuple[str, ...] | None
    hits: tuple[SheetHit, ...]
    heading: str = "QUERY"
    examples: tuple[SheetExample, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Frame and mark of a hit; line style and mark mean the same as the colour."""

    mark: str
    meaning: str
    colour: str
    line: str


QUERY = Verdict("", "query", "#4d4d4d", "solid")
MATCH = Verdict("●●", "J ≥ 0.8", "#1a9641", "solid")
PARTIAL = Verdict("●○", "some shared labels", "#e66101", "dashed")
UNJUDGED = Verdict("", "", "#8a8a8a", "solid")
LEFT_OPEN = Verdict("?", "may share a label", "#6e6e6e", "dashdot")
MISS = Verdict("✕✕", "no shared label", "#d7191c", "dotted")


def verdict(overlap: float | None, left_open: bool = False) -> Verdict:
    """The frame and mark of a hit: J >= 0.8, some shared labels (J > 0), none; or left open, or not judged.

    J as one division of counts is compared exactly: 4 / 5 and 8 / 10 round to the same float as 0.8.

    >>> [verdict(J).mark for J in (4 / 5, 0.79, 0.0)]
    ['●●', '●○', '✕✕']
    """
    if overlap is None:
        return LEFT_OPEN if left_open else UNJUDGED
    J = check_fraction("overlap", overlap)
    if J >= 0.8:
        return MATCH
    return PARTIAL if J > 0 else MISS


def label_lines(names: Sequence[str], width: float, most: int) -> list[str]:
    """Break label names into at most `most` lines of `width` inches; the last counts those left out.

    >>> label_lines(["bare soil", "buildings", "cars", "pavement"], width=0.95, most=2)
    ['bare soil, buildings,', 'cars, pavement']
    >>> label_lines(["bare soil", "buildings", "cars", "pavement"], width=0.95, most=1)
    ['bare soil, +3 more']
    """
    lines = _packed(names, width)
    kept = len(names)
    while len(lines) > most and kept:
        kept -= 1
        lines = _packed([*names[:kept], f"+{len(names) - kept} more"], width)
    return lines


def draw_retrieval_sheet(rows: Sequence[SheetRow], path: str | Path, columns: int = COLUMNS) -> None:
    """Draw one row per query: the query at left, then its hits in order, framed and marked by overlap.

    Above a hit are its rank, mark and title; below it cosine, J and the labels shared with the query.

    Args:
        rows: Queries and their hits; the rows may differ in length.
        path: Where the figure goes.
        columns: Images per row; longer rows continue below.

    Raises:
        ConfigError: Without queries or hits, or where an image or an overlap cannot be drawn.
    """
    _check(rows)
    legend = _legend(rows)
    cells = [list(_cells(row)) for row in rows]
    columns = min(max(map(len, cells)), columns)
    lines = [row[start : start + columns] for row in cells for start in range(0, len(row), columns)]
    width = 2 * MARGIN + PITCH * columns - (PITCH - SIDE)
    across = max(1, min(4, int((width - 2 * MARGIN) / PITCH)))  # entries of the legend per line
    header = MARGIN + (0.2 * -(-len(legend) // across) + 0.06 if legend else 0)
    height = header + ROW * len(lines) + MARGIN
    with figure(path, width, height) as drawn:
        # One pair of axes in inches for the whole sheet: hundreds of small ones would be slow.
        drawn.set_layout_engine("none")
        axes = drawn.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        _draw_legend(axes, legend, across)
        for place, line in enumerate(lines):
            for column, cell in enumerate(line):
                _draw_cell(axes, MARGIN + PITCH * column, header + ROW * place + CAPTION, cell)
        axes.set(xlim=(0, width), ylim=(height, 0))


def _check(rows: Sequence[SheetRow]) -> None:
    if not rows:
        raise ConfigError("retrieval sheet: no queries. Choose at least one.")
    for row in rows:
        if not row.hits:
            raise ConfigError(f"retrieval sheet: query '{row.title}' has no hits. Show at least one.")
        items: list[SheetRow | SheetExample | SheetHit] = [row, *row.examples, *row.hits]
        for item in items:
            if item.image.ndim != 3 or not item.image.size:
                raise ConfigError(
                    f"retrieval sheet: image '{item.title}' has shape {item.image.shape}. "
                    "Give height, width and bands, none of them 0."
                )


def _is_judged(hit: SheetHit) -> bool:
    return hit.overlap is not None or hit.left_open


def _legend(rows: Sequence[SheetRow]) -> list[Verdict]:
    """The frames that the sheet explains; none where no hit is judged."""
    hits = [hit for row in rows for hit in row.hits]
    if not any(map(_is_judged, hits)):
        return []
    return [QUERY, MATCH, PARTIAL, MISS, *([LEFT_OPEN] if any(hit.left_open for hit in hits) else [])]


def _packed(names: Sequence[str], width: float) -> list[str]:
    lines: list[str] = []
    for position, name in enumerate(names):
        comma = "," if position < len(names) - 1 else ""
        word = fitted(name, width - text_width(comma, SIZE), SIZE) + comma
        if lines and text_width(f"{lines[-1]} {word}", SIZE) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# An image, its frame, and its texts: heading, title, and the lines below.
_Cell = tuple[np.ndarray, Verdict, str, str, Sequence[str]]


def _cells(row: SheetRow) -> Iterator[_Cell]:
    queries: list[SheetRow | SheetExample] = [row, *row.examples]
    unlabelled = ["no label"] if any(map(_is_judged, row.hits)) else []
    for query in queries:
        labels = [] if query.labels is None else label_lines(query.labels, TEXT, most=4) or unlabelled
        yield query.image, QUERY, query.heading, query.title, labels
    for rank, hit in enumerate(row.hits, start=1):
        judged = verdict(hit.overlap, hit.left_open)
        meaning = [judged.meaning] if judged in (MISS, LEFT_OPEN) else []
        shared = label_lines(hit.shared, TEXT, most=3) or meaning
        values = f"cos {hit.similarity:.2f}" + ("" if hit.overlap is None else f"  J {hit.overlap:.2f}")
        yield hit.image, judged, str(rank), hit.title, [values, *shared]


def _draw_cell(axes: "Axes", left: float, upper: float, cell: _Cell) -> None:
    """Draw an image, whose upper left corner is given in inches, with its frame and texts."""
    image, judged, heading, title, below = cell
    _write(axes, left, upper - 0.17, heading, va="baseline")
    _write(axes, left + SIDE, upper - 0.18, judged.mark, va="baseline", ha="right", size=MARK_SIZE)
    _write(axes, left, upper - 0.06, fitted(title, TEXT, SIZE), va="baseline")
    _draw_image(axes, image, left, upper)
    _draw_frame(axes, left, upper, SIDE, SIDE, judged)
    _write(axes, left, upper + SIDE + 0.06, "\n".join(below), va="top", linespacing=1.2)


def _write(axes: "Axes", x: float, y: float, text: str, **look: Any) -> None:
    axes.text(x, y, escaped(text), **{"size": SIZE, **look})


def _draw_image(axes: "Axes", image: np.ndarray, left: float, upper: float) -> None:
    """Draw the whole image, centred, with its aspect ratio."""
    step = max(1, max(image.shape[:2]) // LONGEST_SIDE)
    pixels = image[::step, ::step]
    if np.issubdtype(pixels.dtype, np.floating):
        pixels = np.nan_to_num(pixels, posinf=0, neginf=0)  # no data is drawn as 0
    high, wide = (SIDE * side / max(image.shape[:2]) for side in image.shape[:2])
    x, y = left + (SIDE - wide) / 2, upper + (SIDE - high) / 2
    extent = (x, x + wide, y + high, y)
    axes.imshow(displayable(pixels), cmap="gray", vmin=0, vmax=1, extent=extent, aspect="auto")


def _draw_frame(axes: "Axes", left: float, upper: float, wide: float, high: float, judged: Verdict) -> None:
    from matplotlib.patches import Rectangle

    look: Any = {"edgecolor": judged.colour, "linestyle": judged.line, "linewidth": 3}
    axes.add_patch(Rectangle((left, upper), wide, high, fill=False, **look))


def _draw_legend(axes: "Axes", legend: Sequence[Verdict], columns: int) -> None:
    for place, judged in enumerate(legend):
        left, upper = MARGIN + PITCH * (place % columns), MARGIN + 0.2 * (place // columns)
        _draw_frame(axes, left, upper, 0.22, 0.12, judged)
        _write(axes, left + 0.32, upper + 0.1, judged.mark, va="baseline", size=MARK_SIZE)
        _write(axes, left + (0.6 if judged.mark else 0.32), upper + 0.09, judged.meaning, va="baseline")
