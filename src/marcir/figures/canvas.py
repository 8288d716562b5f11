"""The one way figures are begun and saved."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.errors import needs
from marcir.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def figure(path: str | Path, width: float, height: float) -> Iterator["Figure"]:
    """A figure of so many inches, saved as PNG when the block ends; needs no screen.

    Raises:
        DependencyError: Where matplotlib is not installed.
    """
    with needs("bench"):
        from matplotlib.figure import Figure
    drawn = Figure(figsize=(width, height), layout="constrained")
    yield drawn
    with written_whole(Path(path)) as temporary, warnings.catch_warnings():
        # A script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        drawn.savefig(temporary, dpi=120, format="png")
