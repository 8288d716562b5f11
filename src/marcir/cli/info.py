"""`marcir info`."""

from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "what", metavar="RUN|STORE", help="a folder of marcir train, or a store of marcir index"
    )
    options = parser.parse(arguments)
    if "://" in options.what or any(Path(options.what).glob("*.lance")):
        from marcir.search.store_info import store_info

        print(store_info(options.what))
    else:
        from marcir.training.model_info import model_info

        print(model_info(options.what))
