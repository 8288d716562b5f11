"""An argument parser whose errors are one line, and the options that several commands share."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from marcir import __version__
from marcir.errors import did_you_mean

_RUNS_ON = "where the network runs: cpu, cuda, cuda:1, mps (default: CUDA, else MPS, else the CPU)"
SHARED: dict[str, dict[str, Any]] = {
    "--dataset": {"required": True, "metavar": "NAME", "help": "manifest (your own), ucm, scenes ..."},
    "--root": {"metavar": "DIR", "help": "the archive's folder (optional for scenes)"},
    "--labels": {"metavar": "CSV", "help": "a label table outside the archive's folder"},
    "--unlisted": {
        "choices": ["absent", "unknown"],
        "help": "what labels are that the table does not list (default: what it says itself, else absent)",
    },
    "--on-broken": {
        "default": "error",
        "choices": ["error", "skip"],
        "help": "refuse broken images or skip them",
    },
    "--images": {"required": True, "metavar": "DIR", "help": "images anywhere below this folder"},
    "--store": {"required": True, "metavar": "URI", "help": "a store of marcir index"},
    "--device": {"default": "auto", "metavar": "NAME", "help": _RUNS_ON},
    "--batch-size": {"type": int, "default": 64, "metavar": "N", "help": "images per batch (default 64)"},
    "--seed": {"type": int, "default": 0},
    "--config": {"required": True, "metavar": "YAML", "help": "the plan, see docs/benchmark.md"},
    "--results": {"required": True, "metavar": "DIR", "help": "one record per run; done runs stay"},
    "--jobs": {"type": int, "default": 1, "help": "runs at a time (default 1)"},
}
ARCHIVE = ("--dataset", "--root", "--labels", "--unlisted")
PLAN = ("--config", "--results", "--jobs")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the nearest known name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def add_shared(self, *names: str, **changes: Any) -> None:
        """Add options of `SHARED`; `changes` replace parts of their declarations."""
        for name in names:
            self.add_argument(name, **{**SHARED[name], **changes})

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        end = "" if message.endswith((".", "?")) else "."
        self.exit(2, f"{self.prog}: {message}{end} Try: {self.prog} --help\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments; unknown ones are an error."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown argument '{unknown[0]}'. {did_you_mean(unknown[0], options)}")
        return parsed


def choose(
    parser: Parser, commands: Mapping[str, str], arguments: Sequence[str]
) -> tuple[str, Parser] | None:
    """The command named by the first argument and its parser; None after printing help.

    Args:
        parser: The parser of the program or of a group of commands.
        commands: Summaries by name.
        arguments: The arguments after the program or the group.
    """
    parser.epilog = "commands:\n" + "\n".join(f"  {name:12}{text}" for name, text in commands.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    if not arguments or arguments[0].startswith("-"):
        parser.parse(arguments)
        parser.print_help()
        return None
    name = arguments[0]
    if name not in commands:
        parser.error(f"unknown command '{name}'. {did_you_mean(name, commands)}")
    text = commands[name]
    return name, Parser(prog=f"{parser.prog} {name}", description=f"{text[0].upper()}{text[1:]}.")


def print_skipped(broken: Mapping[str, str]) -> None:
    """Print one line per broken image that was skipped."""
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)
