"""Training configuration: frozen records with every default, read from YAML.

The defaults are those of the paper, with the readings of docs/readings.md, except the loss, the backbone and
its initial weights.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Literal

from marcir.checks import NAMED_WEIGHTS
from marcir.errors import ConfigError, did_you_mean, needs
from marcir.files import refuse_address
from marcir.schema import Field, Number, SchemaError, record, validate

SECTIONS = ("data", "labels", "encoder", "loss", "train")
# Limits of the image size and of the embedding's length: more would exhaust the memory.
MAX_SIZE, MAX_DIM = 1 << 13, 1 << 16


def _setting(default: Any, text: str, **limits: Any) -> Any:
    return Field(default=default, description=text, **limits)


@record()
class DataConfig:
    """The archive, and how its images are read."""

    name: str = _setting(
        "scenes", "the dataset: manifest (your own; the default for a root with labels.csv), scenes, ucm ..."
    )
    root: str | None = _setting(None, "the archive's folder (optional for scenes)")
    labels: str | None = _setting(None, "a label table outside the archive's folder")
    unlisted: Literal["absent", "unknown"] | None = _setting(
        None, "what labels are that the table does not list; what it says itself by default, else absent"
    )
    split: str | None = _setting(None, "a file of `marcir data split`; drawn from train.seed by default")
    method: Literal["random", "stratified", "blocks"] | None = _setting(
        None, "how a split is drawn; blocks (of space) for windows by default, else random"
    )
    size: int | None = _setting(None, "image size of the network; 224, and 64 for scenes", ge=8, le=MAX_SIZE)
    cache: Literal["packed", "off"] = _setting("packed", "pack the images once, or read the files each time")
    on_broken: Literal["error", "skip"] = _setting("error", "refuse broken images or skip them")


@record()
class LabelsConfig:
    """Unknown labels of the training images; validation and test labels stay as they are."""

    unknown: Literal["aware", "absent"] = _setting(
        "aware", "what unknown labels count as: aware leaves them open, absent takes them for absent"
    )
    hide: Number = _setting(0.0, "share of the labels to make unknown, for a study", ge=0, lt=1)
    how: Literal["uniform", "present-only"] = _setting(
        "uniform", "which are hidden: present and absent ones alike, or only present ones are ever stated"
    )
    seed: int = _setting(0, "seed of which labels are hidden", ge=0, le=2**63 - 1)


@record()
class EncoderConfig:
    """The network."""

    backbone: str = _setting("tf_efficientnet_lite0", "any timm backbone")
    weights: str = _setting(
        "imagenet",
        "initial weights: imagenet (of tf_efficientnet_lite0), hub, a safetensors file, or none (random)",
    )
    dim: int = _setting(128, "length of an embedding", ge=1, le=MAX_DIM)
    embedding: Literal["projection", "backbone"] = _setting(
        "projection", "what is stored and compared: the head's output or the backbone's"
    )
    frozen: bool = _setting(False, "embed the images once and train only the head")
    frozen_views: int = _setting(4, "augmented versions per image with a frozen backbone", ge=1)

    def __post_init__(self) -> None:
        if self.frozen and self.embedding == "backbone":
            raise ConfigError("encoder.frozen trains only the head: set encoder.embedding to projection.")
        if self.frozen and self.weights == "none":
            raise ConfigError(
                "encoder.frozen does not train the backbone, and with encoder.weights none it is random: "
                "little can be learned. Use imagenet, hub or a file, or random if that is what you want."
            )


@record()
class LossConfig:
    """The loss and its options."""

    name: str = "marc-proto"
    options: Mapping[str, Any] = field(default_factory=dict)


@record()
class TrainConfig:
    """Optimisation, sampling, seed and devices."""

    epochs: int = _setting(100, "passes over the training images", ge=1)
    batch_size: int = _setting(128, "images per batch, over all processes", ge=2)
    lr: Number = _setting(1e-3, "learning rate of Adam", gt=0)
    weight_decay: Number = _setting(5e-4, "L2 weight decay", ge=0, le=1)
    clip: Number = _setting(1.0, "maximum gradient norm", gt=0)
    schedule: Literal["restarts", "step", "cosine"] = _setting("restarts", "learning-rate schedule")
    sampler: Literal["shuffle", "label-aware"] = _setting("shuffle", "how batches are drawn")
    views: int = _setting(1, "augmented versions per image in a batch, 1 or 2", ge=1, le=2)
    seed: int = _setting(0, "seed of split, initial weights, order and augmentation", ge=0, le=2**63 - 1)
    patience: int | None = _setting(None, "stop after this many epochs without a better score", ge=1)
    precision: Literal["auto", "float32", "bfloat16"] = _setting(
        "auto", "auto: bfloat16 if it works and is faster, found by a trial"
    )
    device: str = _setting("auto", "cpu, cuda, cuda:1 or mps; auto: CUDA, else MPS, else the CPU")
    devices: int = _setting(1, "processes on this machine (torchrun sets it)", ge=1)
    keep: int = _setting(2, "checkpoints to keep", ge=1)
    checkpoint_minutes: Number = _setting(10.0, "minutes between checkpoints within an epoch", ge=0)


def suggest_batch_size(images: int) -> int:
    """Suggest a batch size for few training images: a power of two that gives about four batches.

    >>> suggest_batch_size(42), suggest_batch_size(1475), suggest_batch_size(3)
    (8, 256, 2)
    """
    return max(2, 1 << max(0, (images // 4).bit_length() - 1))


@record()
class Config:
    """The configuration of a training run."""

    data: DataConfig = field(default_factory=DataConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    run: str | None = None

    @property
    def folder(self) -> Path:
        """The run's folder; by default named after dataset and loss."""
        return Path(self.run or f"runs/{self.data.name}-{self.loss.name}")

    def with_absolute_paths(self) -> "Config":
        """Make all paths absolute."""
        names = ("root", "labels", "split")
        for name in names:
            refuse_address(f"data.{name}", getattr(self.data, name))
        data: dict[str, Any] = {name: _absolute(getattr(self.data, name)) for name in names}
        weights = self.encoder.weights
        if weights not in NAMED_WEIGHTS:
            weights = str(Path(weights).absolute())
        return replace(self, data=replace(self.data, **data), encoder=replace(self.encoder, weights=weights))

    def flat(self) -> dict[str, Any]:
        """Every setting by its dotted name.

        >>> Config().flat()["train.lr"]
        0.001
        """
        return {
            f"{section}.{name}": value
            for section, settings in self.to_dict().items()
            for name, value in settings.items()
        }

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The sections as in YAML: the loss's options beside its name."""
        sections = {section: asdict(getattr(self, section)) for section in SECTIONS}
        return {**sections, "loss": {"name": self.loss.name, **self.loss.options}}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], run: str | None = None) -> "Config":
        """Validate sections as returned by `to_dict`.

        Raises:
            SchemaError: For an unknown section or setting, with the nearest known one, and for an invalid
                value.
        """
        loss = content.get("loss", {})
        if isinstance(loss, Mapping):
            options = {name: value for name, value in loss.items() if name != "name"}
            loss = {"name": loss.get("name", LossConfig.name), "options": options}
        return validate(cls, {**content, "loss": loss, "run": run or content.get("run")})


