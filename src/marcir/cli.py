"""The command line: parse, print, answer; no maths. `marcir --help` imports neither torch nor numpy."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from marcir import __version__
from marcir.errors import MarcirError, did_you_mean

COMMANDS = {"demo": "show every loss at work on a small generated batch"}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the nearest known name."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        self.exit(2, f"{self.prog}: {message} Try: {self.prog} --help\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments; what is left over is an error."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown argument '{unknown[0]}'. {did_you_mean(unknown[0], options)}")
        return parsed


def build_parser() -> Parser:
    """The top level: options, and the name of a command."""
    parser = Parser(
        prog="marcir",
        description="Search remote-sensing image archives by content, learned from multi-label data.",
        epilog="commands:\n" + "\n".join(f"  {name:12}{what}" for name, what in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 for what the user can mend."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser()
    command = given[0] if given and not given[0].startswith("-") else None
    if command is None:
        parser.parse(given)
        parser.print_help()
        return 0
    if command not in COMMANDS:
        parser.error(f"unknown command '{command}'. {did_you_mean(command, COMMANDS)}")
    try:
        return _demo(given[1:])
    except MarcirError as error:
        print(f"marcir {command}: {error}", file=sys.stderr)
        return 2


def _demo(arguments: Sequence[str]) -> int:
    parser = Parser(prog="marcir demo", description="Show every loss at work on a small generated batch.")
    parser.add_argument("--steps", type=int, default=150, help="optimiser steps for each loss (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated batch (default 0)")
    options = parser.parse(arguments)
    from marcir.stages.demo import run_demo

    print(run_demo(steps=options.steps, seed=options.seed))
    return 0
