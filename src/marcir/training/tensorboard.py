"""TensorBoard, where it is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """Writes the history for TensorBoard; does nothing where it is not installed.

    Args:
        folder: The run's folder.
        writes: Whether this process is the one that writes.
    """

    def __init__(self, folder: Path, writes: bool) -> None:
        self._folder, self._writes = folder, writes
        self._writer: Any = None

    def write(self, row: Mapping[str, Any]) -> None:
        """The numbers of an epoch."""
        if self._writes and self._writer is None:
            self._open()
        if self._writer is None:
            return
        for name, value in row.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name.replace(" ", "/", 1), value, row["epoch"])
        self._writer.flush()

    def _open(self) -> None:
        """With the first epoch: a run that never begins leaves nothing behind."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._writes = False
        else:
            self._writer = SummaryWriter(str(self._folder / "tensorboard"))
