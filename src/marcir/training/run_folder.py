"""The folder that a training run leaves: weights, configuration, history, scores and a model card."""

import csv
import io
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

import marcir
from marcir.config import Config, read_yaml
from marcir.data.resize import packed_size
from marcir.data.split import Split
from marcir.errors import ConfigError, TrainingError
from marcir.figures.history import draw_history
from marcir.files import atomic_write, reason
from marcir.model.encoder import Encoder
from marcir.model.model_config import ModelConfig
from marcir.text_tables import markdown
from marcir.training.checkpoint import Progress
from marcir.training.evaluation import Evaluation
from marcir.training.task import Task

# The checksum of the images that a run began with.
_IMAGES = "images.sha256"
# Settings that do not change what is learned.
NEUTRAL = frozenset({"data.cache", "train.device", "train.keep", "train.checkpoint_minutes"})
_OTHER_RUN = "Use another --run, or the archive that it was trained on."
# Where the archive and its split lie; the split in the folder says what must lie there.
DATA_PLACES = frozenset({"data.root", "data.labels", "data.split"})


@dataclass(frozen=True, eq=False)
class RunFolder:
    """The files of a run.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def split(self) -> Path:
        """The split that the run uses."""
        return self.path / "split.json"

    @property
    def checkpoints(self) -> Path:
        """What a run needs to go on."""
        return self.path / "last"

    @property
    def started(self) -> bool:
        """Whether there is a checkpoint: then the run goes on, with its own settings and split."""
        return any(self.checkpoints.glob("epoch-*"))

    def settings(self) -> Config:
        """The settings of the run.

        Raises:
            ConfigError: Where the file cannot be read as such.
        """
        file = self.path / "config.yaml"
        try:
            return Config.of(read_yaml(file)).anchored()
        except (ConfigError, TypeError) as error:  # settings of the wrong type
            raise ConfigError(
                f"{file}: not the settings of a run ({reason(error)}). Restore it, or use another --run."
            ) from error

    def check(self, config: Config) -> None:
        """Refuse a folder that holds something else than a run with these settings.

        Where the archive lies may differ (`check_archive` looks at what lies there), and a run may get more
        epochs.

        Raises:
            ConfigError: Names the first setting that differs.
        """
        file = self.path / "config.yaml"
        if file.exists() and self.started:
            begun, ignored = self.settings(), DATA_PLACES
            if config.train.precision == "auto":  # the run keeps the one that it began with
                ignored |= {"train.precision"}
            if config.train.epochs > begun.train.epochs:
                ignored |= {"train.epochs"}
            found = first_difference(begun, config, ignored)
            if found is not None:
                name, before, now = found
                raise ConfigError(
                    f"{self.path} was trained with {name} = {before}, now it is {now}. "
                    "Use another --run, or the same settings to go on."
                )
        elif not file.exists() and self.path.exists() and not all(map(_half_written, self.path.iterdir())):
            raise ConfigError(f"{self.path}: the folder is not empty and is no run. Use another --run.")

    def moved(self, config: Config) -> tuple[str, Any, Any] | None:
        """The first setting that says where the archive lies and is another now, before and now."""
        return first_difference(self.settings(), config, frozenset(config.flat()) - DATA_PLACES)

    def check_archive(self, config: Config, task: Task) -> None:
        """Refuse to go on with a run whose images or split are not those that it began with.

        Ids and labels are compared with the run's split when that is read; here, the bytes of the images are,
        wherever the archive lies now, and a split that is given anew.

        Raises:
            ConfigError: Where they differ, or an archive was moved and the run has not recorded its images.
        """
        split, moved = config.data.split, self.moved(config)
        given = split if split != self.settings().data.split else None
        if given is not None and Split.load(given, task.archive).checksum != task.split.checksum:
            raise ConfigError(f"{self.path} was trained with another split than {split}. {_OTHER_RUN}")
        if moved is None and config.data.cache != "packed":  # it would have to read all files
            return
        recorded = self._recorded_images()
        if recorded is None and moved is not None:
            raise ConfigError(
                f"{self.path} was trained with {moved[0]} = {moved[1]}, now it is {moved[2]}, and has not "
                f"recorded its images, so that they cannot be compared. {_OTHER_RUN}"
            )
        if recorded not in (None, task.source.checksum):
            where = (
                f"with {moved[0]} = {moved[1]}, now it is {moved[2]}, and" if moved else "on other images:"
            )
            raise ConfigError(
                f"{self.path} was trained {where} the images there are not the same. {_OTHER_RUN}"
            )

    def _recorded_images(self) -> str | None:
        """The checksum of the images that the run began with; None where it was not recorded."""
        try:
            return (self.path / _IMAGES).read_text("utf-8").strip()
        except OSError:
            return None

    def claim(self, config: Config, task: Task) -> None:
        """Write the settings of a run that begins or goes on, and what one that begins is trained on."""
        import yaml

        # The settings first: they mark the folder as a run, should the process be killed here.
        self._write("config.yaml", yaml.safe_dump(config.nested(), sort_keys=False))
        if not self.started:
            self._write(_IMAGES, task.source.checksum + "\n")
            task.split.save(self.split)

    def sweep(self) -> None:
        """Remove files that were left half written when the process was killed."""
        for path in filter(_half_written, self.path.glob("*")):
            path.unlink(missing_ok=True)
        for path in filter(_half_written, self.checkpoints.glob("*")):
            shutil.rmtree(path, ignore_errors=True)

    def save_model(self, encoder: Encoder, config: ModelConfig) -> None:
        """Write weights and configuration."""
        tensors = {
            name: value.detach().cpu().contiguous().clone() for name, value in encoder.state_dict().items()
        }
        with atomic_write(self.path / "model.safetensors") as temporary:
            temporary.write_bytes(save(tensors, {"format": "pt"}))  # `save_file` would hide it from others
        self._write("config.json", json.dumps(asdict(config), indent=1, ensure_ascii=False) + "\n")

    def load_weights(self, encoder: Encoder) -> None:
        """Give an encoder the weights that were best.

        Raises:
            TrainingError: Where they are gone or damaged.
        """
        file = self.path / "model.safetensors"
        try:
            encoder.load_state_dict(load_file(file))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise TrainingError(
                f"{file}: cannot be read ({reason(error)}). Remove {self.checkpoints} to train anew."
            ) from error

    def save_history(self, progress: Progress) -> None:
        """Write `history.csv`."""
        columns = list(dict.fromkeys(name for row in progress.history for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(progress.history)
        self._write("history.csv", text.getvalue())

    def save_results(self, evaluation: Evaluation | None, config: ModelConfig, progress: Progress) -> None:
        """Write test scores, where there are any, the curves of the history and the model card."""
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
        loss=config.nested()["loss"],
        dataset=config.data.name,
        label_checksum=task.split.label_checksum,
        split_checksum=task.split.checksum,
    )


def model_card(evaluation: Evaluation | None, config: ModelConfig, progress: Progress) -> str:
    """A model card in the conventions of the Hugging Face hub."""
    options = ", ".join(f"{name} = {value}" for name, value in config.loss.items() if name != "name")
    best = progress.best_epoch + 1 if progress.best_epoch is not None else progress.epoch
    return "\n".join(
        [
            "---",
            "library_name: marcir",
            "pipeline_tag: image-feature-extraction",
            "tags: [remote-sensing, image-retrieval, multi-label]",
            "---",
            "",
            f"# {config.backbone} trained on {config.dataset} with {config.loss['name']}",
            "",
            f"Turns an image of {config.bands} bands into a unit vector of {_dimension(config)} numbers; "
            f"similar images have a high cosine. Trained with marcir {config.marcir} and the loss "
            f"`{config.loss['name']}`{f' ({options})' if options else ''} at {config.size} x {config.size} "
            f"pixels; epoch {best} of {progress.epoch} was best on the validation images.",
            "",
            "```python",
            "import marcir",
            "",
            'model = marcir.load_model("THIS FOLDER")',
            'vectors = model.embed(["one.jpg", "two.tif"])',
            "```",
            "",
            "## Scores on the test images",
            "",
            *_scores(evaluation),
            "",
            f"## Labels\n\n{', '.join(config.labels)}",
            "",
            "## Limits",
            "",
            "The scores are of one archive, one split and one seed. Images from other sensors, resolutions "
            "or regions than the training images may be embedded poorly.",
            "",
        ]
    )


def _scores(evaluation: Evaluation | None) -> list[str]:
    if evaluation is None:
        return ["There were no test images."]
    return [markdown(evaluation.rows()), "", *evaluation.notes()]


def first_difference(
    before: Config, now: Config, ignored: frozenset[str] = frozenset()
) -> tuple[str, Any, Any] | None:
    """The first setting that matters and differs, its value before, and now; None where there is none.

    >>> first_difference(Config(), Config.of({"train": {"lr": 0.1}}))
    ('train.lr', 0.001, 0.1)
    """
    theirs, ours = before.flat(), now.flat()
    for name in dict.fromkeys([*theirs, *ours]):
        if name not in NEUTRAL | ignored and ours.get(name) != theirs.get(name):
            return name, theirs.get(name), ours.get(name)
    return None


def _half_written(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".part")


def _dimension(config: ModelConfig) -> str:
    return str(config.dim) if config.embedding == "projection" else "the backbone's"
