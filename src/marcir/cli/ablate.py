"""`marcir ablate`."""

from collections.abc import Sequence

from marcir.cli.parser import PLAN, Parser, runs_place


def run(parser: Parser, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and print its result."""
    parser.add_shared(*PLAN)
    parser.add_argument(
        "--study", metavar="NAME", action="append", default=[], help="a study (repeat); all by default"
    )
    parser.add_argument("--list", action="store_true", help="list the studies, and nothing else")
    if "--list" in arguments:
        from marcir.experiments.studies import STUDIES

        print("\n".join(f"{name:18}{study.question}" for name, study in STUDIES.items()))
        return 0
    options = parser.parse(arguments)
    with runs_place(parser, options) as elsewhere:
        from marcir.experiments.benchmark import ablate

        done = ablate(options.config, options.study, options.results, options.jobs, elsewhere)
    print(done)
    return 1 if done.failed else 0
