"""Checkpoints of a run, written atomically: resuming one gives the same bits as no interruption."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.optim import Optimizer

from marcir.errors import DataError, TrainingError
from marcir.files import reason
from marcir.schema import load, parse, record, to_json
from marcir.training.peers import Peers

_TENSORS, _NUMBERS = "state.safetensors", "state.json"


@record(frozen=False)
class Progress:
    """The progress of a run.

    Attributes:
        epoch: The current epoch, from 0.
        step: Finished batches of this epoch.
        loss_sum: Sum of their losses.
        best: The best validation score so far.
        best_epoch: The epoch of that score.
        seconds: Training time so far.
        history: One row per epoch.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    best: float | None = None
    best_epoch: int | None = None
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


@record()
class _Numbers:
    """The content of a checkpoint besides tensors: progress and the optimiser's settings."""

    progress: Progress
    optimiser: list[dict[str, Any]]
    version: Literal[1] = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint that was read."""

    where: str
    tensors: dict[str, Tensor]
    numbers: _Numbers

    def restore(self, encoder: nn.Module, loss: nn.Module, optimiser: Optimizer) -> Progress:
        """Restore the state; a TrainingError if it belongs to another model."""
        try:
            _restore(self.tensors, self.numbers.optimiser, encoder, loss, optimiser)
        except (RuntimeError, KeyError, ValueError) as error:
            raise TrainingError(
                f"{self.where}: a checkpoint of another model, loss or label set ({reason(error)}). "
                "Use another --run."
            ) from error
        return self.numbers.progress


def share(found: Checkpoint | None, peers: Peers) -> Checkpoint | None:
    """The checkpoint that the first process has found, or None, on all processes."""
    if peers.alone:
        return found
    numbers = peers.from_first(lambda: to_json(found.numbers).encode() if found else b"")
    if not numbers:
        return None
    tensors = peers.from_first(lambda: save(found.tensors) if found else b"")
    return found or Checkpoint("the first process", load_tensors(tensors), parse(_Numbers, numbers))


class Checkpoints:
    """The checkpoints of a run: `last/` in its folder; the newest `keep` of them are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, progress: Progress, encoder: nn.Module, loss: nn.Module, optimiser: Optimizer) -> Path:
        """Write a checkpoint atomically and remove the oldest ones.

        Raises:
            TrainingError: If it cannot be written; older checkpoints are kept.
        """
        name = f"epoch-{progress.epoch:05d}-step-{progress.step:07d}"
        temporary, final = self.folder / f".{name}.part", self.folder / name
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            tensors, groups = _state(encoder, loss, optimiser)
            (temporary / _TENSORS).write_bytes(save(tensors))
            (temporary / _NUMBERS).write_text(to_json(_Numbers(progress, groups)), "utf-8")
            for file in temporary.iterdir():
                _sync(file)
            shutil.rmtree(final, ignore_errors=True)
            temporary.rename(final)
            _sync(self.folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise TrainingError(
                f"{final}: cannot be written ({reason(error)}). Older checkpoints are untouched: "
                "free some disk space and run the same command again."
            ) from error
        # Newer checkpoints must be unreadable, or training would have resumed from them.
        kept = [path for path in self._all() if path.name <= name][-self.keep :]
        for path in self._all():
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)
        return final

    def load(self) -> Checkpoint | None:
        """Read the newest readable checkpoint; None if there are no checkpoints.

        Raises:
            TrainingError: If no checkpoint can be read.
        """
        problems = []
        for path in reversed(self._all()):
            try:
                tensors = load_file(path / _TENSORS)
                numbers = load(_Numbers, path / _NUMBERS, "the numbers of a checkpoint")
            except (OSError, SafetensorError, DataError) as error:
                problems.append(f"{path} ({reason(error)})")
                continue
            return Checkpoint(str(path), tensors, numbers)
        if problems:
            raise TrainingError(
                f"no checkpoint can be read: {'; '.join(problems)}. Remove them to start again."
            )
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("epoch-*-step-*"))


def _state(
    encoder: nn.Module, loss: nn.Module, optimiser: Optimizer
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """All tensors by name, and the optimiser's parameter groups."""
    tensors = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    tensors |= {f"loss.{name}": value for name, value in loss.state_dict().items()}
    state = optimiser.state_dict()
    for index, values in state["state"].items():
        tensors |= {f"optimiser.{index}.{name}": torch.as_tensor(value) for name, value in values.items()}
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    # Copies, because safetensors refuses tensors that share memory or are not contiguous.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    return copies, state["param_groups"]


def _restore(
    tensors: dict[str, Tensor],
    groups: list[dict[str, Any]],
    encoder: nn.Module,
    loss: nn.Module,
    optimiser: Optimizer,
) -> None:
    encoder.load_state_dict(_with_prefix("encoder.", tensors))
    loss.load_state_dict(_with_prefix("loss.", tensors))
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _with_prefix("optimiser.", tensors).items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    torch.set_rng_state(tensors["random"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
