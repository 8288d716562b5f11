"""Train an encoder on a labelled archive and write a model folder."""

import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from marcir.catalog import loss_options
from marcir.config import Config, with_dataset
from marcir.data.split import Split, default_method
from marcir.errors import ConfigError
from marcir.files import folder_lock
from marcir.losses import MultiLabelLoss
from marcir.model.backbone import check_weights
from marcir.model.precision import Precision
from marcir.progress import duration
from marcir.text_tables import percent
from marcir.training.agree import check_agreed, decide_agreed, open_agreed
from marcir.training.build import build_encoder, build_loss, check_loss
from marcir.training.checkpoint import Checkpoints, Progress
from marcir.training.evaluate import TestResult, score_test
from marcir.training.evaluation import MOST_LEFT_OUT, Evaluation, share_of_pairs_left_out
from marcir.training.fabric import start_fabric
from marcir.training.inputs import AugmentedImages, Examples, FrozenFeatures
from marcir.training.loop import Trainer
from marcir.training.peers import Peers, connected_processes
from marcir.training.reporter import Reporter
from marcir.training.run_folder import RunFolder, model_config
from marcir.training.task import Task, image_size

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Seconds within which two interrupts count as one.
_SAME_INTERRUPT = 1.0


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of a finished run, besides the files in its folder."""

    config: Config  # with all defaults resolved
    split: Split
    progress: Progress
    test: TestResult | None  # None if there are fewer than two test images
    loss: MultiLabelLoss  # with its trained parameters


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
        MarcirError: For invalid settings, data or checkpoints. Of several processes, only the first one
            raises: an error of another one ends all of them (see `connected_processes`).
    """
    if not isinstance(config, Config | Mapping):
        raise ConfigError(f"train: expected settings by section, found {type(config).__name__}.")
    if not isinstance(config, Config):
        config = Config.from_dict(with_dataset(config))
    result = train_run(config if run is None else replace(config, run=str(run)))
    return None if result is None or result.test is None else result.test.evaluation


def train_run(config: Config, quiet: bool = False) -> TrainingResult | None:
    """Train like `train`, but return the full result; None on all processes but the first."""
    config = resolve_defaults(config)
    fabric = start_fabric(config)
    with connected_processes(fabric) as peers:
        folder = RunFolder(config.folder)
        check_agreed(config, folder, peers)
        check_weights(config.encoder.backbone, config.encoder.weights)
        check_loss(config.loss)
        task = open_agreed(config, folder, peers)
        config, precision = decide_agreed(config, folder, peers)
        if precision.name == "bfloat16":  # Fabric takes it when it is made
            fabric = start_fabric(config)
        reporter = Reporter(config.train.epochs, peers.is_first and not quiet)
        busy = f"{folder.path}: another process is training there. Wait for it, or use another --run."
        with folder_lock(folder.path, "train", busy) if peers.is_first else nullcontext():
            _report_start(reporter, config, task, precision)
            try:
                trainer = _trainer(config, fabric, peers, task, folder, reporter)
            except KeyboardInterrupt:
                kept = "stopped; computed features are kept"
                reporter.info(f"{kept}. To resume: marcir train {_command(config)}")
                raise
            return _train(trainer, folder)


def _train(trainer: Trainer, folder: RunFolder) -> TrainingResult | None:
    config, task, reporter = trainer.config, trainer.task, trainer.reporter
    is_first = trainer.peers.is_first
    if is_first:
        folder.remove_temporary_files()
        folder.write_settings(config, task)
    if trainer.resume():
        _report_resumed(trainer)
    with _stop_on_interrupt(trainer):
        trainer.run()
    if not trainer.done:
        reporter.info(f"stopped and saved. To resume: marcir train {_command(config)}")
        raise KeyboardInterrupt
    if not is_first:
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


def resolve_defaults(config: Config) -> Config:
    """Fill in all defaults except the precision (see `decide_precision`)."""
    options = {**loss_options(config.loss.name), **config.loss.options}
    config = config.with_absolute_paths()
    return replace(
        config,
        data=replace(
            config.data,
            size=image_size(config.data),
            method=config.data.method or default_method(config.data.name),
        ),
        loss=replace(config.loss, options=options),
    )


def _trainer(
    config: Config, fabric: "Fabric", peers: Peers, task: Task, folder: RunFolder, reporter: Reporter
) -> Trainer:
    encoder = build_encoder(config.encoder, task, config.train.seed).to(fabric.device)
    loss = build_loss(config, task)
    examples: Examples
    if config.encoder.frozen:
        examples = FrozenFeatures(task, encoder, config)
    else:
        examples = AugmentedImages(task, config.train.seed)
        if fabric.device.type == "cuda" and fabric.world_size > 1:
            encoder = torch.nn.SyncBatchNorm.convert_sync_batchnorm(encoder)
    torch.manual_seed(config.train.seed)  # again, so that dropout is the same for every loss
    saved_config = model_config(config, task, encoder)
    peers.wait()
    return Trainer(
        config,
        fabric,
        peers,
        task,
        encoder,
        loss,
        examples,
        Checkpoints(folder.checkpoints, config.train.keep),
        reporter,
        on_best=lambda: folder.save_model(encoder, saved_config),
        on_epoch=folder.save_history,
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
    _report_unknown(reporter, task)
    if len(task.positions("validation")) < 2:
        reporter.warn("there are no validation images: the weights of the last epoch are kept, not the best.")
    elif not task.selects_epochs:
        reporter.warn(
            "no ranking of the validation images is better than another by the labels that are known: the "
            "weights of the last epoch are kept, and train.patience does not apply. Label the validation "
            "images completely."
        )
    if len(task.positions("test")) < 2:
        reporter.warn("there are fewer than two test images: no test scores are computed.")


def _report_unknown(reporter: Reporter, task: Task) -> None:
    """Report unknown labels, and parts in which they leave out most pairs."""
    share = float((task.training_labels[task.positions("train")] < 0).float().mean())
    if share:
        reporter.info(f"{percent(share)} % of the labels of the training images are unknown")
    use = {
        "validation": "the best weights are chosen by the others",
        "test": "scores of the others say little",
    }
    for part, consequence in use.items():
        positions = task.positions(part)
        if len(positions) < 2 or (part == "validation" and not task.selects_epochs):
            continue
        left_out = share_of_pairs_left_out(task.archive.labels[positions])
        if left_out > MOST_LEFT_OUT:
            reporter.warn(
                f"unknown labels leave out {percent(left_out)} % of the pairs of {part} images: "
                f"{consequence}."
            )


def _report_resumed(trainer: Trainer) -> None:
    progress = trainer.progress
    at = f"epoch {progress.epoch + 1}" + (f", step {progress.step + 1}" if progress.step else "")
    status = "training is already complete" if trainer.done else f"resuming at {at}"
    trainer.reporter.info(f"{trainer.config.folder}: {status}")


def _command(config: Config) -> str:
    """The arguments that resume the run: those of this command, or the settings in the run's folder."""
    arguments = sys.argv[2:] if len(sys.argv) > 2 and sys.argv[1] == "train" else []
    return shlex.join(
        arguments or ["--config", str(config.folder / "config.yaml"), "--run", str(config.folder)]
    )
