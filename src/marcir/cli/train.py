"""`marcir train`: options for every setting, and YAML files of them."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from marcir.catalog import LOSSES, loss_options
from marcir.cli.parser import ARCHIVE, Parser
from marcir.errors import ConfigError, needs

if TYPE_CHECKING:
    from marcir.config import Config

_METAVARS = {int: "INT", float: "FLOAT", bool: "{true,false}", str: "TEXT"}
# Options shared with other commands, and the settings that they set.
_SHORT = {
    "dataset": "data.name",
    "root": "data.root",
    "labels": "data.labels",
    "unlisted": "data.unlisted",
    "device": "train.device",
    "store": "data.root",
}


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    config = read_config(arguments, parser)
    from marcir.training.train import train

    scores = train(config)
    if scores is not None:
        print(scores)
        print(f"\n{config.folder}: model.safetensors, config.json, metrics.json, history.csv, README.md")


def read_config(arguments: Sequence[str], parser: Parser | None = None) -> "Config":
    """Read settings from YAML files (`--config`; later files override earlier ones) and options.

    Args:
        arguments: The arguments after the command.
        parser: Parser to add the options to.

    Raises:
        ConfigError: One line that names the setting and its file.
        SystemExit: After printing help or settings, and for an unknown option.
    """
    from marcir.config import Config, LossConfig, validate_options, with_dataset
    from marcir.schema import SchemaError

    settings, origin, loss = _from_files(arguments)
    helping = {"-h", "--help"} & set(arguments)
    # Help without the options of a loss does not import torch.
    known = {} if helping and loss is None else loss_options(loss or LossConfig.name)
    parser = parser or Parser(prog="marcir train")
    _add_options(parser, known)
    options = vars(parser.parse(arguments))
    settings |= _from_options(options)
    try:
        loss_settings = {
            name[5:]: settings[name] for name in settings if name.startswith("loss.") and name != "loss.name"
        }
        complete = {**known, **validate_options(loss_settings, known)}
        settings |= {f"loss.{name}": value for name, value in complete.items()}
        config = Config.from_dict(with_dataset(_nested(settings)), options["run"])
    except SchemaError as error:
        where = (path for name, path in origin.items() if f"{name}.".startswith(f"{error.field}."))
        prefix = "" if error.field in options else next(where, "")
        raise ConfigError(f"{prefix}{error}") from error
    if options["print_config"]:
        print(_yaml().safe_dump({"run": config.run, **config.to_dict()}, sort_keys=False), end="")
        parser.exit()
    return config


def _from_files(arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, str], str | None]:
    """Settings of files by dotted names, the file of each, and the name of the loss."""
    from marcir.config import read_yaml

    parser = Parser(prog="marcir train", add_help=False)
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--loss.name")
    early = vars(parser.parse_known_args(arguments)[0])
    settings: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for path in early["config"]:
        content = read_yaml(path)
        for name in (name for name in content if "." in name):
            section, _, setting = name.partition(".")
            raise ConfigError(f"{path}: '{name}' must be in a section: '{section}: {{{setting}: ...}}'.")
        content = _flat(content)
        settings |= content
        origin |= dict.fromkeys(content, f"{path}: ")
    return settings, origin, early["loss.name"] or settings.get("loss.name")


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names; entries that are not sections are unchanged."""
    flat: dict[str, Any] = {}
    for section, settings in content.items():
        if isinstance(settings, dict):
            flat |= {f"{section}.{name}": value for name, value in settings.items()}
        else:
            flat[section] = settings
    return flat


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of settings from dotted names."""
    sections: dict[str, Any] = {}
    for name, value in settings.items():
        section, _, setting = name.partition(".")
        if setting:
            sections.setdefault(section, {})[setting] = value
    return sections | {name: value for name, value in settings.items() if "." not in name}


def _from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of options by dotted names; a short option must agree with the dotted one."""
    settings = {name: None if value == "null" else value for name, value in options.items() if "." in name}
    if options["store"] is not None:
        options = {**options, "dataset": options["dataset"] or "store"}
        if options["dataset"] != "store" or options["root"] is not None:
            raise ConfigError("--store: names the images and the labels; leave --dataset and --root out.")
    for short, name in _SHORT.items():
        value = options[short]
        if value is not None and settings.setdefault(name, value) != value:
            raise ConfigError(f"--{short} {value} and --{name} {settings[name]}: give one of them.")
    return settings


def _add_options(parser: Parser, known: Mapping[str, Any]) -> None:
    from marcir.config import DataConfig, EncoderConfig, LabelsConfig, LossConfig, TrainConfig
    from marcir.schema import fields_of

    parser.usage = (
        "%(prog)s [--dataset NAME] [--root DIR] [--store URI] [--run DIR] [--SECTION.SETTING VALUE ...]"
    )
    parser.description = (
        "Train an encoder on a labelled archive. Every setting has a default; the same command resumes an "
        "interrupted run."
    )
    parser.epilog = "The options of a loss are shown with its name: marcir train --loss.name marc --help"
    parser.add_shared(*ARCHIVE, required=False)
    parser.add_shared(
        "--store", required=False, help="instead of --dataset and --root: the images and labels of a store"
    )
    parser.add_shared("--device", default=None)
    parser.add_argument("--run", metavar="DIR", help="the model folder (default: runs/DATA-LOSS)")
    parser.add_argument(
        "--config",
        action="append",
        metavar="FILE.yaml",
        help="settings by section; later files override earlier ones, and options override files",
    )
    parser.add_argument("--print_config", action="store_true", help="print all settings as YAML and exit")
    sections = {
        "data": DataConfig,
        "labels": LabelsConfig,
        "encoder": EncoderConfig,
        "loss": LossConfig,
        "train": TrainConfig,
    }
    for section, kind in sections.items():
        group = parser.add_argument_group(section, kind.__doc__)
        if section == "loss":
            _add(group, "loss.name", str, LossConfig.name, f"one of {', '.join(LOSSES)}")
            for name, value in known.items():
                _add(group, f"loss.{name}", float if value is None else type(value), value, "")
            continue
        for name, each in fields_of(kind).items():
            _add(group, f"{section}.{name}", each.annotation, each.default, each.description)


def _add(group: Any, name: str, kind: Any, default: Any, text: str) -> None:
    """Add an option whose help shows its type or choices, and its default."""
    kinds = [each for each in get_args(kind) if each is not type(None)] or [kind]
    chosen = get_origin(kind) is Literal
    if not chosen and get_origin(kinds[0]) is Literal:  # a choice or None
        kinds, chosen = list(get_args(kinds[0])), True
    shown = "" if default is None else f"(default: {str(default).lower() if kind is bool else default})"
    group.add_argument(
        f"--{name}",
        metavar=f"{{{','.join(kinds)}}}" if chosen else _METAVARS[kinds[0]],
        type=str if chosen or str in kinds else _value,
        default=argparse.SUPPRESS,
        help=f"{text} {shown}".strip(),
    )


def _value(text: str) -> Any:
    """Parse a value as YAML, such as 3, true or null."""
    yaml = _yaml()
    with suppress(yaml.YAMLError):
        return yaml.safe_load(text)
    return text


def _yaml() -> Any:
    with needs("train"):
        import yaml
    return yaml
