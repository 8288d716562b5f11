"""`marcir train`: options for every setting, and YAML files of them."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from marcir.catalog import LOSSES, loss_options
from marcir.cli.options import add_archive, add_device
from marcir.cli.parser import Parser
from marcir.errors import ConfigError, needs

if TYPE_CHECKING:
    from marcir.config import Config

_METAVARS = {int: "INT", float: "FLOAT", bool: "{true,false}", str: "TEXT"}
# Options that other commands have, too, and the settings that they stand for.
_SHORT = {"dataset": "data.name", "root": "data.root", "labels": "data.labels", "device": "train.device"}


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, do it, and print what came out."""
    config = read_config(arguments, parser)
    from marcir.training.train import train

    scores = train(config)
    if scores is not None:
        print(scores)
        print(f"\n{config.folder}: model.safetensors, config.json, metrics.json, history.csv, README.md")


def read_config(arguments: Sequence[str], parser: Parser | None = None) -> "Config":
    """The settings in YAML files (`--config`; of several, later ones win) and options, which win over them.

    Args:
        arguments: What stands after the command.
        parser: Gets the options.

    Raises:
        ConfigError: One line that names the setting, and the file where it is in one.
        SystemExit: Where help or the settings were printed, or an option is unknown.
    """
    from marcir.config import Config, LossConfig, validate_options
    from marcir.schema import SchemaError

    found, origin, loss = _from_files(arguments)
    helping = {"-h", "--help"} & set(arguments)
    # Without the options of any loss, help need not import torch.
    known = {} if helping and loss is None else loss_options(loss or LossConfig.name)
    parser = parser or Parser(prog="marcir train", allow_abbrev=False)
    _add_options(parser, known)
    options = vars(parser.parse(arguments))
    found |= _given(options)
    try:
        chosen = {name[5:]: found[name] for name in found if name.startswith("loss.") and name != "loss.name"}
        complete = {**known, **validate_options(chosen, known)}
        found |= {f"loss.{name}": value for name, value in complete.items()}
        config = Config.from_dict(_nested(found), options["run"])
    except SchemaError as error:
        where = (path for name, path in origin.items() if f"{name}.".startswith(f"{error.field}."))
        prefix = "" if error.field in options else next(where, "")
        raise ConfigError(f"{prefix}{error}") from error
    if options["print_config"]:
        print(_yaml().safe_dump({"run": config.run, **config.to_dict()}, sort_keys=False), end="")
        parser.exit()
    return config


def _from_files(arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, str], str | None]:
    """Settings in files by dotted names, the file of each, and the loss that files or an option name."""
    from marcir.config import read_yaml

    parser = Parser(prog="marcir train", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--loss.name")
    early = vars(parser.parse_known_args(arguments)[0])
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for path in early["config"]:
        content = _flat(read_yaml(path))
        found |= content
        origin |= dict.fromkeys(content, f"{path}: ")
    return found, origin, early["loss.name"] or found.get("loss.name")


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names; a section that is none is left as it is."""
    found: dict[str, Any] = {}
    for section, settings in content.items():
        if isinstance(settings, dict):
            found |= {f"{section}.{name}": value for name, value in settings.items()}
        else:
            found[section] = settings
    return found


def _nested(found: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of settings from dotted names."""
    sections: dict[str, Any] = {}
    for name, value in found.items():
        section, _, setting = name.partition(".")
        if setting:
            sections.setdefault(section, {})[setting] = value
    return sections | {name: value for name, value in found.items() if "." not in name}


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are set by options, by their dotted names; a short and a dotted one must agree."""
    given = {name: None if value == "null" else value for name, value in options.items() if "." in name}
    for short, name in _SHORT.items():
        value = options[short]
        if value is not None and given.setdefault(name, value) != value:
            raise ConfigError(f"--{short} {value} and --{name} {given[name]}: give one of them.")
    return given


def _add_options(parser: Parser, known: Mapping[str, Any]) -> None:
    from marcir.config import DataConfig, EncoderConfig, LossConfig, TrainConfig
    from marcir.schema import fields_of

    parser.usage = "%(prog)s [--dataset NAME] [--root DIR] [--run DIR] [--SECTION.SETTING VALUE ...]"
    parser.description = (
        "Train an encoder on a labelled archive. Everything has a default; the same command goes on with a "
        "run that was interrupted."
    )
    parser.epilog = "The options of a loss are shown with its name: marcir train --loss.name marc --help"
    add_archive(parser, required=False)
    add_device(parser, default=None)
    parser.add_argument("--run", metavar="DIR", help="the model folder (default: runs/DATA-LOSS)")
    parser.add_argument(
        "--config",
        action="append",
        metavar="FILE.yaml",
        help="settings by section; of several files later ones win, and options win over files",
    )
    parser.add_argument("--print_config", action="store_true", help="print all settings as YAML and exit")
    sections = {"data": DataConfig, "encoder": EncoderConfig, "loss": LossConfig, "train": TrainConfig}
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
    """An option that shows its type or its choices, and its default."""
    kinds = [each for each in get_args(kind) if each is not type(None)] or [kind]
    chosen = get_origin(kind) is Literal
    shown = "" if default is None else f"(default: {str(default).lower() if kind is bool else default})"
    group.add_argument(
        f"--{name}",
        metavar=f"{{{','.join(kinds)}}}" if chosen else _METAVARS[kinds[0]],
        type=str if chosen or str in kinds else _value,
        default=argparse.SUPPRESS,
        help=f"{text} {shown}".strip(),
    )


def _value(text: str) -> Any:
    """What a text means in YAML, such as 3, true or null."""
    yaml = _yaml()
    with suppress(yaml.YAMLError):
        return yaml.safe_load(text)
    return text


def _yaml() -> Any:
    with needs("train"):
        import yaml
    return yaml
