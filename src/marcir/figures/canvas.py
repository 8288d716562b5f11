"""Create figures and save them as PNG, PDF or SVG."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marcir.errors import ConfigError, needs
from marcir.figures.texts import missing_glyphs_as_boxes
from marcir.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Options of `savefig` by file ending; without a date, so that equal figures are equal files.
FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"format": "png"},
    ".pdf": {"format": "pdf", "metadata": {"CreationDate": None}},
    ".svg": {"format": "svg", "metadata": {"Date": None}},
}
_RC: dict[Any, Any] = {"svg.hashsalt": "marcir", "pdf.fonttype": 42}
_copies: ContextVar[tuple[str, ...]] = ContextVar("copies", default=())


@contextmanager
def vector_copies() -> Iterator[None]:
    """Save every figure of the block as PDF and SVG, too, next to its own file."""
    token = _copies.set((".pdf", ".svg"))
    try:
        yield
    finally:
        _copies.reset(token)


def figure_path(path: str | Path) -> Path:
    """Check that the ending of a path names a figure format.

    Raises:
        ConfigError: For another ending.

    >>> figure_path("hits.PDF").name
    'hits.PDF'
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: not a figure. Use a name that ends in .png, .pdf or .svg.")
    return Path(path)


@contextmanager
def figure(path: str | Path, width: float, height: float) -> Iterator["Figure"]:
    """Create a figure of a size in inches and save it when the block ends; needs no display.

    Raises:
        ConfigError: For an ending other than .png, .pdf and .svg.
        DependencyError: Where matplotlib is not installed.
    """
    with needs("train"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    path = figure_path(path)
    drawn = Figure(figsize=(width, height), layout="constrained")
    yield drawn
    for each in (path, *(path.with_suffix(ending) for ending in _copies.get())):
        with atomic_write(each) as temporary, missing_glyphs_as_boxes(), rc_context(_RC):
            drawn.savefig(temporary, dpi=120, **FORMATS[each.suffix.lower()])
