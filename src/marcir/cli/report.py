"""`marcir report`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_shared("--results", help="a folder of marcir benchmark")
    parser.add_argument("--out", metavar="DIR", help="where the report goes (default: DIR/report)")
    options = parser.parse(arguments)
    from marcir.experiments.report.assemble import report

    print(report(options.results, options.out))
