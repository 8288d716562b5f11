"""An argument parser whose errors are one line."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from marcir.errors import did_you_mean


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the nearest known name."""

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
