"""Runs on a small archive that take a second or two."""

import json
import os
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import Tensor

from marcir.cli import main
from marcir.training.checkpoint import Progress
from marcir.training.reporter import Reporter

MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"


def start(arguments: list[str], cache: Path, *before: str) -> subprocess.Popen[str]:
    """`marcir train` as a process of its own, in the run's own folder."""
    return subprocess.Popen(
        [*(before or (str(MARCIR),)), "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MARCIR_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
    )


def train(*arguments: str) -> None:
    """`marcir train` in this process."""
    assert main(["train", *arguments]) == 0


@contextmanager
def after_an_epoch(do: Callable[[], object]) -> Iterator[None]:
    """Do something after every epoch of a run in this process."""
    reported = Reporter.epoch

    def epoch(self: Reporter, progress: Progress, better: bool) -> None:
        reported(self, progress, better)
        do()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reporter, "epoch", epoch)
        yield


def interrupted_after_an_epoch() -> AbstractContextManager[None]:
    """Ctrl-C, for real, after the first epoch of a run in this process."""
    return after_an_epoch(lambda: signal.raise_signal(signal.SIGINT))


def weights(run: Path) -> dict[str, Tensor]:
    return load_file(run / "model.safetensors")


def newest_state(run: Path) -> dict[str, Tensor]:
    """Tensors of the newest checkpoint; copies, because the file may be changed."""
    tensors = load_file(sorted((run / "last").iterdir())[-1] / "state.safetensors")
    return {name: value.clone() for name, value in tensors.items()}


def progress_of(run: Path) -> dict[str, object]:
    """Numbers of the newest checkpoint."""
    content = json.loads((sorted((run / "last").iterdir())[-1] / "state.json").read_text())
    found: dict[str, object] = content["progress"]
    return found
