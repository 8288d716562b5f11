"""Docstrings as Markdown for the API reference: doctests and formulas become code blocks.

In the source they are plain lines, as `help` shows them and as doctest runs them.
"""

import re
from typing import Any

import griffe

# "w_ip = ...", "h(y) = ...": a paragraph in which every line that is not indented begins like this.
_DEFINITION = re.compile(r"[\w(),]+ = ")


class DoctestsAndFormulas(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the paragraphs of an object's docstring that are doctests or formulas."""
        if obj.docstring is not None:
            obj.docstring.value = "\n\n".join(_fenced(part) for part in obj.docstring.value.split("\n\n"))


def _fenced(paragraph: str) -> str:
    lines = paragraph.splitlines()
    if paragraph.startswith(">>> "):
        return f"```pycon\n{paragraph.replace('  # doctest: +SKIP', '')}\n```"
    if lines and all(line.startswith(" ") or _DEFINITION.match(line) for line in lines):
        return paragraph if lines[0].startswith(" ") else f"```text\n{paragraph}\n```"
    return paragraph