def with_dataset(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the dataset `manifest` to settings with only a folder; a ConfigError without a label table."""
    data = content.get("data")
    if not isinstance(data, Mapping) or "name" in data or not isinstance(root := data.get("root"), str):
        return content
    refuse_address("--root", root)
    if data.get("labels") is None and not (Path(root) / "labels.csv").exists():
        if not Path(root).is_dir():
            raise ConfigError(f"--root {root}: not a folder.")
        raise ConfigError(
            f"--root {root}: there is no labels.csv in it. Add one (path,labels), give one with --labels, or "
            "name the dataset: --dataset ucm, ml-aid ..."
        )
    return {**content, "data": {**data, "name": "manifest"}}


def validate_options(options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Validate options of a loss: each must have the type of its default (`catalog.loss_options`).

    Raises:
        SchemaError: For an unknown option, with the nearest known one, and for one of another type.

    >>> validate_options({"tau": "1e-1"}, {"tau": 0.3, "plr": True})
    {'tau': 0.1}
    """
    for name in options:
        if name not in known:
            hint = did_you_mean(f"loss.{name}", [f"loss.{each}" for each in known])
            raise SchemaError(f"unknown setting 'loss.{name}'. {hint}", f"loss.{name}")
    kinds = {name: Number if isinstance(value, float) else type(value) for name, value in known.items()}
    return {
        name: value if known[name] is None else validate(kinds[name], value, f"loss.{name}")
        for name, value in options.items()
    }


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file of settings; a ConfigError if there is none, or if it holds anything else."""
    with needs("train"):
        import yaml
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
        # To JSON types: YAML also has dates, keys that are not strings, and recursive lists.
        content = json.loads(json.dumps(content, default=str))
    except FileNotFoundError:
        raise ConfigError(f"--config {path}: there is no such file.") from None
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"--config {path}: {' '.join(str(error).split())}.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"--config {path}: expected sections {', '.join(SECTIONS)}.")
    return content
