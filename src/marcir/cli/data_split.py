"""`marcir data split`."""

from collections.abc import Sequence

from marcir.cli.options import add_archive, add_on_broken, print_skipped
from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    add_archive(parser)
    parser.add_argument("--out", required=True, metavar="JSON", help="where the split goes")
    parser.add_argument("--seed", type=int, default=0, help="fixes the draw (default 0)")
    parser.add_argument("--method", default="random", help="random (default) or stratified")
    add_on_broken(parser)
    options = parser.parse(arguments)
    from marcir.experiments.inspect import split

    drawn, broken = split(**vars(options))
    print_skipped(broken)
    print(f"{options.out}: {drawn}")
