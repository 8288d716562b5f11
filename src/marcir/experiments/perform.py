"""Train and score one run, and write its record."""

import math
import os
import platform
import shutil
import subprocess
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import marcir
from marcir.config import Config
from marcir.errors import ConfigError, MarcirError
from marcir.experiments.record import COMPARISON, Record, Results
from marcir.files import folder_lock, reason
from marcir.losses import MultiLabelLoss
from marcir.metrics.retrieval_metrics import METRICS
from marcir.metrics.scores import Scores
from marcir.training.train import TrainingResult, train_run

# A timing of the loss step counts where the rounds agree within 10 % on an idle machine.
_ROUNDS, _TIMED, _AGREE = 3, 20, 1.1
_OTHER_LOAD = 0.5  # of other processes


def perform(record: Record, results: Results, quiet: bool = True) -> Record:
    """Train and score one run, or resume it, and write its record; errors are recorded, too.

    Where another process performs the same run, it waits and returns the record of that one.

    Raises:
        KeyboardInterrupt: After Ctrl-C, when the checkpoint is saved.
    """
    folder = results.run_folder(record.study, record.name)
    try:
        with folder_lock(folder, "run"):
            return recorded(record, results) or _train_and_record(record, results, folder, quiet)
    except Exception as error:  # any error: the other runs continue
        kind = "" if isinstance(error, MarcirError) else f"{type(error).__name__}: "
        done = failed(record, kind + reason(error))
        results.save_failure(done)
        return done


def _train_and_record(record: Record, results: Results, folder: Path, quiet: bool) -> Record:
    trained = train_run(Config.from_dict(record.config, str(folder)), quiet)
    done = _with_results(record, trained)
    vectors = None if trained is None or trained.test is None else trained.test.images.embeddings
    results.save(done, vectors)
    remove_unneeded(record, folder)
    return done


def recorded(record: Record, results: Results) -> Record | None:
    """The scores that another command has recorded for a run, or the failure where its settings differ."""
    found = results.load(record.study, record.name)
    if found is None or not found.done:
        return None
    same = found.config_hash == record.config_hash
    return found if same else failed(record, "another command has recorded other settings for it")


def remove_unneeded(record: Record, folder: Path) -> None:
    """Keep models of the comparison, for search; remove checkpoints, and models of ablations."""
    shutil.rmtree(folder / "last" if record.study == COMPARISON else folder, ignore_errors=True)


def failed(record: Record, why: str) -> Record:
    """The record of a failed run."""
    return replace(record, error=why, versions=_versions(record))


def _with_results(record: Record, trained: TrainingResult | None) -> Record:
    if trained is None or trained.test is None:
        raise ConfigError("there are fewer than two test images: there is nothing to score.")
    if trained.split.checksum != record.split_checksum:
        raise ConfigError(f"{trained.config.folder} was begun with another split. Remove it to begin again.")
    evaluation, images, progress = trained.test.evaluation, trained.test.images, trained.progress
    milliseconds, idle = _loss_milliseconds(trained.loss, trained.config, images.labels)
    names = images.vocabulary.names
    best = progress.best_epoch
    return replace(
        record,
        seconds=round(progress.seconds, 2),
        loss_milliseconds=round(milliseconds, 3),
        timed_idle=idle,
        best_epoch=None if best is None else best + 1,
        validation={} if best is None else _validation(progress.history[best]),
        versions=_versions(record),
        judged_by=evaluation.judged_by,
        scores=evaluation.model,
        references={name: _reference(scores) for name, scores in evaluation.references.items()},
        labels=tuple(tuple(names[k] for k in row.nonzero().flatten().tolist()) for row in images.present),
    )


def _reference(scores: Scores) -> dict[str, float]:
    return {**scores} if scores.label_scores is None else {**scores, "tail": scores.tail}


def _validation(row: dict[str, object]) -> dict[str, float]:
    return {name: float(str(row[f"validation {name}"])) for name in METRICS if f"validation {name}" in row}


def _loss_milliseconds(loss: MultiLabelLoss, config: Config, labels: torch.Tensor) -> tuple[float, bool]:
    """The shortest of several forward and backward passes on one batch of random vectors.

    Also whether the machine was idle: no other process computes, and the rounds agree.
    """
    loss = loss.cpu()
    idle = _load() <= torch.get_num_threads() + _OTHER_LOAD
    size = config.train.batch_size
    y = labels[torch.arange(size) % len(labels)]
    z = torch.randn(size, config.encoder.dim, generator=torch.Generator().manual_seed(0))
    times = np.zeros((_ROUNDS, _TIMED))
    for place in np.ndindex(times.shape):
        vectors = z.clone().requires_grad_()
        start = time.perf_counter()
        loss(vectors, y).backward()
        times[place] = time.perf_counter() - start
    rounds = times.min(1).tolist()
    return 1e3 * min(rounds), idle and max(rounds) <= _AGREE * min(rounds)


def _load() -> float:
    """Load average of the last minute; infinite where the system has none."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return math.inf


def commit_of(folder: Path) -> str | None:
    """The commit of a package in a git checkout, with + where its files are not those of the commit.

    None where git does not know the folder: an installed package, or no git.
    """
    # An environment below another checkout is not part of it.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = _git(folder, "rev-parse", "--short=9", "HEAD"), _git(folder, "status", "--short", ".")
    return None if commit is None or changes is None else f"{commit}{'+' if changes else ''}"


def _git(folder: Path, *words: str) -> str | None:
    """What a command of git prints; None where it fails."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(  # noqa: S603  words of our own
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions(record: Record) -> dict[str, str]:
    return {
        **record.versions,
        "marcir": marcir.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "timm")},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
