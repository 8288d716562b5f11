"""Format tables for the terminal and for Markdown."""

import math
import unicodedata
from collections.abc import Sequence
from typing import Any


def percent(value: float, digits: int = 1) -> str:
    """Format a fraction in percent, by default with one decimal.

    >>> percent(0.8314), percent(float("nan"))
    ('83.1', '-')
    """
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f}"


def nan_to_none(value: Any) -> Any:
    """Replace nan by None for JSON, also inside mappings.

    >>> nan_to_none({"low": float("nan"), "high": 0.5})
    {'low': None, 'high': 0.5}
    """
    if isinstance(value, dict):
        return {name: nan_to_none(each) for name, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align the columns of a table: the first left, the others right.

    >>> print(aligned([["", "mAP"], ["chance", "66.6"]]))
              mAP
    chance   66.6
    """
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        gaps = [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
        numbers = [f"   {gap}{cell}" for gap, cell in zip(gaps[1:], cells[1:], strict=True)]
        lines.append(cells[0] + gaps[0] + "".join(numbers))
    return "\n".join(lines)


def _width(text: str) -> int:
    """Width of a text on a terminal: wide characters take two columns, combining marks none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; its first row is the header.

    >>> print(markdown([["", "mAP"], ["a|b", "66.6"]]))
    |  | mAP |
    |---|---:|
    | a\\|b | 66.6 |
    """
    lines = ["| " + " | ".join(cell.strip().replace("|", "\\|") for cell in row) + " |" for row in rows]
    rule = "|---|" + "---:|" * (len(rows[0]) - 1)
    return "\n".join([lines[0], rule, *lines[1:]])
