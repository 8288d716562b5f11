"""Which runs there are: losses x datasets x seeds, from one YAML file."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marcir.catalog import LOSSES, loss_options
from marcir.checks import NAMED_WEIGHTS, RANDOM_WEIGHTS, check_seed
from marcir.config import Config, LossConfig, read_yaml
from marcir.errors import ConfigError, did_you_mean
from marcir.experiments.plan_settings import check_values, checked_options, checked_section
from marcir.experiments.record import COMPARISON, run_name, slug
from marcir.model.backbone import check_backbone
from marcir.training.run_folder import DATA_PLACES, NEUTRAL
from marcir.training.train import effective

_KEYS = ("datasets", "losses", "seeds", "split_seed", "encoder", "train")
PLACES = DATA_PLACES | {"encoder.weights"}  # where things lie; what lies there counts instead


@dataclass(frozen=True)
class Run:
    """One training run of a plan.

    Attributes:
        config: Its settings.
        method: What its row is called.
        study: Which table it belongs to.
        setting: What the study varies, and its value here.
    """

    config: Config
    method: str
    study: str = COMPARISON
    setting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tells it from other runs of its study."""
        return run_name(self.config.data.name, self.method, self.setting, self.config.train.seed)


@dataclass(frozen=True)
class Plan:
    """What a benchmark file says.

    Attributes:
        bases: Settings that all runs on a dataset share, one for each dataset.
        losses: Rows of the table: a title and the loss.
        seeds: Of first weights, batch order and augmentation.
        split_seed: Of the split, which all runs on a dataset share.
    """

    bases: tuple[Config, ...]
    losses: tuple[tuple[str, LossConfig], ...]
    seeds: tuple[int, ...]
    split_seed: int = 0

    def runs(self) -> Iterator[Run]:
        """Every run; all losses of the first seed come before those of the second."""
        for seed in self.seeds:
            for base in self.bases:
                for title, loss in self.losses:
                    yield Run(replace(with_seed(base, seed), loss=loss), title)


def with_seed(config: Config, seed: int) -> Config:
    """The same settings with another seed."""
    return replace(config, train=replace(config.train, seed=seed))


def read_plan(path: str | Path) -> Plan:
    """A plan from its YAML file.

    Raises:
        ConfigError: One line that names the file and the key.
    """
    content = read_yaml(path)
    for key in content:
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key '{key}'. {did_you_mean(str(key), _KEYS)}")
    try:
        return Plan(
            tuple(_base(data, content) for data in _datasets(content)),
            _losses(content.get("losses", "all")),
            _seeds(content.get("seeds", [0])),
            check_seed(content.get("split_seed", 0)),
        )
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _datasets(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = _list(content.get("datasets", [{"name": "scenes"}]), "datasets")
    found = [{"name": each} if isinstance(each, str) else dict(_mapping(each, "datasets")) for each in listed]
    names = [str(each.get("name", "scenes")) for each in found]
    _refuse_twice("datasets", names, "Give each a results folder of its own")
    return found


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = tuple(check_seed(seed) for seed in _list(given, "seeds"))
    _refuse_twice("seeds", list(map(str, seeds)), "Remove one of them")
    return seeds


def _base(data: dict[str, Any], content: Mapping[str, Any]) -> Config:
    sections = {"data": data} | {
        name: dict(_mapping(content.get(name) or {}, name)) for name in ("encoder", "train")
    }
    if "seed" in sections["train"]:
        raise ConfigError("train.seed: every seed of `seeds` takes its place. Set seeds.")
    for settings in (data, sections["encoder"]):
        settings |= {name: _expanded(value) for name, value in settings.items() if isinstance(value, str)}
    config = Config.of({name: checked_section(name, settings) for name, settings in sections.items()})
    check_backbone(config.encoder.backbone)
    return config


def _expanded(value: str) -> str:
    """With environment variables, such as $HOME, filled in."""
    expanded = os.path.expandvars(value)
    missing = re.search(r"\$\{?(\w+)", expanded)
    if missing:
        raise ConfigError(
            f"'{value}': the environment variable {missing[1]} is not set. Set it, or give a path."
        )
    return expanded


def _losses(given: Any) -> tuple[tuple[str, LossConfig], ...]:
    found = [_loss(each) for each in (LOSSES if given == "all" else _list(given, "losses"))]
    _refuse_twice("losses", [title for title, _ in found], "Give one of them another title")
    return tuple(found)


def _loss(given: Any) -> tuple[str, LossConfig]:
    options = {"name": given} if isinstance(given, str) else dict(_mapping(given, "losses"))
    if "name" not in options:
        raise ConfigError("losses: a loss needs a name, such as {name: marc, alpha: 0.5}.")
    name, title = options.pop("name"), options.pop("title", None)
    known = loss_options(name)
    for option in options:
        if option not in known:
            raise ConfigError(
                f"losses: '{name}' has no option '{option}'. {did_you_mean(str(option), known)}"
            )
    varied = ", ".join(f"{option} {value}" for option, value in options.items())
    title = " ".join(str(title or "").split()) or (f"{name} ({varied})" if varied else name)
    if slug(title).lower() in LOSSES and (title != name or options):
        raise ConfigError(f"losses: the title '{title}' is that of a loss with its defaults. Give another.")
    checked = checked_options(options, known)
    check_values(name, checked)
    return title, LossConfig(name, checked)


def _refuse_twice(key: str, names: Sequence[str], advice: str) -> None:
    """Refuse names that are one as names of files."""
    files = [slug(name).lower() for name in names]
    for place, name in enumerate(names):
        if files[place] in files[:place]:
            raise ConfigError(f"{key}: duplicate '{name}', as file names. {advice}.")


def _list(given: Any, key: str) -> Sequence[Any]:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"{key}: expected a list, such as [...], found {given!r}.")
    return given


def _mapping(given: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{key}: expected settings, such as {{name: ...}}, found {given!r}.")
    wrong = next((name for name in given if not isinstance(name, str)), None)
    if wrong is not None:
        raise ConfigError(f"{key}: expected names of settings, found {wrong!r}.")
    return given


def config_hash(config: Config, split_checksum: str) -> str:
    """Of all that changes what is learned: settings, labels and split, and the first weights themselves."""
    decided = effective(config)
    settings = {k: v for k, v in decided.flat().items() if k not in NEUTRAL and k not in PLACES}
    settings |= {"split": split_checksum, "weights": _content(decided.encoder.weights)}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:24]


def _content(weights: str) -> str:
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
