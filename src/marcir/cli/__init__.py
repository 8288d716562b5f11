"""The command line: `main` selects the command and reports errors; every command has a module.

`marcir --help` imports neither torch nor numpy.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from marcir.cli.parser import Parser, choose
from marcir.cli.termination import Terminated
from marcir.errors import MarcirError
from marcir.files import in_cache

# Each is a module of this package with a function `run`.
COMMANDS = {
    "demo": "generate an archive, train, compare, report, index and search it",
    "data": "look at an archive, split it, generate one",
    "train": "train an encoder on a labelled archive, or resume training",
    "embed": "turn the images of a folder into vectors",
    "evaluate": "score embeddings against labels, beside chance and ceiling",
    "compare": "compare two models query by query",
    "report": "turn the records of a results folder into tables, figures and a page",
    "benchmark": "compare losses x datasets x seeds, or resume a comparison",
    "ablate": "perform ablation studies by name, or resume them",
    "index": "embed an archive into a store, or update the store",
    "search": "find images in a store",
    "serve": "answer searches over HTTP, with a page for browsers",
    "collections": "list, show and export the collections of a store",
    "labels": "write the labels of a store and of its page as a label table",
    "info": "describe a model or a store",
    "export": "write a model as ONNX, or an archive as GeoParquet or STAC",
}
_ABOUT = "Search remote-sensing image archives by content, learned from multi-label data."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 on success, 2 after a user error, 130 after Ctrl-C, 143 after SIGTERM."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        chosen = choose(Parser(prog="marcir", description=_ABOUT), COMMANDS, arguments)
        if chosen is None:
            return 0
        name, parser = chosen
        return import_module(f"marcir.cli.{name}").run(parser, arguments[1:]) or 0
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
    except KeyboardInterrupt as error:
        print("marcir: stopped.", file=sys.stderr)
        return 143 if isinstance(error, Terminated) else 130
