"""Train an encoder on a labelled archive, and leave a model folder."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from marcir.catalog import loss_options
from marcir.config import Config, with_dataset
from marcir.data.split import Split
from marcir.errors import ConfigError, DataError, DependencyError, LabelError, TrainingError
from marcir.files import folder_lock
from marcir.losses import MultiLabelLoss
from marcir.model.backbone import check_weights
from marcir.model.device import choose_device
from marcir.model.precision import Precision
from marcir.processes import describe_exit
from marcir.training.build import build_encoder, build_loss
from marcir.training.checkpoint import Checkpoints, Progress
from marcir.training.evaluation import Evaluation
from marcir.training.final_scores import Tested, score_test
from marcir.training.inputs import AugmentedImages, Examples, FrozenFeatures
from marcir.training.loop import Trainer
from marcir.training.precision import decide_precision
from marcir.training.reporter import Reporter, duration
from marcir.training.run_folder import RunFolder, model_config
from marcir.training.task import Task, image_size, open_task
from marcir.training.tensorboard import Board

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Seconds within which two interrupts count as one.
_SAME_INTERRUPT = 1.0
# Seconds between a lost connection and the end of the process that lost it.
_DEATH_SECONDS = 2.0


@dataclass(frozen=True, eq=False)
class Trained:
    """What a finished run leaves beside its folder.

    Attributes:
        config: Its settings, with nothing left to be decided.
        split: Which images trained, validated and tested.
        progress: Time, history, and which epoch was best.
        tested: Scores and vectors of the test images; None where there are fewer than two.
        loss: What it was trained with.
    """

    config: Config
    split: Split
    progress: Progress
    tested: Tested | None
    loss: MultiLabelLoss


def train(config: Config | Mapping[str, Any], run: str | Path | None = None) -> Evaluation | None:
    """Train, or go on with a run that was interrupted.

    >>> settings = {"data": {"root": "tiles"}, "encoder": {"frozen": True}, "train": {"epochs": 60}}
    >>> print(train(settings, run="runs/mine"))  # doctest: +SKIP

    Args:
        config: The settings by section, as in the YAML files of `marcir train`; what is left out has its
            default.
        run: The model folder; that of the settings by default.

    Returns:
        The scores of the best model on the test images; None on all processes but the first, and where
        there are no test images.

    Raises:
        KeyboardInterrupt: After Ctrl-C, when everything is saved.
        MarcirError: For settings, data or checkpoints that cannot be used.
    """
    if not isinstance(config, Config):
        config = Config.of(with_dataset(config))
    trained = train_run(config if run is None else replace(config, run=str(run)))
    return None if trained is None or trained.tested is None else trained.tested.evaluation


def train_run(config: Config, quiet: bool = False) -> Trained | None:
    """`train`, with all that a finished run leaves; None on all processes but the first.

    Args:
        config: Its settings.
        quiet: Without a word to people, who watch many runs at once.
    """
    config = effective(config)
    folder = RunFolder(config.folder)
    folder.check(config)
    check_weights(config.encoder.backbone, config.encoder.weights)
    task = _opened(config, folder)
    config, precision = decide_precision(config, folder.settings() if folder.started else None)
    fabric = start_fabric(config)
    reporter = Reporter(config.train.epochs, fabric.is_global_zero and not quiet)
    lock = _only_run(folder.path) if fabric.is_global_zero else nullcontext()
    with lock, _explaining_dead_processes(fabric):
        _introduce(reporter, config, task, precision)
        try:
            trainer = _trainer(config, fabric, task, folder, reporter)
        except KeyboardInterrupt:
            reporter.say(f"stopped; computed features are kept. To go on: marcir train {_command(config)}")
            raise
        return _train(config, fabric, task, folder, reporter, trainer)


def _opened(config: Config, folder: RunFolder) -> Task:
    """The archive of a run; of one that goes on, it must be the one that it began with.

    Raises:
        ConfigError: Where it is another one.
    """
    if not folder.started:
        return open_task(config)
    try:
        task = open_task(config, folder.split)
    except (DataError, LabelError) as error:
        moved = folder.moved(config)
        if moved is None:
            raise
        name, before, now = moved
        raise ConfigError(
            f"{folder.path} was trained with {name} = {before}, now it is {now}, which is another archive: "
            f"{str(error).rstrip('.')}. Use another --run."
        ) from error
    folder.check_archive(config, task)
    return task


def _train(
    config: Config, fabric: "Fabric", task: Task, folder: RunFolder, reporter: Reporter, trainer: Trainer
) -> Trained | None:
    if fabric.is_global_zero:
        folder.sweep()
        folder.claim(config, task)
    fabric.barrier()
    if trainer.resume():
        _say_resumed(reporter, trainer, config)
    with _stopping_on_interrupt(trainer):
        trainer.run()
    if not trainer.done:
        reporter.say(f"stopped and saved. To go on: marcir train {_command(config)}")
        raise KeyboardInterrupt
    if not fabric.is_global_zero:
        return None
    scored = len(task.positions("test")) >= 2
    reporter.say(
        f"trained in {duration(trainer.progress.seconds)}; "
        + ("scoring the test images" if scored else f"{folder.path} holds the model")
    )
    folder.load_weights(trainer.encoder)
    name = folder.path.name
    tested = score_test(name, config, task, trainer.encoder, trainer.examples) if scored else None
    evaluation = None if tested is None else tested.evaluation
    folder.save_results(evaluation, model_config(config, task, trainer.encoder), trainer.progress)
    return Trained(config, task.split, trainer.progress, tested, trainer.loss)


@contextmanager
def _only_run(folder: Path) -> Iterator[None]:
    """Keep a second process from training in the run's folder.

    Raises:
        ConfigError: Where another process is training there.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder, "train", wait=False))
        except BlockingIOError:
            raise ConfigError(
                f"{folder}: another process is training there. Wait for it, or use another --run."
            ) from None
        yield


