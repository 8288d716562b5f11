"""Progress of long jobs: a bar on a terminal, one line per minute elsewhere, both with the time left."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")

_LINE_SECONDS = 60.0
# Seconds between two updates of a bar: some jobs finish thousands of items per second.
_BAR_SECONDS = 0.1


class Advance(Protocol):
    """Reports finished items of a job."""

    def __call__(self, count: int = 1, note: str = "") -> None:
        """Count finished items; the note is shown from now on."""
        ...


def track(
    items: Iterable[Item],
    total: int,
    what: str,
    *,
    done: int = 0,
    size: Callable[[Item], int] | None = None,
) -> Iterator[Item]:
    """Yield the items, and show progress on stderr.

    Args:
        items: The items; an item is finished when the next one is requested.
        total: Total number of items.
        what: Name of the job.
        done: Number of items finished before.
        size: How many items one element counts for; 1 by default.

    >>> list(track([1, 2], 2, "counting"))
    [1, 2]
    """
    with progress_bar(what, total, done) as advance:
        for item in items:
            yield item
            advance(1 if size is None else size(item))


@contextmanager
def progress_bar(
    what: str, total: int, done: int = 0, *, note: str = "", left: str = "{} left"
) -> Iterator[Advance]:
    """Show the progress of a job: a bar on a terminal, else one line per minute.

    A job of less than a minute prints no line. Without rich, or on a terminal that cannot redraw a line,
    there is no bar.

    Args:
        what: Name of the job.
        total: Total number of items.
        done: Number of items finished before.
        note: Shown after the number of items.
        left: Format of the time left.
    """
    job = _Job(total, done, note, left)
    terminal = _terminal()
    if terminal is None:

        def print_line() -> None:
            if job.done < job.total:
                print(f"{what}: {job.status}", file=sys.stderr, flush=True)

        yield _advance(job, _LINE_SECONDS, print_line)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    name = TextColumn("{task.description}", markup=False)
    status = TextColumn("{task.fields[job].status}", markup=False)  # looked up at every refresh
    with Progress(name, BarColumn(), status, console=terminal, transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done, job=job)
        try:
            yield _advance(job, _BAR_SECONDS, lambda: bar.update(task, completed=job.done))
        finally:
            bar.update(task, completed=job.done)


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> duration(42), duration(400), duration(8000)
    ('42 s', '7 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class _Job:
    """Counts finished items, and estimates the time left from the mean pace so far."""

    def __init__(self, total: int, done: int, note: str, left: str) -> None:
        self.total, self.done, self.note = total, done, note
        self.started = self.finished_at = time.monotonic()
        self._before, self._left = done, left

    def advance(self, count: int, note: str) -> None:
        self.done, self.note, self.finished_at = self.done + count, note, time.monotonic()

    @property
    def status(self) -> str:
        """Number of finished items, the note, and the time left once it is known."""
        parts = [f"{min(self.done, self.total):,} of {self.total:,}"]
        if self.note:
            parts.append(self.note)
        seconds = self._seconds_left()
        if seconds is not None:
            parts.append(self._left.format(duration(seconds)))
        return ", ".join(parts)

    def _seconds_left(self) -> float | None:
        """Estimated from the last finished item, so that it decreases while the next one is processed."""
        finished, missing = self.done - self._before, self.total - self.done
        if finished <= 0 or missing <= 0:
            return None
        pace = (self.finished_at - self.started) / finished
        return max(0.0, pace * missing - (time.monotonic() - self.finished_at))


def _advance(job: _Job, seconds: float, show: Callable[[], None]) -> Advance:
    """Count finished items, and show the job if that was last done so many seconds ago."""
    shown = job.started

    def advance(count: int = 1, note: str = "") -> None:
        nonlocal shown
        job.advance(count, note)
        if job.finished_at - shown >= seconds:
            shown = job.finished_at
            show()

    return advance


def _terminal() -> "Console | None":
    """The console for a bar; None without rich, without a terminal, or if lines cannot be redrawn."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console
