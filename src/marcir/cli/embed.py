"""`marcir embed`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser, embedding_place, print_skipped


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--model", metavar="RUN", help="a folder of marcir train (default: ImageNet features)"
    )
    parser.add_shared("--images")
    parser.add_argument("--out", required=True, metavar="NPZ", help="where ids and vectors go")
    parser.add_shared("--on-broken", "--device", "--batch-size", "--cluster", "--cpus-per-actor")
    options = parser.parse(arguments)
    with embedding_place(parser, options) as cluster:
        from marcir.model.embed import embed_folder

        embed = (lambda *files: cluster().vectors(*files)) if cluster else None
        made, broken = embed_folder(**vars(options), embed=embed)
    print_skipped(broken)
    print(f"{options.out}: {len(made.ids):,} vectors of {made.vectors.shape[1]} numbers")
