"""The training loop: batches, steps, validation, checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from marcir.config import Config
from marcir.data.prefetch import read_batches
from marcir.data.samplers import LabelAwareBatches, ShuffledBatches
from marcir.errors import ConfigError, TrainingError
from marcir.losses import DistributedLoss, LossDiagnosis, MultiLabelLoss, diagnose
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.model.device import to_device
from marcir.model.encoder import Encoder
from marcir.training.checkpoint import Checkpoints, Progress, share
from marcir.training.inputs import Examples
from marcir.training.peers import Peers
from marcir.training.reporter import Reporter
from marcir.training.task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

SELECTED_BY = "nDCG@100"  # Reading R17
# A mean cosine of all pairs above this counts as collapse.
COLLAPSED = 0.99
# Epochs of a frozen backbone last less than a second: not each of them is worth a checkpoint.
_CHECKPOINT_SECONDS = 5.0
# Epochs after which the learning rate decays by a factor (Reading R16).
_PERIOD, _DECAY = 15, 0.8


def learning_rate(schedule: str, lr: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0.

    `restarts`: lr * 0.8^floor(e/15) * (1 + cos(pi (e mod 15)/15))/2; `step`: lr * 0.8^floor(e/15);
    `cosine`: lr * (1 + cos(pi e/epochs))/2.

    >>> [f"{learning_rate('restarts', 1e-3, e, 100):.3g}" for e in (0, 7, 14, 15)]
    ['0.001', '0.000552', '1.09e-05', '0.0008']
    """
    if schedule == "cosine":
        return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
    peak = lr * _DECAY ** (epoch // _PERIOD)
    return peak if schedule == "step" else peak * (1 + math.cos(math.pi * (epoch % _PERIOD) / _PERIOD)) / 2


class TrainableModule(nn.Module):
    """The module that is optimised: the encoder, or only its head if the backbone is frozen."""

    def __init__(self, encoder: Encoder, frozen: bool) -> None:
        super().__init__()
        self.encoder, self.frozen = encoder, frozen

    def forward(self, inputs: Tensor) -> Tensor:
        """Unit vectors of images, or of features. (B, D)"""
        embedded: Tensor = self.encoder.project(inputs) if self.frozen else self.encoder(inputs)
        return embedded

    def train(self, mode: bool = True) -> "TrainableModule":
        """Set the mode; a frozen backbone stays in eval mode."""
        super().train(mode)
        if self.frozen:
            self.encoder.backbone.eval()
        return self


@dataclass
class Trainer:
    """Trains an encoder epoch by epoch.

    Attributes:
        peers: The processes of the run.
        examples: Inputs of the network.
        on_best: Called after each new best validation score, to write the model.
        on_epoch: Called after every epoch, to write the history.
        stop_requested: Set by the caller at any time; all processes stop after their current step.
    """

    config: Config
    fabric: "Fabric"
    peers: Peers
    task: Task
    encoder: Encoder
    loss: MultiLabelLoss
    examples: Examples
    checkpoints: Checkpoints
    reporter: Reporter
    on_best: Callable[[], None]
    on_epoch: Callable[[Progress], None]
    stop_requested: bool = False

    def __post_init__(self) -> None:
        settings, fabric = self.config.train, self.fabric
        trainable = TrainableModule(self.encoder, self.config.encoder.frozen)
        trained = [p for p in (*trainable.parameters(), *self.loss.parameters()) if p.requires_grad]
        optimiser = torch.optim.Adam(trained, lr=settings.lr, weight_decay=settings.weight_decay)
        trainable.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
        self.loss.to(fabric.device)
        self.network, self.optimiser = fabric.setup(trainable, optimiser)
        self.objective: Any = self.loss
        if fabric.world_size > 1:
            self.objective = DistributedLoss(self.loss)
            if any(p.requires_grad for p in self.loss.parameters()):
                self.objective = fabric.setup_module(self.objective)
        if settings.batch_size < 2 * fabric.world_size:
            raise ConfigError(
                f"train.batch_size = {settings.batch_size}: {fabric.world_size} processes need at least two "
                f"images each. Use {2 * fabric.world_size} or more."
            )
        self.positions = self.task.positions("train")
        y, rank = self.task.training_labels[self.positions], fabric.global_rank
        shared: dict[str, Any] = {"seed": settings.seed, "rank": rank, "processes": fabric.world_size}
        self.sampler = (
            LabelAwareBatches(y, settings.batch_size, **shared)
            if settings.sampler == "label-aware"
            else ShuffledBatches(len(y), settings.batch_size, **shared)
        )
        self.progress = Progress()
        self._saved, self._unsaved = time.monotonic(), False

    def resume(self) -> bool:
        """Restore the newest checkpoint of the first process; return whether there was one."""
        found = share(self.checkpoints.load() if self.peers.is_first else None, self.peers)
        if found is not None:
            self.progress = found.restore(self.encoder, self.loss, self.optimiser)
        return found is not None

    def run(self) -> None:
        """Train until the last epoch, until `patience` runs out, or until a stop is requested."""
        while not self.done and not self._should_stop():
            self._epoch()
        if self._unsaved:
            self._save()

    @property
    def done(self) -> bool:
        """Whether training is complete."""
        progress, patience = self.progress, self.config.train.patience
        waited = progress.epoch - 1 - (progress.best_epoch if progress.best_epoch is not None else -1)
        return progress.epoch >= self.config.train.epochs or (patience is not None and waited >= patience)

    def _epoch(self) -> None:
        settings, progress = self.config.train, self.progress
        rate = learning_rate(settings.schedule, settings.lr, progress.epoch, settings.epochs)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.network.train()
        self.loss.train()
        self.sampler.set_epoch(progress.epoch)
        started = time.monotonic()
        seen, seconds_before = 0, progress.seconds
        diagnosis = None
        # Skip the steps that were finished before an interruption.
        steps = islice(enumerate(self.sampler), progress.step, None)
        with self.reporter.steps(progress, len(self.sampler)) as update:
            for ((step, batch, loaded),) in read_batches(steps, self._load, size=1, ahead=1):
                last = step == len(self.sampler) - 1
                value, diagnosis = self._step(batch, loaded, diagnosed=last)
                progress.step, progress.loss_sum = step + 1, progress.loss_sum + value
                progress.seconds = seconds_before + time.monotonic() - started
                seen += len(batch) * self.fabric.world_size
                update(progress.loss_sum / progress.step, seen / max(time.monotonic() - started, 1e-9))
                if last:
                    break
                if self._should_stop():
                    self._save()
                    return
                if time.monotonic() - self._saved > 60 * settings.checkpoint_minutes:
                    self._save(wait=False)  # other processes may not save now: their clocks differ
        speed = seen / max(time.monotonic() - started, 1e-9)
        self._finish_epoch(rate, speed, diagnosis)

    def _load(self, item: tuple[int, list[int]]) -> tuple[int, list[int], Tensor]:
        """Read a batch and copy it to the device; runs in a thread while the last step computes."""
        step, batch = item
        positions = [self.positions[k] for k in batch]
        return step, positions, to_device(self.examples.load(positions), self.fabric.device)

    def _step(
        self, positions: list[int], loaded: Tensor, diagnosed: bool
    ) -> tuple[float, LossDiagnosis | None]:
        """Do one optimiser step; return the loss and, if asked for, its diagnosis on the batch."""
        views, epoch = self.config.train.views, self.progress.epoch
        y = self.task.training_labels[positions].to(self.fabric.device)
        z = self.network(
            torch.cat([self.examples.inputs(loaded, positions, epoch, view) for view in range(views)])
        )
        if views > 1:
            z = torch.stack(z.chunk(views), 1)  # (B, views, D)
        self._check_finite("embeddings", bool(torch.isfinite(z).all()))
        loss = self.objective(z, y)
        value = float(loss.detach())
        self._check_finite("loss", math.isfinite(value))
        self.optimiser.zero_grad()
        self.fabric.backward(loss)
        trained = [p for group in self.optimiser.param_groups for p in group["params"]]
        norm = float(clip_grad_norm_(trained, self.config.train.clip))
        self._check_finite("gradient", math.isfinite(norm))
        self.optimiser.step()
        diagnosis = diagnose(self.loss, z.detach(), y, gradient_norm=norm) if diagnosed else None
        return value, diagnosis

    def _check_finite(self, what: str, finite: bool) -> None:
        if not finite:
            raise TrainingError(
                f"epoch {self.progress.epoch + 1}, step {self.progress.step + 1}: the {what} became infinite "
                "or NaN. Lower train.lr or raise loss.tau; the last checkpoint is untouched."
            )

    def _finish_epoch(self, rate: float, speed: float, diagnosis: LossDiagnosis | None) -> None:
        progress = self.progress
        row: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "learning_rate": rate,
            "loss": progress.loss_sum / max(progress.step, 1),
            "images_per_second": round(speed, 1),
            "seconds": round(progress.seconds, 1),
        }
        if diagnosis is not None:
            row |= {"valid_anchors": diagnosis.valid_anchors, "gradient_norm": diagnosis.gradient_norm}
            row |= {f"cosine {name}": value for name, value in diagnosis.cosine.items()}
        scores, mean_cosine = self._validate()
        row |= {"mean_cosine": mean_cosine} | {f"validation {name}": value for name, value in scores.items()}
        progress.history.append(row)
        score = scores.get(SELECTED_BY) if self.task.selects_epochs else None
        better = score is None or progress.best is None or score > progress.best
        if better:
            progress.best, progress.best_epoch = score, progress.epoch
            if self.fabric.is_global_zero:
                self.on_best()
        self._warn(diagnosis)
        progress.epoch, progress.step, progress.loss_sum = progress.epoch + 1, 0, 0.0
        if self.fabric.is_global_zero:
            self.on_epoch(progress)
        # Clocks of several processes differ, and all of them wait for a checkpoint.
        self._unsaved = True
        seconds = min(_CHECKPOINT_SECONDS, 60 * self.config.train.checkpoint_minutes)
        if self.fabric.world_size > 1 or time.monotonic() - self._saved > seconds:
            self._save()
        self.reporter.epoch(progress, better and score is not None)

    def _validate(self) -> tuple[dict[str, float], float | None]:
        """Scores of the validation images, and their mean cosine."""
        positions = self.task.positions("validation")
        if len(positions) < 2:
            return {}, None
        z = self.embed(positions)
        self._check_finite("embeddings of the validation images", bool(torch.isfinite(z).all()))
        n = len(z)
        mean_cosine = (float(z.double().sum(0).square().sum()) - n) / (n * (n - 1))
        return dict(retrieval_scores(z, self.task.archive.labels[positions], per_label=False)), mean_cosine

    @torch.no_grad()
    def embed(self, positions: list[int]) -> Tensor:
        """Embed images, distributed over all processes. (N, D)"""
        self.network.eval()
        fabric = self.fabric
        # Shares must be equal: the last process embeds some images a second time.
        share = -(-len(positions) // fabric.world_size)
        mine = [positions[(fabric.global_rank * share + k) % len(positions)] for k in range(share)]
        z = self.examples.embed(self.encoder, mine, lambda _: fabric.autocast()).to(fabric.device)
        gathered: Any = fabric.all_gather(z) if fabric.world_size > 1 else z
        embedded: Tensor = gathered.reshape(-1, z.shape[1])[: len(positions)].cpu()
        return embedded

    def _warn(self, diagnosis: LossDiagnosis | None) -> None:
        if diagnosis is not None and diagnosis.valid_anchors == 0:
            self.reporter.warn(
                "no image of the last batch had a partner to learn from: use a larger train.batch_size or "
                "train.sampler label-aware."
            )
        # One such epoch may be transient; two in a row are a collapse.
        means = [row.get("mean_cosine") or 0.0 for row in self.progress.history[-2:]]
        if len(means) == 2 and min(means) > COLLAPSED:
            self.reporter.warn(
                f"the embeddings have collapsed: their mean cosine is {means[-1]:.3f}. Lower train.lr or "
                "raise loss.tau."
            )

    def _save(self, wait: bool = True) -> None:
        """Write a checkpoint; with `wait`, all processes block until it is written."""
        if self.fabric.is_global_zero:
            self.checkpoints.save(self.progress, self.encoder, self.loss, self.optimiser.optimizer)
        self._saved, self._unsaved = time.monotonic(), False
        if wait:
            self.fabric.barrier()

    def _should_stop(self) -> bool:
        """Whether a stop was requested on any process; the same on all of them."""
        if self.fabric.world_size == 1:
            return self.stop_requested
        requested = torch.tensor(float(self.stop_requested), device=self.fabric.device)
        return bool(self.fabric.all_reduce(requested, reduce_op="sum"))
