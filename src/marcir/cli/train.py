"""`marcir train`: options for every setting, and YAML files of them."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from marcir.catalog import LOSSES, loss_options
from marcir.cli.data_archive import add_archive
from marcir.cli.model_options import add_device
from marcir.cli.parser import Parser
from marcir.errors import ConfigError, needs

if TYPE_CHECKING:
    from marcir.config import Config

Files = Sequence[tuple[str, Mapping[str, Any]]]  # path and content

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
    from marcir.config import Config, LossConfig, checked_options, read_yaml
    from marcir.schema import SchemaError

    parser = parser or Parser(prog="marcir train", allow_abbrev=False)
    early = _early(arguments)
    files = [(path, read_yaml(path)) for path in early["config"]]
    found = _merged(files)
    loss = early["loss.name"] or found["loss"].get("name")
    helping = {"-h", "--help"} & set(arguments)
    # Without the options of any loss, help need not import torch.
    known = {} if helping and loss is None else loss_options(loss or LossConfig.name)
    _add_options(parser, known)
    options = vars(parser.parse(arguments))
    given = _given(options)
    for name, value in given.items():
        section, _, setting = name.partition(".")
        found[section][setting] = value
    chosen = {"name": LossConfig.name, **found["loss"]}
    try:
        found["loss"] = {"name": chosen.pop("name"), **known, **checked_options(chosen, known)}
        config = Config.of(found, options["run"])
    except SchemaError as error:
        raise ConfigError(f"{_file_of(error.field, files, given)}{error}") from error
    if options["print_config"]:
        _print(config)
        parser.exit()
    return config


def _early(arguments: Sequence[str]) -> dict[str, Any]:
    """The files and the loss, which must be known before the other options are."""
    parser = Parser(prog="marcir train", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--loss.name")
    return vars(parser.parse_known_args(arguments)[0])


def _merged(files: Files) -> dict[str, Any]:
    """The settings of all files, section by section."""
    from marcir.config import SECTIONS

    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for path, content in files:
        for section, settings in content.items():
            if section not in SECTIONS:
                found[section] = settings
            elif isinstance(settings, dict):
                found[section].update(settings)
            else:
                raise ConfigError(
                    f"{path}: '{section}' must hold settings, such as '{section}: {{name: ...}}'."
                )
    return found


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are set by options, by their dotted names.

    Raises:
        ConfigError: Where the short and the dotted option differ.
    """
    given = {name: value for name, value in options.items() if "." in name}
    for short, name in _SHORT.items():
        value = options[short]
        if value is not None and given.setdefault(name, value) != value:
            raise ConfigError(f"--{short} {value} and --{name} {given[name]}: give one of them.")
    return given


def _file_of(field: str, files: Files, given: Mapping[str, Any]) -> str:
    """The file that a setting comes from, with a colon; nothing where it is an option."""
    section, _, setting = field.partition(".")
    if field not in given:
        for path, content in reversed(files):
            if section in content and (not setting or setting in content[section]):
                return f"{path}: "
    return ""


def _print(config: "Config") -> None:
    with needs("train"):
        import yaml
    print(yaml.safe_dump({"run": config.run, **config.nested()}, sort_keys=False), end="")


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
        type=str if chosen or kind is str else _path if str in kinds else _value,
        default=argparse.SUPPRESS,
        help=f"{text} {shown}".strip(),
    )


def _path(text: str) -> str | None:
    return None if text == "null" else text


def _value(text: str) -> Any:
    """What a text means in YAML, such as 3, true or null."""
    with needs("train"):
        import yaml
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
