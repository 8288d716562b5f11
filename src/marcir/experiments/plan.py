"""The plan of a benchmark: losses x datasets x seeds x ways to hide labels, from a YAML file."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from marcir.catalog import LOSSES, loss_class, loss_options
from marcir.checks import NAMED_WEIGHTS, RANDOM_WEIGHTS
from marcir.config import Config, LabelsConfig, LossConfig, read_yaml, validate_options
from marcir.errors import ConfigError
from marcir.experiments.record import COMPARISON, UNKNOWN_LABELS, run_name, slug
from marcir.model.backbone import check_backbone
from marcir.schema import BeforeValidator, Field, record, validate
from marcir.training.build import check_loss
from marcir.training.run_folder import NEUTRAL_SETTINGS, PATH_SETTINGS
from marcir.training.train import resolve_defaults

PLACES = PATH_SETTINGS | {"encoder.weights"}  # paths; the content of the files counts instead


@dataclass(frozen=True)
class Run:
    """One training run of a plan.

    Attributes:
        config: Its settings.
        method: Name of its row.
        study: Name of its table.
        setting: Settings that the study varies.
    """

    config: Config
    method: str
    study: str = COMPARISON
    setting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its unique name in the study."""
        return run_name(self.config.data.name, self.method, self.setting, self.config.train.seed)


@dataclass(frozen=True)
class Plan:
    """A benchmark plan.

    Attributes:
        bases: Settings shared by all runs on a dataset, one per dataset.
        losses: Rows of the table: a title and the loss.
        seeds: Seeds of initial weights, batch order and augmentation.
        split_seed: Seed of the split, shared by all runs on a dataset.
        labels: Which labels of the training images are hidden, and what they count as.
    """

    bases: tuple[Config, ...]
    losses: tuple[tuple[str, LossConfig], ...]
    seeds: tuple[int, ...]
    split_seed: int = 0
    labels: tuple[LabelsConfig, ...] = (LabelsConfig(),)

    @property
    def hides_labels(self) -> bool:
        """Whether runs with hidden labels are planned."""
        return any(hidden_setting(labels) for labels in self.labels)

    def runs(self) -> Iterator[Run]:
        """All runs, ordered by seed, dataset, hidden labels and loss.

        Runs with complete labels are those of the comparison.
        """
        for seed in self.seeds:
            for base, labels in product(self.bases, self.labels):
                setting = hidden_setting(labels)
                study = UNKNOWN_LABELS if setting else COMPARISON
                for title, loss in self.losses:
                    config = replace(with_seed(base, seed), loss=loss, labels=labels)
                    yield Run(config, title, study, setting)


def hidden_setting(labels: LabelsConfig) -> dict[str, Any]:
    """What is hidden, for tables and names of runs; empty for the labels as they are.

    Both ways to hide keep the same present labels, so that `how` does not matter where unknown labels count
    as absent.

    >>> hidden_setting(LabelsConfig(hide=0.6))
    {'hide': 0.6, 'how': 'uniform', 'unknown': 'aware'}
    >>> hidden_setting(LabelsConfig(hide=0.6, how="present-only", unknown="absent"))
    {'hide': 0.6, 'unknown': 'absent'}
    """
    if labels.unknown == "absent":
        return {"hide": labels.hide, "unknown": labels.unknown}
    if labels.hide == 0 and labels.how == "uniform":
        return {}
    return {"hide": labels.hide, "how": labels.how, "unknown": labels.unknown}


def with_seed(config: Config, seed: int) -> Config:
    """The same settings with another seed."""
    return replace(config, train=replace(config.train, seed=seed))


def _as_settings(given: Any) -> Any:
    """Accept a bare name in place of settings."""
    return {"name": given} if isinstance(given, str) else given


_Named = Annotated[dict[str, Any], BeforeValidator(_as_settings)]
_Section = Annotated[dict[str, Any], BeforeValidator(lambda given: {} if given is None else given)]
_Sections = Annotated[
    list[_Section],
    BeforeValidator(lambda given: given if isinstance(given, list) else [given]),
    Field(min_length=1),
]
_Losses = Annotated[
    list[_Named],
    BeforeValidator(lambda given: list(LOSSES) if given == "all" else given),
    Field(min_length=1),
]
_Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


@record()
class _PlanFile:
    """Schema of the YAML file."""

    datasets: Annotated[list[_Named], Field(min_length=1)] = field(
        default_factory=lambda: [{"name": "scenes"}]
    )
    losses: _Losses = field(default_factory=lambda: [{"name": name} for name in LOSSES])
    seeds: Annotated[list[_Seed], Field(min_length=1)] = field(default_factory=lambda: [0])
    split_seed: _Seed = 0
    labels: _Sections = field(default_factory=lambda: [{}])
    encoder: _Section = field(default_factory=dict)
    train: _Section = field(default_factory=dict)


