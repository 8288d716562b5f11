"""`marcir benchmark`."""

from collections.abc import Sequence

from marcir.cli.parser import PLAN, Parser, runs_place


def run(parser: Parser, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and print its result."""
    parser.add_shared(*PLAN)
    options = parser.parse(arguments)
    with runs_place(parser, options) as elsewhere:
        from marcir.experiments.benchmark import benchmark

        done = benchmark(**vars(options), elsewhere=elsewhere)
    print(done)
    return 1 if done.failed else 0
