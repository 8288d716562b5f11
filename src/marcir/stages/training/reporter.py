"""What a person sees of a training run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marcir.stages.training.checkpoint import Progress

Tell = Callable[[float, float], None]


class Reporter:
    """Prints one line an epoch, and a bar within it on a terminal; silent on all processes but the first.

    Args:
        epochs: How many there are.
        speaks: Whether this process is the one that people see.
    """

    def __init__(self, epochs: int, speaks: bool) -> None:
        self.epochs, self.speaks = epochs, speaks
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """One line, on the stream for people."""
        if self.speaks:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """One line about something that is off, once."""
        kind = text.split(":")[0]
        if kind not in self._said:
            self._said.add(kind)
            self.say(f"WARNING: {text}")

    @contextmanager
    def steps(self, progress: Progress, total: int) -> Iterator[Tell]:
        """A bar over the batches of an epoch, told the mean loss and images per second after each."""
        if not (self.speaks and sys.stderr.isatty()):
            yield lambda loss, speed: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}  loss {task.fields[loss]:.3f}  "),
            TextColumn("{task.fields[speed]:.0f} images/s  epoch ends in"),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(
                "",
                total=total,
                completed=progress.step,
                epoch=f"{progress.epoch + 1}/{self.epochs}",
                loss=float("nan"),
                speed=0.0,
            )
            yield lambda loss, speed: bar.update(task, advance=1, loss=loss, speed=speed)

    def epoch(self, progress: Progress, better: bool) -> None:
        """The line of an epoch that ended."""
        row = progress.history[-1]
        score = row.get("validation nDCG@100")
        validated = (
            "" if score is None else f"  validation nDCG@100 {100 * score:.1f}{' (best)' if better else ''}"
        )
        left = progress.seconds / progress.epoch * (self.epochs - progress.epoch)
        self.say(
            f"epoch {progress.epoch}/{self.epochs}  loss {row['loss']:.4f}{validated}  "
            f"{row['images_per_second']:.0f} images/s  {duration(left)} left"
        )


def duration(seconds: float) -> str:
    """A time that people read.

    >>> duration(42), duration(400), duration(8000)
    ('42 s', '7 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
