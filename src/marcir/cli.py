"""The command line: parse, print, answer; no maths. `marcir --help` imports neither torch nor numpy."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from marcir import __version__
from marcir.errors import MarcirError, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the nearest known name."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        end = "" if message.endswith((".", "?")) else "."
        self.exit(2, f"{self.prog}: {message}{end} Try: {self.prog} --help\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments; what is left over is an error."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown argument '{unknown[0]}'. {did_you_mean(unknown[0], options)}")
        return parsed


@dataclass(frozen=True)
class Command:
    """A command: what it does, and its options and work; or the commands below it."""

    summary: str
    run: Callable[[Parser, Sequence[str]], None] | None = None
    below: "dict[str, Command] | None" = None


def _demo(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--steps", type=int, default=150, help="optimiser steps for each loss (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated batch (default 0)")
    options = parser.parse(arguments)
    from marcir.stages.demo import run_demo

    print(run_demo(steps=options.steps, seed=options.seed))


def _add_archive(parser: Parser) -> None:
    """The options that name an archive, spelled the same in every command."""
    parser.add_argument(
        "--dataset", required=True, metavar="NAME", help="manifest (your own), ucm, scenes ..."
    )
    parser.add_argument("--root", metavar="DIR", help="the archive's folder (scenes has one of its own)")
    parser.add_argument("--labels", metavar="CSV", help="a label table elsewhere than in the folder")


def _inspect(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument("--heat-map", metavar="PNG", help="draw which labels occur together")
    options = parser.parse(arguments)
    from marcir.stages.data import inspect

    print(inspect(options.dataset, options.root, options.labels, options.heat_map))


def _split(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument("--out", required=True, metavar="JSON", help="where the split goes")
    parser.add_argument("--seed", type=int, default=0, help="fixes the draw (default 0)")
    parser.add_argument("--method", default="random", help="random (default) or stratified")
    options = parser.parse(arguments)
    from marcir.stages.data import split

    drawn = split(options.dataset, options.root, options.out, options.labels, options.seed, options.method)
    sizes = f"{len(drawn.train)} / {len(drawn.validation)} / {len(drawn.test)}"
    print(f"{options.out}: {sizes} images to train / validate / test, labels {drawn.label_checksum[:12]}")


def _show(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument(
        "--out", default="samples.png", metavar="PNG", help="the picture (default samples.png)"
    )
    parser.add_argument("--images", type=int, default=6, help="images to show (default 6)")
    parser.add_argument("--views", type=int, default=5, help="augmented versions of each (default 5)")
    parser.add_argument("--size", type=int, default=128, help="side of the augmented images (default 128)")
    parser.add_argument("--seed", type=int, default=0, help="fixes which images and how (default 0)")
    parser.add_argument(
        "--on-broken", default="error", choices=["error", "skip"], help="what broken images do"
    )
    options = parser.parse(arguments)
    from marcir.stages.data import show

    broken = show(**vars(options))
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)
    print(options.out)


def _scenes(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--images", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="fixes every pixel (default 0)")
    options = parser.parse(arguments)
    from marcir.data.scene_writing import write_scenes

    write_scenes(Path(options.out), options.images, options.size, options.seed)
    print(f"{options.out}: {options.images} scenes of {options.size} x {options.size} pixels, labels.csv")


COMMANDS = {
    "demo": Command("show every loss at work on a small generated batch", _demo),
    "data": Command(
        "look at an archive, split it, generate one",
        below={
            "inspect": Command("count labels, label sets and broken images", _inspect),
            "split": Command("draw training, validation and test parts", _split),
            "show": Command("draw images beside their augmented versions", _show),
            "scenes": Command("generate an archive of aerial-like scenes", _scenes),
        },
    ),
}


def _choose(name: str, summary: str, commands: dict[str, Command], given: Sequence[str]) -> None:
    """Run the command that is named, or say which there are."""
    parser = Parser(
        prog=name,
        description=summary,
        epilog="commands:\n"
        + "\n".join(f"  {each:12}{command.summary}" for each, command in commands.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    if not given or given[0].startswith("-"):
        parser.parse(given)
        parser.print_help()
        return
    chosen = commands.get(given[0])
    if chosen is None:
        parser.error(f"unknown command '{given[0]}'. {did_you_mean(given[0], commands)}")
    elif chosen.below is not None:
        _choose(f"{name} {given[0]}", _sentence(chosen.summary), chosen.below, given[1:])
    elif chosen.run is not None:
        chosen.run(
            Parser(prog=f"{name} {given[0]}", description=_sentence(chosen.summary), allow_abbrev=False),
            given[1:],
        )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 for what the user can mend."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    about = "Search remote-sensing image archives by content, learned from multi-label data."
    try:
        _choose("marcir", about, COMMANDS, given)
    except MarcirError as error:
        print(f"marcir: {error}", file=sys.stderr)
        return 2
    return 0
