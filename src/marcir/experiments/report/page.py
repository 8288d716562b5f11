"""Blocks of a report, rendered as one self-contained HTML page."""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marcir.experiments.report.table import Table

_STYLE = Path(__file__).parent / "page.css"
# Browsers block scripts and every request.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


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
    body = "\n".join(_html(block, ids.get(place, "")) for place, block in enumerate(blocks))
    contents = _contents(blocks, ids)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_STYLE.read_text("utf-8")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<div class="page">
<nav class="beside" aria-label="Contents">
<p>Contents</p>
{contents}
</nav>
<nav class="above" aria-label="Contents">
<details><summary>Contents</summary>
{contents}
</details>
</nav>
<main id="content">
<h1>{html.escape(title)}</h1>
{body}
</main>
</div>
</body>
</html>
"""


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
