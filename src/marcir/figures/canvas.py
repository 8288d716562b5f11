"""The one way figures are begun and saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.errors import DependencyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def figure(path: str | Path, width: float, height: float) -> Iterator["Figure"]:
    """A figure of so many inches, saved as PNG when the block ends; needs no screen.

    Raises:
        DependencyError: Where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise DependencyError(
            "matplotlib is not installed. Install it with: pip install 'marcir[bench]'"
        ) from error
    drawn = Figure(figsize=(width, height), layout="constrained")
    yield drawn
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=120, format="png")