def effective(config: Config) -> Config:
    """The settings with their defaults filled in, all but the precision (`decide_precision`)."""
    options = {**loss_options(config.loss.name), **config.loss.options}
    config = config.anchored()
    return replace(
        config,
        data=replace(config.data, size=image_size(config.data)),
        loss=replace(config.loss, options=options),
    )


def start_fabric(config: Config) -> "Fabric":
    """Devices and processes: one, several of this machine, or those of torchrun."""
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise DependencyError(
            "lightning-fabric is not installed. Install it with: pip install 'marcir[train]'"
        ) from error
    # It announces bfloat16 in words of its own; `_introduce` says it with the reason.
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", config.train.devices))
    nodes = int(os.environ.get("WORLD_SIZE", local)) // local
    device = choose_device(config.train.device)
    fabric = Fabric(
        accelerator=device.type,
        devices=local if device.index is None else [device.index],
        num_nodes=nodes,
        strategy="ddp" if local * nodes > 1 else "auto",
        precision="bf16-mixed" if config.train.precision == "bfloat16" else "32-true",
    )
    fabric.launch()
    _check_same_precision(fabric, config)
    return fabric


@contextmanager
def _explaining_dead_processes(fabric: "Fabric") -> Iterator[None]:
    """Where a process that fabric started has died, raise what its death means, not a broken connection.

    Raises:
        TrainingError: With the first process that died.
    """
    try:
        yield
    except RuntimeError as error:
        children: list[subprocess.Popen[bytes]] = getattr(fabric.strategy.launcher, "procs", [])
        for rank, child in enumerate(children, 1):
            with suppress(subprocess.TimeoutExpired):
                if child.wait(_DEATH_SECONDS):
                    raise TrainingError(
                        f"process {rank} of {fabric.world_size}: {describe_exit(child.returncode)}. The same "
                        "command goes on from the last checkpoint."
                    ) from error
        raise


