"""`marcir demo`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--out", default="marcir-demo", metavar="DIR", help="where it goes (default marcir-demo)"
    )
    parser.add_argument("--images", type=int, default=1000, help="scenes of the archive (default 1000)")
    parser.add_argument("--epochs", type=int, default=20, help="of training, for each loss (default 20)")
    parser.add_shared("--seed", help="fixes everything (default 0)")
    parser.add_argument("--serve", action="store_true", help="then start the page")
    options = parser.parse(arguments)
    from marcir.experiments.demo import demo

    made = demo(options.out, options.images, options.epochs, options.seed)
    print(made)
    if options.serve:
        from marcir.serve.run import serve
        from marcir.serve.settings import Settings

        serve(Settings(str(made.store), made.images))
