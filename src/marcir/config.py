"""Training configuration: frozen dataclasses, read from YAML and dotted options, with every default.

The defaults are the recipe of the paper (docs/readings.md says where it leaves something open) but for the
loss and the backbone with its first weights.
"""

import argparse
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from marcir.catalog import LOSSES
from marcir.checks import (
    NAMED_WEIGHTS,
    check_choice,
    check_fraction,
    check_int,
    check_not_negative,
    check_positive,
    check_seed,
)
from marcir.errors import ConfigError, DependencyError, did_you_mean

Section = TypeVar("Section")
SECTIONS = ("data", "encoder", "loss", "train")
# The largest side of an image and the longest embedding: more is a slip, and fills the memory.
MOST_PIXELS, MOST_NUMBERS = 1 << 13, 1 << 16


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class DataConfig:
    """Which archive, and how its images are read."""

    name: str = _option(
        "scenes", "the dataset: manifest (your own; the default for a root with labels.csv), scenes, ucm ..."
    )
    root: str | None = _option(None, "the archive's folder (scenes has one of its own)")
    labels: str | None = _option(None, "a label table elsewhere than in the folder")
    split: str | None = _option(None, "a file of `marcir data split`; drawn from train.seed by default")
    method: Literal["random", "stratified"] = _option("random", "how a split is drawn")
    size: int | None = _option(None, "side of the images; 224, and 64 for scenes")
    cache: Literal["packed", "off"] = _option("packed", "pack the images once, or read files every time")
    on_broken: Literal["error", "skip"] = _option("error", "what broken images do")

    def __post_init__(self) -> None:
        if self.size is not None:
            check_int("data.size", self.size, 8, MOST_PIXELS)


@dataclass(frozen=True)
class EncoderConfig:
    """The network."""

    backbone: str = _option("tf_efficientnet_lite0", "any backbone of timm")
    weights: str = _option(
        "imagenet",
        "its first weights: imagenet (of tf_efficientnet_lite0), hub, a safetensors file, or none (random)",
    )
    dim: int = _option(128, "length of an embedding")
    embedding: Literal["projection", "backbone"] = _option(
        "projection", "what is compared: the head's output or the backbone's"
    )
    frozen: bool = _option(False, "embed the images once and train the head alone")
    frozen_views: int = _option(4, "augmented versions of each image that a frozen backbone embeds")

    def __post_init__(self) -> None:
        check_int("encoder.dim", self.dim, 1, MOST_NUMBERS)
        check_int("encoder.frozen_views", self.frozen_views, 1)
        if self.frozen and self.embedding == "backbone":
            raise ConfigError("encoder.frozen trains the head alone: set encoder.embedding to projection.")
        if self.frozen and self.weights == "none":
            raise ConfigError(
                "encoder.frozen keeps the backbone as it is, and with encoder.weights none it is random: "
                "little can be learned. Use imagenet, hub or a file, or random if that is what you want."
            )


@dataclass(frozen=True)
class LossConfig:
    """Which loss, and its own options."""

    name: str = "marc-calibrated"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainConfig:
    """How long, how fast, from which seed."""

    epochs: int = _option(100, "passes over the training images")
    batch_size: int = _option(128, "images of a batch, over all processes")
    lr: float = _option(1e-3, "learning rate of Adam")
    weight_decay: float = _option(5e-4, "L2 weight decay")
    clip: float = _option(1.0, "largest norm of a gradient")
    schedule: Literal["restarts", "step", "cosine"] = _option("restarts", "of the learning rate")
    sampler: Literal["shuffle", "label-aware"] = _option("shuffle", "how batches are drawn")
    views: int = _option(1, "augmented versions of each image in a batch, 1 or 2")
    seed: int = _option(0, "fixes split, first weights, order and augmentation")
    patience: int | None = _option(None, "stop after so many epochs without a better validation score")
    precision: Literal["auto", "float32", "bfloat16"] = _option(
        "auto", "auto: bfloat16 where it works and is faster, which is tried once"
    )
    devices: int = _option(1, "processes of this machine (torchrun sets it by itself)")
    keep: int = _option(2, "checkpoints to keep")
    checkpoint_minutes: float = _option(10.0, "also save within an epoch, after so many minutes")

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 2), ("devices", 1), ("keep", 1)):
            check_int(f"train.{name}", getattr(self, name), least)
        check_positive("train.lr", self.lr)
        check_positive("train.clip", self.clip)
        check_fraction("train.weight_decay", self.weight_decay)
        check_choice("train.views", str(self.views), ("1", "2"))
        check_seed(self.seed)
        check_not_negative("train.checkpoint_minutes", self.checkpoint_minutes)
        if self.patience is not None:
            check_int("train.patience", self.patience, 1)


