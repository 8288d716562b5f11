"""Create figures and save them as PNG, PDF or SVG; fit their texts."""

import warnings
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marcir.errors import ConfigError, needs
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
        with atomic_write(each) as temporary, _missing_glyphs_as_boxes(), rc_context(_RC):
            drawn.savefig(temporary, dpi=120, **FORMATS[each.suffix.lower()])


@contextmanager
def _missing_glyphs_as_boxes() -> Iterator[None]:
    """Silence the warning for characters that the font lacks; they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def shortened(text: str, letters: int) -> str:
    """Shorten text to one line of at most `letters` characters by cutting its middle.

    >>> shortened("a_very_long_scene_name_0042.tif", 16)
    'a_very_…0042.tif'
    """
    line = " ".join(text.split())
    if len(line) <= letters:
        return line
    end = letters // 2
    return f"{line[: letters - end - 1]}…{line[len(line) - end :]}"


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Width of a line of text in inches, in the default font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with _missing_glyphs_as_boxes():
        width: float = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]
    return width / 72


def fitted(text: str, width: float, size: float) -> str:
    """Shorten text to one line of at most `width` inches by cutting its middle."""
    line = " ".join(text.split())
    if text_width(line, size) <= width:
        return line
    lengths = range(2, len(line))
    wider = bisect_right(lengths, width, key=lambda letters: text_width(shortened(line, letters), size))
    return shortened(line, wider + 1)


def escaped(text: str) -> str:
    r"""Escape dollar signs, which start a formula in matplotlib.

    >>> print(escaped("a$b$"))
    a\$b\$
    """
    return text.replace("$", r"\$")
