"""Train an encoder on a labelled archive and write a model folder."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
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
from marcir.training.final_scores import TestResult, score_test
from marcir.training.inputs import AugmentedImages, Examples, FrozenFeatures
from marcir.training.loop import Trainer
from marcir.training.reporter import Reporter, duration
from marcir.training.run_folder import RunFolder, model_config
from marcir.training.run_precision import decide_precision
from marcir.training.task import Task, image_size, open_task
from marcir.training.tensorboard import TensorBoardLog

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Seconds within which two interrupts count as one.
_SAME_INTERRUPT = 1.0
# Seconds to wait for the exit of a process after its connection is lost.
_DEATH_SECONDS = 2.0


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of a finished run, besides the files in its folder.

    Attributes:
        config: The settings, with all defaults resolved.
        split: The training, validation and test images.
        progress: Training time, history and best epoch.
        test: Scores and vectors of the test images; None if there are fewer than two.
        loss: The loss, with its trained parameters.
    """

    config: Config
    split: Split
    progress: Progress
    test: TestResult | None
    loss: MultiLabelLoss


def train(config: Config | Mapping[str, Any], run: str | Path | None = None) -> Evaluation | None:
    """Train a model, or resume an interrupted run.

    >>> settings = {"data": {"root": "tiles"}, "encoder": {"frozen": True}, "train": {"epochs": 60}}
    >>> print(train(settings, run="runs/mine"))  # doctest: +SKIP

    Args:
        config: The settings by section, as in the YAML files of `marcir train`; the others keep their
            defaults.
        run: The model folder; by default the one in the settings.

    Returns:
        The scores of the best model on the test images; None on all processes but the first, and if there
        are no test images.

    Raises:
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
        MarcirError: For invalid settings, data or checkpoints.
    """
    if not isinstance(config, Config | Mapping):
        raise ConfigError(f"train: expected settings by section, found {type(config).__name__}.")
    if not isinstance(config, Config):
        config = Config.from_dict(with_dataset(config))
    result = train_run(config if run is None else replace(config, run=str(run)))
    return None if result is None or result.test is None else result.test.evaluation


def train_run(config: Config, quiet: bool = False) -> TrainingResult | None:
    """Train like `train`, but return the full result; None on all processes but the first.

    Args:
        config: The settings.
        quiet: Print nothing.
    """
    config = resolve_defaults(config)
    folder = RunFolder(config.folder)
    folder.check(config)
    check_weights(config.encoder.backbone, config.encoder.weights)
    task = _open_task(config, folder)
    config, precision = decide_precision(config, folder.settings() if folder.started else None)
    fabric = start_fabric(config)
    reporter = Reporter(config.train.epochs, fabric.is_global_zero and not quiet)
    lock = _lock_run(folder.path) if fabric.is_global_zero else nullcontext()
    with lock, _report_dead_processes(fabric):
        _report_start(reporter, config, task, precision)
        try:
            trainer = _trainer(config, fabric, task, folder, reporter)
        except KeyboardInterrupt:
            reporter.info(f"stopped; computed features are kept. To resume: marcir train {_command(config)}")
            raise
        return _train(config, fabric, task, folder, reporter, trainer)


def _open_task(config: Config, folder: RunFolder) -> Task:
    """Open the archive of a run.

    Raises:
        ConfigError: If a resumed run was started with another archive.
    """
    if not folder.started:
        return open_task(config)
    try:
        task = open_task(config, folder.split)
    except (DataError, LabelError) as error:
        changed = folder.changed_path(config)
        if changed is None:
            raise
        name, before, now = changed
        raise ConfigError(
            f"{folder.path} was trained with {name} = {before}, now it is {now}, which is another archive: "
            f"{str(error).rstrip('.')}. Use another --run."
        ) from error
    folder.check_archive(config, task)
    return task


def _train(
    config: Config, fabric: "Fabric", task: Task, folder: RunFolder, reporter: Reporter, trainer: Trainer
) -> TrainingResult | None:
    if fabric.is_global_zero:
        folder.remove_temporary_files()
        folder.write_settings(config, task)
    fabric.barrier()
    if trainer.resume():
        _report_resumed(reporter, trainer, config)
    with _stop_on_interrupt(trainer):
        trainer.run()
    if not trainer.done:
        reporter.info(f"stopped and saved. To resume: marcir train {_command(config)}")
        raise KeyboardInterrupt
    if not fabric.is_global_zero:
        return None
    has_test = len(task.positions("test")) >= 2
    reporter.info(
        f"trained in {duration(trainer.progress.seconds)}; "
        + ("scoring the test images" if has_test else f"the model is in {folder.path}")
    )
    folder.load_weights(trainer.encoder)
    name = folder.path.name
    test = score_test(name, config, task, trainer.encoder, trainer.examples) if has_test else None
    evaluation = None if test is None else test.evaluation
    folder.save_results(evaluation, model_config(config, task, trainer.encoder), trainer.progress)
    return TrainingResult(config, task.split, trainer.progress, test, trainer.loss)


