"""`marcir compare`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument("first", metavar="A.json", help="what marcir evaluate --json wrote")
    parser.add_argument("second", metavar="B.json", help="the same of the other model")
    parser.add_argument("--json", metavar="OUT", help="write the comparison")
    parser.add_shared("--seed", help="of the resampling (default 0)")
    options = parser.parse(arguments)
    from marcir.experiments.compare import compare

    done = compare(options.first, options.second, options.seed)
    if options.json is not None:
        done.save_json(options.json)
    print(done)
