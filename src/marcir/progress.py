"""Progress bars that appear only where a person is looking."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, with a bar on a terminal; silent elsewhere, and where rich is not installed.

    >>> list(track([1, 2], 2, "counting"))
    [1, 2]
    """
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import track as bar
        except ModuleNotFoundError:
            pass
        else:
            yield from bar(items, what, total, console=Console(stderr=True), transient=True)
            return
    yield from items
