"""`marcir embed`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser, print_skipped


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--model", metavar="RUN", help="a folder of marcir train (default: ImageNet features)"
    )
    parser.add_shared("--images")
    parser.add_argument("--out", required=True, metavar="NPZ", help="where ids and vectors go")
    parser.add_shared("--on-broken", "--device", "--batch-size")
    options = parser.parse(arguments)
    from marcir.model.embed import embed_folder

    made, broken = embed_folder(**vars(options))
    print_skipped(broken)
    print(f"{options.out}: {len(made.ids):,} vectors of {made.vectors.shape[1]} numbers")