def _check_same_precision(fabric: "Fabric", config: Config) -> None:
    """Refuse processes whose machines decided differently.

    Raises:
        ConfigError: On every process.
    """
    if fabric.world_size == 1:
        return
    lowered = torch.tensor(float(config.train.precision == "bfloat16"), device=fabric.device)
    share: Any = fabric.all_reduce(lowered, reduce_op="mean")
    if float(share) not in (0.0, 1.0):
        raise ConfigError(
            "train.precision: some processes would compute in bfloat16 and others in float32, because their "
            "machines differ. Set --train.precision float32."
        )


def _trainer(config: Config, fabric: "Fabric", task: Task, folder: RunFolder, reporter: Reporter) -> Trainer:
    encoder = build_encoder(config.encoder, task, config.train.seed).to(fabric.device)
    loss = build_loss(config, task)
    examples: Examples
    if config.encoder.frozen:
        examples = FrozenFeatures(task, encoder, config)
    else:
        examples = AugmentedImages(task, config.train.seed, fabric.device)
        if fabric.device.type == "cuda" and fabric.world_size > 1:
            encoder = torch.nn.SyncBatchNorm.convert_sync_batchnorm(encoder)
    torch.manual_seed(config.train.seed)  # whatever was drawn so far: dropout is the same for every loss
    written = model_config(config, task, encoder)
    board = Board(folder.path, fabric.is_global_zero)

    def on_epoch(progress: Progress) -> None:
        folder.save_history(progress)
        board.write(progress.history[-1])

    return Trainer(
        config,
        fabric,
        task,
        encoder,
        loss,
        examples,
        Checkpoints(folder.checkpoints, config.train.keep),
        reporter,
        on_best=lambda: folder.save_model(encoder, written),
        on_epoch=on_epoch,
    )


@contextmanager
def _stopping_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C ends the step and saves; the second one ends at once.

    A terminal and torchrun both hand on one Ctrl-C: what follows within a moment is the same one.
    """
    asked: list[float] = []

    def stop(*_: Any) -> None:
        asked.append(time.monotonic())
        if asked[-1] - asked[0] > _SAME_INTERRUPT:
            raise KeyboardInterrupt
        trainer.asked_to_stop = True
        if len(asked) == 1:
            trainer.reporter.say("stopping after this step (once more to stop at once) ...")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _introduce(reporter: Reporter, config: Config, task: Task, precision: Precision) -> None:
    sizes = " / ".join(f"{len(task.positions(part)):,}" for part in ("train", "validation", "test"))
    reporter.say(
        f"{task.archive.name}: {len(task.archive):,} images ({sizes} to train / validate / test), "
        f"{len(task.archive.vocabulary)} labels; {config.encoder.backbone} at {task.size} px, "
        f"{config.loss.name}"
    )
    reporter.say(f"computing in {precision}")
    for problem in task.source.broken.values():
        reporter.say(f"skipped {problem}")
    if len(task.positions("validation")) < 2:
        reporter.warn("there are no validation images: the last epoch's weights are kept, not the best.")
    if len(task.positions("test")) < 2:
        reporter.warn("there are fewer than two test images: the model gets no test scores.")


def _say_resumed(reporter: Reporter, trainer: Trainer, config: Config) -> None:
    progress = trainer.progress
    at = f"epoch {progress.epoch + 1}" + (f", step {progress.step + 1}" if progress.step else "")
    over = "already trained to its end" if trainer.done else f"going on with {at}"
    reporter.say(f"{config.folder}: {over}")


def _command(config: Config) -> str:
    """The arguments to go on with: as they were given, or the settings beside the run."""
    given = sys.argv[2:] if len(sys.argv) > 2 and sys.argv[1] == "train" else []
    return shlex.join(given or ["--config", str(config.folder / "config.yaml"), "--run", str(config.folder)])
