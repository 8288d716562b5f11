"""TensorBoard log, if TensorBoard is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoardLog:
    """Writes the history for TensorBoard; does nothing if it is not installed.

    Args:
        folder: The run's folder.
        enabled: False on processes that must not write.
    """

    def __init__(self, folder: Path, enabled: bool) -> None:
        self._folder, self._enabled = folder, enabled
        self._writer: Any = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row of the history."""
        if self._enabled and self._writer is None:
            self._open()
        if self._writer is None:
            return
        for name, value in row.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name.replace(" ", "/", 1), value, row["epoch"])
        self._writer.flush()

    def _open(self) -> None:
        """Create the log, after the first epoch: a run that fails earlier leaves no files."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._enabled = False
        else:
            self._writer = SummaryWriter(str(self._folder / "tensorboard"))
