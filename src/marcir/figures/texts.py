"""Shorten, measure and escape texts of figures."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache


@contextmanager
def missing_glyphs_as_boxes() -> Iterator[None]:
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

    with missing_glyphs_as_boxes():
        width: float = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]
    return width / 72


def fitted(text: str, width: float, size: float) -> str:
    """Shorten text to one line of at most `width` inches by cutting its middle."""
    line = " ".join(text.split())
    if text_width(line, size) <= width:
        return line
    least, most = 1, len(line) - 1  # bounds of the number of letters that fit
    while least < most:
        letters = (least + most + 1) // 2
        if text_width(shortened(line, letters), size) <= width:
            least = letters
        else:
            most = letters - 1
    return shortened(line, least)


def escaped(text: str) -> str:
    r"""Escape dollar signs, which start a formula in matplotlib.

    >>> print(escaped("a$b$"))
    a\$b\$
    """
    return text.replace("$", r"\$")


def short_number(count: float) -> str:
    """Abbreviate a count.

    >>> short_number(848), short_number(54_840), short_number(2_500_000)
    ('848', '54.84k', '2.5M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.0f}"
