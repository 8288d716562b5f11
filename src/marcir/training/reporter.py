"""Progress of a training run on stderr."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marcir.progress import duration, progress_bar
from marcir.training.checkpoint import Progress

Update = Callable[[float, float], None]


class Reporter:
    """Prints one line per epoch, and a progress bar within an epoch; only the first process is `enabled`."""

    def __init__(self, epochs: int, enabled: bool) -> None:
        self.epochs, self.enabled = epochs, enabled
        self._warned: set[str] = set()

    def info(self, text: str) -> None:
        """Print one line to stderr."""
        if self.enabled:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print a warning, only once per kind (the text before the colon)."""
        kind = text.split(":")[0]
        if kind not in self._warned:
            self._warned.add(kind)
            self.info(f"WARNING: {text}")

    @contextmanager
    def steps(self, progress: Progress, total: int) -> Iterator[Update]:
        """Show the progress of an epoch; call the function after each batch with mean loss and images/s."""
        if not self.enabled:
            yield lambda loss, speed: None
            return
        note = f"loss {progress.loss_sum / progress.step:.3f}" if progress.step else ""
        bar = progress_bar(
            f"epoch {progress.epoch + 1}/{self.epochs}",
            total,
            progress.step,
            note=note,
            left="epoch ends in {}",
        )
        with bar as advance:
            yield lambda loss, speed: advance(1, f"loss {loss:.3f}, {_rate(speed)} images/s")

    def epoch(self, progress: Progress, better: bool) -> None:
        """Print the line of a finished epoch."""
        row = progress.history[-1]
        score = row.get("validation nDCG@100", math.nan)  # nan also where no image has a relevant one
        validated = (
            ""
            if math.isnan(score)
            else f"  validation nDCG@100 {100 * score:.1f}{' (best)' if better else ''}"
        )
        left = progress.seconds / progress.epoch * (self.epochs - progress.epoch)
        self.info(
            f"epoch {progress.epoch}/{self.epochs}  loss {row['loss']:.4f}{validated}  "
            f"{_rate(row['images_per_second'])} images/s  {duration(left)} left"
        )


def _rate(speed: float) -> str:
    """Images per second, with two significant digits below ten.

    >>> _rate(56.4), _rate(0.0456)
    ('56', '0.046')
    """
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"
