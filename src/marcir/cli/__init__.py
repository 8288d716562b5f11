"""The command line: `main` selects the command and reports errors; every command has a module.

`marcir --help` imports neither torch nor numpy.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from marcir import __version__
from marcir.cli.parser import Parser
from marcir.errors import MarcirError, did_you_mean
from marcir.files import in_cache


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        summary: What it does.
        module: Its module in this package, with a function `run`; empty for a group of commands.
        below: The commands of a group.
    """

    summary: str
    module: str = ""
    below: "dict[str, Command] | None" = None


COMMANDS = {
    "demo": Command("generate an archive, train, compare, report, index and search it", "demo"),
    "data": Command(
        "look at an archive, split it, generate one",
        below={
            "inspect": Command("count labels, label sets and broken images", "data_inspect"),
            "split": Command("draw training, validation and test parts", "data_split"),
            "show": Command("draw images beside their augmented versions", "data_show"),
            "scenes": Command("generate an archive of aerial-like scenes", "data_scenes"),
        },
    ),
    "train": Command("train an encoder on a labelled archive, or resume training", "train"),
    "embed": Command("turn the images of a folder into vectors", "embed"),
    "evaluate": Command("score embeddings against labels, beside chance and ceiling", "evaluate"),
    "compare": Command("compare two models query by query", "compare"),
    "report": Command("turn the records of a results folder into tables, figures and a page", "report"),
    "benchmark": Command("compare losses x datasets x seeds, or resume a comparison", "benchmark"),
    "ablate": Command("perform ablation studies by name, or resume them", "ablate"),
    "index": Command("embed an archive into a store, or update the store", "index"),
    "search": Command("find images in a store", "search"),
    "serve": Command("answer searches over HTTP, with a page for browsers", "serve"),
    "info": Command("describe a model or a store", "info"),
    "export": Command("write a model as ONNX", "export"),
}


def _choose(name: str, summary: str, commands: dict[str, Command], arguments: Sequence[str]) -> int:
    """Run the command named by the first argument, or print help; return the exit code."""
    parser = Parser(
        prog=name,
        description=summary,
        epilog="commands:\n" + "\n".join(f"  {each:12}{listed.summary}" for each, listed in commands.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    if not arguments or arguments[0].startswith("-"):
        parser.parse(arguments)
        parser.print_help()
        return 0
    command = commands.get(arguments[0])
    if command is None:
        parser.error(f"unknown command '{arguments[0]}'. {did_you_mean(arguments[0], commands)}")
    name, summary = f"{name} {arguments[0]}", _sentence(command.summary)
    if command.below is not None:
        return _choose(name, summary, command.below, arguments[1:])
    below = Parser(prog=name, description=summary, allow_abbrev=False)
    return import_module(f"marcir.cli.{command.module}").run(below, arguments[1:]) or 0


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 on success, 2 after a user error, 130 after an interrupt."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    about = "Search remote-sensing image archives by content, learned from multi-label data."
    try:
        return _choose("marcir", about, COMMANDS, arguments)
    except MarcirError as error:
        print(f"marcir: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        advice = ""
        if error.filename is not None and in_cache(error.filename):
            advice = " Set MARCIR_CACHE to a folder that can be written."
        print(f"marcir: {error.filename or 'a file'}: {error.strerror or error}.{advice}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("marcir: stopped.", file=sys.stderr)
        return 130