def fitting_batch(images: int) -> int:
    """A batch size for few training images: a power of two, so that there are about four batches.

    >>> fitting_batch(42), fitting_batch(1475), fitting_batch(3)
    (8, 256, 2)
    """
    return max(2, 1 << max(0, (images // 4).bit_length() - 1))


@dataclass(frozen=True)
class Config:
    """The configuration of a training run."""

    data: DataConfig = field(default_factory=DataConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    run: str | None = None

    @property
    def folder(self) -> Path:
        """The run's folder; named after dataset and loss by default."""
        return Path(self.run or f"runs/{self.data.name}-{self.loss.name}")

    def anchored(self) -> "Config":
        """With paths that hold from any folder."""
        names = ("root", "labels", "split")
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
            for section, settings in self.nested().items()
            for name, value in settings.items()
        }

    def nested(self) -> dict[str, dict[str, Any]]:
        """The sections as they stand in YAML: the loss's options beside its name."""
        sections = {section: asdict(getattr(self, section)) for section in ("data", "encoder", "train")}
        loss = {"name": self.loss.name, **self.loss.options}
        return {section: loss if section == "loss" else sections[section] for section in SECTIONS}

    @classmethod
    def of(cls, content: Mapping[str, Any], run: str | None = None) -> "Config":
        """From nested sections, such as `nested` gives.

        Raises:
            ConfigError: For an unknown section or setting, with the nearest known one.
        """
        for section in SECTIONS:
            if not isinstance(content.get(section) or {}, Mapping):
                raise ConfigError(f"'{section}' must hold settings, found {content[section]!r}.")
        loss = dict(content.get("loss") or {})
        name = loss.pop("name", LossConfig.name)
        made = {
            section: _section(section, kind, content.get(section) or {}) for section, kind in _KINDS.items()
        }
        return cls(**made, loss=LossConfig(name, loss), run=run)


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


_KINDS: dict[str, Any] = {"data": DataConfig, "encoder": EncoderConfig, "train": TrainConfig}


def _section(name: str, kind: type[Section], settings: Mapping[str, Any]) -> Section:
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for setting in settings:
        if setting not in known:
            raise ConfigError(f"unknown setting '{name}.{setting}'. {did_you_mean(setting, known)}")
    return kind(**settings)


def read_config(
    arguments: Sequence[str], loss_options: "dict[str, Any] | None", prog: str = "marcir train"
) -> Config:
    """Settings from YAML (`--config`) and dotted options.

    Args:
        arguments: What stands after the command.
        loss_options: The chosen loss's options and their defaults; None where only help is wanted.
        prog: The command, for help.

    Raises:
        ConfigError: One line that names the setting.
        SystemExit: Where help or the settings were printed.
    """
    parser = _parser(loss_options, prog)
    _refuse_unknown(arguments, parser, loss_options)
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            parsed = parser.parse_args(list(arguments))
    except (argparse.ArgumentError, ValueError, TypeError, OSError) as error:
        raise ConfigError(_one_line(error)) from error
    except SystemExit as exit_:
        if not exit_.code:
            raise  # help or the settings were printed
        raise ConfigError(_one_line(heard.getvalue())) from None
    content = {section: vars(getattr(parsed, section)) for section in SECTIONS}
    data = content["data"]
    if data["root"] is not None and not _is_set(arguments, "data", "name"):
        data["name"] = _dataset_in(Path(data["root"]), data["labels"])
    return Config.of(content, parsed.run)


def _dataset_in(root: Path, labels: str | None) -> str:
    """The dataset in a folder that nobody has named: images with a table of labels.

    Raises:
        ConfigError: For a folder without labels.
    """
    if labels is not None or (root / "labels.csv").exists():
        return "manifest"
    raise ConfigError(
        f"--data.root {root}: there is no labels.csv in it. Add one (path,labels), give one with "
        "--data.labels, or say what it is: --data.name ucm, ml-aid ..."
    )


def loss_name(arguments: Sequence[str]) -> str:
    """The loss that options or YAML name, needed before its own options can be read."""
    chosen: str = LossConfig.name
    for content in map(read_yaml, _values(arguments, "--config")):
        loss = content.get("loss")
        chosen = str(loss.get("name", chosen)) if isinstance(loss, dict) else chosen
    return [chosen, *_values(arguments, "--loss.name")][-1]


def _is_set(arguments: Sequence[str], section: str, name: str) -> bool:
    """Whether options or YAML name a setting."""
    files = (read_yaml(path).get(section) for path in _values(arguments, "--config"))
    in_files = any(isinstance(content, dict) and name in content for content in files)
    return in_files or bool(_values(arguments, f"--{section}.{name}"))


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML file of settings.

    Raises:
        ConfigError: Where there is no such file, or it holds something else.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise _missing("pyyaml") from error
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"--config {path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"--config {path}: {_one_line(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"--config {path}: expected sections {', '.join(SECTIONS)}.")
    return content


def _parser(loss_options: dict[str, Any] | None, prog: str) -> Any:
    try:
        from jsonargparse import ArgumentParser
    except ModuleNotFoundError as error:
        raise _missing("jsonargparse") from error
    parser = ArgumentParser(
        prog=prog,
        exit_on_error=False,
        description="Train an encoder on a labelled archive. Everything has a default; the same command "
        "goes on with a run that was interrupted.",
        epilog="The options of a loss are shown with its name: marcir train --loss.name marc --help",
    )
    parser.add_argument("--config", action="config", metavar="FILE.yaml", help="settings, before options")
    parser.add_argument("--run", type=str | None, metavar="DIR", help="the model folder (runs/DATA-LOSS)")
    for section, kind in (("data", DataConfig), ("encoder", EncoderConfig)):
        _add_section(parser, section, kind)
    parser.add_argument("--loss.name", default=LossConfig.name, help=f"one of {', '.join(LOSSES)}")
    for name, value in (loss_options or {}).items():
        parser.add_argument(f"--loss.{name}", type=_type_of(value), default=value)
    _add_section(parser, "train", TrainConfig)
    return parser


def _add_section(parser: Any, section: str, kind: Any) -> None:
    hints = get_type_hints(kind)
    for each in fields(kind):
        parser.add_argument(
            f"--{section}.{each.name}",
            type=hints[each.name],
            default=each.default,
            help=each.metadata["help"],
        )


def _type_of(value: Any) -> Any:
    """The type of a loss's option, from its default; None says nothing and takes numbers."""
    return int | float | None if value is None else type(value)


def _refuse_unknown(arguments: Sequence[str], parser: Any, loss_options: dict[str, Any] | None) -> None:
    known = {option for action in parser._actions for option in action.option_strings}
    for argument in arguments:
        name = argument.split("=", 1)[0]
        if name.startswith("--") and name not in known and loss_options is not None:
            raise ConfigError(f"unknown option '{name}'. {did_you_mean(name, known - {'-h'})}")
    settings = sorted(option.removeprefix("--") for option in known if "." in option)
    for path in _values(arguments, "--config"):
        for section, content in read_yaml(path).items():
            if section == "run":
                continue
            if section not in SECTIONS:
                hint = did_you_mean(str(section), SECTIONS)
                raise ConfigError(f"{path}: unknown section '{section}'. {hint}")
            if not isinstance(content, dict):
                first = next(each for each in settings if each.startswith(section)).split(".")[1]
                raise ConfigError(
                    f"{path}: '{section}' must hold settings, such as '{section}: {{{first}: ...}}'."
                )
            for name in content:
                setting = f"{section}.{name}"
                if setting not in settings and loss_options is not None:
                    hint = did_you_mean(setting, [each for each in settings if each.startswith(section)])
                    raise ConfigError(f"{path}: unknown setting '{setting}'. {hint}")


def _values(arguments: Sequence[str], option: str) -> list[str]:
    """What an option is set to, each time it stands in the arguments."""
    found = []
    for k, each in enumerate(arguments):
        if each.startswith(f"{option}="):
            found.append(each.split("=", 1)[1])
        elif each == option and k + 1 < len(arguments):
            found.append(arguments[k + 1])
    return found


def _one_line(error: object) -> str:
    text = " ".join(str(error).split()).replace('Parser key "', "").replace('":', ":")
    text = text.replace("<class '", "").replace("'>", "").replace("typing.", "")
    return text if text.endswith((".", "?")) else f"{text}."


def _missing(package: str) -> DependencyError:
    return DependencyError(f"{package} is not installed. Install it with: pip install 'marcir[train]'")
