"""`marcir benchmark`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and print its result."""
    add_plan(parser)
    options = parser.parse(arguments)
    from marcir.experiments.benchmark import benchmark

    done = benchmark(options.config, options.results, options.jobs)
    print(done)
    return 1 if done.failed else 0


def add_plan(parser: Parser) -> None:
    """Add the options that benchmark and ablate share."""
    parser.add_argument("--config", required=True, metavar="YAML", help="the plan, see docs/benchmark.md")
    parser.add_argument("--results", required=True, metavar="DIR", help="one record per run; done runs stay")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
