"""What a report is made of, before it becomes a page."""

from dataclasses import dataclass
from pathlib import Path

from marcir.experiments.report.table import Table


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 is a chapter."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Sentences:
    """Plain sentences, as a list or as one paragraph."""

    texts: tuple[str, ...]
    listed: bool = False


@dataclass(frozen=True)
class Figure:
    """A drawn figure.

    Attributes:
        file: The PNG.
        caption: What it shows.
    """

    file: Path
    caption: str


Block = Heading | Sentences | Figure | Table
