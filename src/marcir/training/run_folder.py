"""The folder of a training run: weights, configuration, history, scores and a model card."""

import csv
import io
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

import marcir
from marcir.config import Config, read_yaml
from marcir.data.resize import packed_size
from marcir.data.split import Split
from marcir.errors import ConfigError, TrainingError
from marcir.figures.history import draw_history
from marcir.files import atomic_write, reason
from marcir.model.encoder import Encoder
from marcir.model.model_config import ModelConfig, serialise_model
from marcir.training.checkpoint import Progress
from marcir.training.evaluation import Evaluation
from marcir.training.model_info import model_card
from marcir.training.task import Task

# File with the checksum of the training archive's images.
_IMAGES = "images.sha256"
# Settings that do not affect the result of training.
NEUTRAL_SETTINGS = frozenset({"data.cache", "train.device", "train.keep", "train.checkpoint_minutes"})
_OTHER_RUN = "Use another --run, or the archive that it was trained on."
# Where the archive and its split are, and how its labels are read. These may change: ids and labels are
# compared with split.json.
PATH_SETTINGS = frozenset({"data.root", "data.labels", "data.unlisted", "data.split"})


@dataclass(frozen=True, eq=False)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def split(self) -> Path:
        """The split that the run uses."""
        return self.path / "split.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "last"

    @property
    def started(self) -> bool:
        """Whether there is a checkpoint: the run is then resumed with its own settings and split."""
        return bool(self.newest_checkpoint)

    @property
    def newest_checkpoint(self) -> str:
        """The name of the newest checkpoint, which sorts by age; empty without one."""
        return max((path.name for path in self.checkpoints.glob("epoch-*")), default="")

    def settings(self) -> Config:
        """Read the settings of the run; a ConfigError if the file is missing or invalid."""
        file = self.path / "config.yaml"
        try:
            return Config.from_dict(read_yaml(file)).with_absolute_paths()
        except (ConfigError, TypeError) as error:  # settings of the wrong type
            raise ConfigError(
                f"{file}: not the settings of a run ({reason(error)}). Restore it, or use another --run."
            ) from error

    def check(self, config: Config) -> None:
        """Check that the folder is empty or holds a run with these settings.

        Paths may differ (`check_archive` compares the content), and there may be more epochs.

        Raises:
            ConfigError: Names the first setting that differs.
        """
        file = self.path / "config.yaml"
        if file.exists() and self.started:
            saved, ignored = self.settings(), PATH_SETTINGS
            if config.train.precision == "auto":  # a resumed run keeps its precision
                ignored |= {"train.precision"}
            if config.train.epochs > saved.train.epochs:
                ignored |= {"train.epochs"}
            difference = first_difference(saved, config, ignored)
            if difference is not None:
                name, before, now = difference
                raise ConfigError(
                    f"{self.path} was trained with {name} = {before}, now it is {now}. "
                    "Use another --run, or the same settings to resume."
                )
        elif not file.exists() and self.path.exists() and not all(map(_is_temporary, self.path.iterdir())):
            raise ConfigError(f"{self.path}: the folder is not empty and not a run. Use another --run.")

    def changed_path(self, config: Config) -> tuple[str, Any, Any] | None:
        """The first path setting that differs from the run's: its name, its value before, and now."""
        return first_difference(self.settings(), config, frozenset(config.flat()) - PATH_SETTINGS)

    def check_archive(self, config: Config, task: Task) -> None:
        """Check that a resumed run has the same images and split as before.

        Ids and labels are compared with the run's split when that is read. This compares the bytes of the
        images, and a split file that is new in the settings.

        Raises:
            ConfigError: If they differ, or if an archive was moved and the run has no checksum of its images.
        """
        split, moved = config.data.split, self.changed_path(config)
        new_split = split if split != self.settings().data.split else None
        if new_split is not None and Split.load(new_split, task.archive).checksum != task.split.checksum:
            raise ConfigError(f"{self.path} was trained with another split than {split}. {_OTHER_RUN}")
        if moved is None and config.data.cache != "packed":  # the checksum would read all files
            return
        recorded = self.image_checksum
        if recorded is None and moved is not None:
            raise ConfigError(
                f"{self.path} was trained with {moved[0]} = {moved[1]}, now it is {moved[2]}, and has not "
                f"recorded a checksum of its images to compare with. {_OTHER_RUN}"
            )
        if recorded not in (None, task.source.checksum):
            where = (
                f"with {moved[0]} = {moved[1]}, now it is {moved[2]}, and" if moved else "on other images:"
            )
            raise ConfigError(
                f"{self.path} was trained {where} the images there are not the same. {_OTHER_RUN}"
            )

    @property
    def image_checksum(self) -> str | None:
        """The checksum of the run's images; None if it was not recorded."""
        try:
            return (self.path / _IMAGES).read_text("utf-8").strip()
        except OSError:
            return None

    def write_settings(self, config: Config, task: Task) -> None:
        """Write the settings of a run; for a new one also its split and the checksum of its images."""
        import yaml

        # The settings first: they mark the folder as a run if the process is killed here.
        self._write("config.yaml", yaml.safe_dump(config.to_dict(), sort_keys=False))
        if not self.started:
            self._write(_IMAGES, task.source.checksum + "\n")
            task.split.save(self.split)

    def remove_temporary_files(self) -> None:
        """Remove incomplete files of a process that was killed."""
        for path in filter(_is_temporary, self.path.glob("*")):
            path.unlink(missing_ok=True)
        for path in filter(_is_temporary, self.checkpoints.glob("*")):
            shutil.rmtree(path, ignore_errors=True)

    def save_model(self, encoder: Encoder, config: ModelConfig) -> None:
        """Write the weights and the model's configuration."""
        for name, content in serialise_model(encoder, config).items():
            with atomic_write(self.path / name) as temporary:
                temporary.write_bytes(content)  # safetensors' own `save_file` would hide it from others

    def load_weights(self, encoder: Encoder) -> None:
        """Load the best weights into an encoder; a TrainingError if they are missing or damaged."""
        file = self.path / "model.safetensors"
        try:
            encoder.load_state_dict(load_file(file))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise TrainingError(
                f"{file}: cannot be read ({reason(error)}). Remove {self.checkpoints} to train again."
            ) from error

    def save_history(self, progress: Progress) -> None:
        """Write `history.csv`, and the last epoch for TensorBoard if it is installed."""
        columns = list(dict.fromkeys(name for row in progress.history for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(progress.history)
        self._write("history.csv", text.getvalue())
        if self._tensorboard is not None:
            row = progress.history[-1]
            for name, value in row.items():
                if isinstance(value, int | float):
                    self._tensorboard.add_scalar(name.replace(" ", "/", 1), value, row["epoch"])
            self._tensorboard.flush()

    @cached_property
    def _tensorboard(self) -> Any:
        """The log for TensorBoard; opened after the first epoch, as a run that fails earlier has no files."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return None
        return SummaryWriter(str(self.path / "tensorboard"))

    def save_results(self, evaluation: Evaluation | None, config: ModelConfig, progress: Progress) -> None:
        """Write the test scores, if any, the training curves and the model card."""
        if evaluation is not None:
            evaluation.save_json(self.path / "metrics.json")
        draw_history(progress.history, self.path / "history.png")
        self._write("README.md", model_card(evaluation, config, progress))

    def _write(self, name: str, text: str) -> None:
        with atomic_write(self.path / name) as temporary:
            temporary.write_text(text, "utf-8")


def model_config(config: Config, task: Task, encoder: Encoder) -> ModelConfig:
    """The configuration of a run's model."""
    return ModelConfig(
        marcir=marcir.__version__,
        backbone=config.encoder.backbone,
        bands=task.source.bands,
        size=task.size,
        packed_size=packed_size(task.size),
        dtype=str(task.source.dtype),
        mean=tuple(encoder.mean.flatten().tolist()),
        std=tuple(encoder.std.flatten().tolist()),
        dim=config.encoder.dim,
        embedding=config.encoder.embedding,
        labels=task.archive.vocabulary.names,
        training_counts=tuple(task.statistics.label_counts.tolist()),
        loss=config.to_dict()["loss"],
        dataset=config.data.name,
        label_checksum=task.split.label_checksum,
        split_checksum=task.split.checksum,
        unlisted=task.archive.unlisted,
    )


def first_difference(
    before: Config, now: Config, ignored: frozenset[str] = frozenset()
) -> tuple[str, Any, Any] | None:
    """The first setting that differs and is not neutral, its value before, and now; None if there is none.

    >>> first_difference(Config(), Config.from_dict({"train": {"lr": 0.1}}))
    ('train.lr', 0.001, 0.1)
    """
    old, new = before.flat(), now.flat()
    for name in dict.fromkeys([*old, *new]):
        if name not in NEUTRAL_SETTINGS | ignored and new.get(name) != old.get(name):
            return name, old.get(name), new.get(name)
    return None


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".part")
