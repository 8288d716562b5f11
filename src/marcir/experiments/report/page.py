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

    def html(self) -> str:
        """A <ul>, or one <p> per sentence."""
        texts = [html.escape(text) for text in self.texts]
        if self.listed:
            return "<ul>\n" + "\n".join(f"<li>{text}</li>" for text in texts) + "\n</ul>"
        return "\n".join(f"<p>{text}</p>" for text in texts)


@dataclass(frozen=True)
class Figure:
    """A PNG file and its caption."""

    file: Path
    caption: str

    def html(self) -> str:
        """A <figure> that holds the image itself."""
        content = self.file.read_bytes()
        caption = html.escape(self.caption)
        # Bytes 16 to 24 of a PNG hold width and height: with them the layout does not shift while it loads.
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        return (
            f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
            f'<img alt="{caption}" width="{width}" height="{height}" src="{source}"></div>'
            f"<figcaption>{caption}</figcaption></figure>"
        )


Block = Heading | Sentences | Figure | Table


def render_page(title: str, blocks: Sequence[Block]) -> str:
    """Render the blocks as an HTML document with a table of contents."""
    contents: list[str] = []
    body: list[str] = []
    ids: set[str] = set()
    for place, block in enumerate(blocks):
        if not isinstance(block, Heading):
            body.append(block.html())
            continue
        name = re.sub(r"[^a-z0-9]+", "-", block.text.lower()).strip("-") or "part"
        name = f"{name}-{place}" if name in ids else name
        ids.add(name)
        text = html.escape(block.text)
        contents.append(f'<li class="level-{block.level}"><a href="#part-{name}">{text}</a></li>')
        body.append(f'<h{block.level} id="part-{name}">{text}</h{block.level}>')
    return Template((_FOLDER / "page.html").read_text("utf-8")).substitute(
        title=html.escape(title),
        style=(_FOLDER / "page.css").read_text("utf-8"),
        contents="<ul>\n" + "\n".join(contents) + "\n</ul>",
        body="\n".join(body),
    )