@contextmanager
def _lock_run(folder: Path) -> Iterator[None]:
    """Lock the run's folder against a second training process.

    Raises:
        ConfigError: If another process is training there.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder, "train", wait=False))
        except BlockingIOError:
            raise ConfigError(
                f"{folder}: another process is training there. Wait for it, or use another --run."
            ) from None
        yield


def resolve_defaults(config: Config) -> Config:
    """Fill in all defaults except the precision (see `decide_precision`)."""
    options = {**loss_options(config.loss.name), **config.loss.options}
    config = config.with_absolute_paths()
    return replace(
        config,
        data=replace(config.data, size=image_size(config.data)),
        loss=replace(config.loss, options=options),
    )


def start_fabric(config: Config) -> "Fabric":
    """Set up devices and processes: one, several on this machine, or those of torchrun."""
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise DependencyError(
            "lightning-fabric is not installed. Install it with: pip install 'marcir[train]'"
        ) from error
    # Fabric logs the use of bfloat16; `_report_start` prints it with the reason.
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", config.train.devices))
    nodes = int(os.environ.get("WORLD_SIZE", local)) // local
    device = choose_device(config.train.device)
    available = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device.type, local)
    if local > available or (local * nodes > 1 and device.index is not None):
        raise ConfigError(
            f"train.devices = {local}: '{config.train.device}' is {available if device.index is None else 1} "
            "device of this machine. Use fewer processes, or a device without a number."
        )
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
def _report_dead_processes(fabric: "Fabric") -> Iterator[None]:
    """Turn the connection error after the death of a child process into an error that explains its exit.

    Raises:
        TrainingError: Describes the first process that died.
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
                        "command resumes from the last checkpoint."
                    ) from error
        raise


def _check_same_precision(fabric: "Fabric", config: Config) -> None:
    """Check that all processes chose the same precision.

    Raises:
        ConfigError: On every process, if they did not.
    """
    if fabric.world_size == 1:
        return
    bfloat16 = torch.tensor(float(config.train.precision == "bfloat16"), device=fabric.device)
    share: Any = fabric.all_reduce(bfloat16, reduce_op="mean")
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
    torch.manual_seed(config.train.seed)  # again, so that dropout is the same for every loss
    saved_config = model_config(config, task, encoder)
    tensorboard = TensorBoardLog(folder.path, fabric.is_global_zero)

    def on_epoch(progress: Progress) -> None:
        folder.save_history(progress)
        tensorboard.write(progress.history[-1])

    return Trainer(
        config,
        fabric,
        task,
        encoder,
        loss,
        examples,
        Checkpoints(folder.checkpoints, config.train.keep),
        reporter,
        on_best=lambda: folder.save_model(encoder, saved_config),
        on_epoch=on_epoch,
    )


@contextmanager
def _stop_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """Save after the current step on the first Ctrl-C, stop immediately on the second.

    Both the terminal and torchrun forward Ctrl-C: signals within `_SAME_INTERRUPT` seconds count as one.
    """
    interrupts: list[float] = []

    def stop(*_: Any) -> None:
        interrupts.append(time.monotonic())
        if interrupts[-1] - interrupts[0] > _SAME_INTERRUPT:
            raise KeyboardInterrupt
        trainer.stop_requested = True
        if len(interrupts) == 1:
            trainer.reporter.info("stopping after this step (Ctrl-C again to stop immediately) ...")

    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _report_start(reporter: Reporter, config: Config, task: Task, precision: Precision) -> None:
    sizes = " / ".join(f"{len(task.positions(part)):,}" for part in ("train", "validation", "test"))
    reporter.info(
        f"{task.archive.name}: {len(task.archive):,} images ({sizes} to train / validate / test), "
        f"{len(task.archive.vocabulary)} labels; {config.encoder.backbone} at {task.size} px, "
        f"{config.loss.name}"
    )
    reporter.info(f"computing in {precision}")
    for problem in task.source.broken.values():
        reporter.info(f"skipped {problem}")
    if len(task.positions("validation")) < 2:
        reporter.warn("there are no validation images: the weights of the last epoch are kept, not the best.")
    if len(task.positions("test")) < 2:
        reporter.warn("there are fewer than two test images: no test scores are computed.")


def _report_resumed(reporter: Reporter, trainer: Trainer, config: Config) -> None:
    progress = trainer.progress
    at = f"epoch {progress.epoch + 1}" + (f", step {progress.step + 1}" if progress.step else "")
    status = "training is already complete" if trainer.done else f"resuming at {at}"
    reporter.info(f"{config.folder}: {status}")


def _command(config: Config) -> str:
    """The arguments that resume the run: those of this command, or the settings in the run's folder."""
    arguments = sys.argv[2:] if len(sys.argv) > 2 and sys.argv[1] == "train" else []
    return shlex.join(
        arguments or ["--config", str(config.folder / "config.yaml"), "--run", str(config.folder)]
    )
