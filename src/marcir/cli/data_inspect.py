"""`marcir data inspect`."""

from collections.abc import Sequence

from marcir.cli.options import add_archive
from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    add_archive(parser)
    parser.add_argument("--heat-map", metavar="PNG", help="draw which labels occur together")
    parser.add_argument(
        "--on-broken", default="list", choices=["list", "skip"], help="skip: count without broken images"
    )
    options = parser.parse(arguments)
    from marcir.experiments.inspect import inspect

    inspect(**vars(options), report=print)