def read_plan(path: str | Path) -> Plan:
    """Read a plan from its YAML file.

    Raises:
        ConfigError: One line that names the file and the key.
    """
    content = read_yaml(path)
    try:
        file = validate(_PlanFile, content)
        losses = tuple(_loss(dict(options)) for options in file.losses)
        bases = tuple(_base(data, file) for data in file.datasets)
        labels = _labels(file.labels)
        if any(hidden_setting(each) and each.unknown == "aware" for each in labels):
            _refuse_complete_only(losses)
        _refuse_duplicates("losses", [title for title, _ in losses], "Give one of them another title")
        _refuse_duplicates(
            "datasets", [base.data.name for base in bases], "Give each a results folder of its own"
        )
        _refuse_duplicates("seeds", list(map(str, file.seeds)), "Remove one of them")
        return Plan(bases, losses, tuple(file.seeds), file.split_seed, labels)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _base(data: Mapping[str, Any], file: _PlanFile) -> Config:
    if "seed" in file.train:
        raise ConfigError("train.seed: every seed of `seeds` takes its place. Set seeds.")
    config = Config.from_dict(
        {"data": _expanded(data), "encoder": _expanded(file.encoder), "train": file.train}
    )
    check_backbone(config.encoder.backbone)
    return config


def _expanded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Expand environment variables, such as $HOME."""
    expanded = {}
    for name, value in settings.items():
        expanded[name] = os.path.expandvars(value) if isinstance(value, str) else value
        if missing := re.search(r"\$\{?(\w+)", str(expanded[name])):
            raise ConfigError(
                f"'{value}': the environment variable {missing[1]} is not set. Set it, or give a path."
            )
    return expanded


def _loss(options: dict[str, Any]) -> tuple[str, LossConfig]:
    if "name" not in options:
        raise ConfigError("losses: a loss needs a name, such as {name: marc, alpha: 0.5}.")
    name, title = options.pop("name"), options.pop("title", None)
    try:
        checked = validate_options(options, loss_options(name))
        check_loss(LossConfig(name, checked))
    except ConfigError as error:
        raise ConfigError(f"losses: {name}: {error}") from error
    varied = ", ".join(f"{option} {value}" for option, value in options.items())
    title = " ".join(str(title or "").split()) or (f"{name} ({varied})" if varied else name)
    if slug(title).lower() in LOSSES and (title != name or options):
        raise ConfigError(f"losses: the title '{title}' is that of a loss with its defaults. Give another.")
    return title, LossConfig(name, checked)


def _labels(sections: Sequence[Mapping[str, Any]]) -> tuple[LabelsConfig, ...]:
    """Every combination of the given values; those with the same training labels count once."""
    found: dict[str, LabelsConfig] = {}
    for section in sections:
        choices: list[list[tuple[str, Any]]] = []
        for name, given in section.items():
            # One seed: runs that differ in it alone would have the same name.
            several = isinstance(given, list) and name != "seed"
            choices.append([(name, value) for value in given] if several else [(name, given)])
            if not choices[-1]:
                raise ConfigError(f"labels.{name} = []: must not be empty.")
        for chosen in product(*choices):
            labels = Config.from_dict({"labels": dict(chosen)}).labels
            setting = hidden_setting(labels)
            if not setting:
                labels = LabelsConfig()  # without a seed, as in the comparison
            elif "how" not in setting:
                labels = replace(labels, how="uniform")
            if found.setdefault(json.dumps(setting), labels) != labels:
                raise ConfigError(f"labels.seed: two seeds for {setting}. Give one seed.")
    return tuple(found.values())


def _refuse_complete_only(losses: Sequence[tuple[str, LossConfig]]) -> None:
    """Refuse losses that take no unknown labels, before anything is trained."""
    for title, loss in losses:
        if not loss_class(loss.name).takes_unknown:
            raise ConfigError(
                f"losses: {title} needs complete labels. Remove it, or set labels.unknown to absent."
            )


def _refuse_duplicates(key: str, names: Sequence[str], advice: str) -> None:
    """Refuse names that are equal as file names."""
    files = [slug(name).lower() for name in names]
    for place, name in enumerate(names):
        if files[place] in files[:place]:
            raise ConfigError(f"{key}: duplicate '{name}', as file names. {advice}.")


def config_hash(config: Config, split_checksum: str) -> str:
    """Hash of everything that changes the trained model: settings, labels, split, initial weights."""
    decided = resolve_defaults(config)
    settings = {k: v for k, v in decided.flat().items() if k not in NEUTRAL_SETTINGS and k not in PLACES}
    settings.pop("data.unlisted", None)  # the split's checksum is of the labels that it leads to
    if decided.labels == LabelsConfig():  # as before there was this section: older records stay valid
        settings = {k: v for k, v in settings.items() if not k.startswith("labels.")}
    settings |= {"split": split_checksum, "weights": _weights_hash(decided.encoder.weights)}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:24]


def _weights_hash(weights: str) -> str:
    if weights in RANDOM_WEIGHTS:
        return "none"
    if weights in NAMED_WEIGHTS:
        return weights
    try:
        return hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"encoder.weights {weights}: there is no such file. Give {', '.join(NAMED_WEIGHTS)} or a file."
        ) from error
