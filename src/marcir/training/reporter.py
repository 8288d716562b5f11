"""What a person sees of a training run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marcir.progress import display
from marcir.progress import duration as duration  # re-exported for train, benchmark and demo
from marcir.training.checkpoint import Progress

Update = Callable[[float, float], None]


class Reporter:
    """Prints one line per epoch, with a bar or lines within long ones; silent on all processes but the first.

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
    def steps(self, progress: Progress, total: int) -> Iterator[Update]:
        """Show how far an epoch is; the function takes mean loss and images per second after each batch."""
        if not self.speaks:
            yield lambda loss, speed: None
            return
        note = f"loss {progress.loss_sum / progress.step:.3f}" if progress.step else ""
        shown = display(
            f"epoch {progress.epoch + 1}/{self.epochs}",
            total,
            progress.step,
            note=note,
            left="epoch ends in {}",
        )
        with shown as advance:
            yield lambda loss, speed: advance(1, f"loss {loss:.3f}, {_rate(speed)} images/s")

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
            f"{_rate(row['images_per_second'])} images/s  {duration(left)} left"
        )


def _rate(speed: float) -> str:
    """Images per second, with two digits where there are less than ten.

    >>> _rate(56.4), _rate(0.0456)
    ('56', '0.046')
    """
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"
