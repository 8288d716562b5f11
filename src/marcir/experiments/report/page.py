"""Blocks of a report, rendered as one self-contained HTML page."""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from marcir.experiments.report.table import Table

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 starts a chapter."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Sentences:
    """Plain sentences, as a list or as one paragraph."""

    texts: tuple[str, ...]
    listed: bool = False


@dataclass(frozen=True)
class Figure:
    """A PNG file and its caption."""

    file: Path
    caption: str


Block = Heading | Sentences | Figure | Table


def render_page(title: str, blocks: Sequence[Block]) -> str:
    """Render the blocks as an HTML document."""
    ids = _ids(blocks)
    return Template((_FOLDER / "page.html").read_text("utf-8")).substitute(
        title=html.escape(title),
        style=(_FOLDER / "page.css").read_text("utf-8"),
        contents=_contents(blocks, ids),
        body="\n".join(_html(block, ids.get(place, "")) for place, block in enumerate(blocks)),
    )


def _ids(blocks: Sequence[Block]) -> dict[int, str]:
    """A unique id for each heading, by position in `blocks`."""
    ids: dict[int, str] = {}
    for place, block in enumerate(blocks):
        if isinstance(block, Heading):
            slug = re.sub(r"[^a-z0-9]+", "-", block.text.lower()).strip("-") or "part"
            ids[place] = slug if slug not in ids.values() else f"{slug}-{place}"
    return ids


def _contents(blocks: Sequence[Block], ids: dict[int, str]) -> str:
    lines = [
        f'<li class="level-{block.level}"><a href="#part-{ids[place]}">{html.escape(block.text)}</a></li>'
        for place, block in enumerate(blocks)
        if isinstance(block, Heading)
    ]
    return "<ul>\n" + "\n".join(lines) + "\n</ul>"


def _html(block: Block, identity: str) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="part-{identity}">{html.escape(block.text)}</h{block.level}>'
    if isinstance(block, Sentences):
        return _sentences(block)
    if isinstance(block, Table):
        return block.html()
    return _figure(block)


def _sentences(block: Sentences) -> str:
    texts = [html.escape(text) for text in block.texts]
    if block.listed:
        return "<ul>\n" + "\n".join(f"<li>{text}</li>" for text in texts) + "\n</ul>"
    return "\n".join(f"<p>{text}</p>" for text in texts)


def _figure(block: Figure) -> str:
    content = block.file.read_bytes()
    caption = html.escape(block.caption)
    # Bytes 16 to 24 of a PNG hold width and height: with them the layout does not shift while it loads.
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    data = base64.b64encode(content).decode()
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<img alt="{caption}" width="{width}" height="{height}" src="data:image/png;base64,{data}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
