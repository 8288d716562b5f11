"""`marcir embed`."""

from collections.abc import Sequence

from marcir.cli.options import add_batch_size, add_device, add_on_broken, print_skipped
from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--model", metavar="RUN", help="a folder of marcir train (default: ImageNet features)"
    )
    parser.add_argument("--images", required=True, metavar="DIR", help="images anywhere below this folder")
    parser.add_argument("--out", required=True, metavar="NPZ", help="where ids and vectors go")
    add_on_broken(parser)
    add_device(parser)
    add_batch_size(parser)
    options = parser.parse(arguments)
    from marcir.model.embed import embed_folder

    made, broken = embed_folder(
        options.model,
        options.images,
        options.out,
        options.on_broken,
        options.device,
        options.batch_size,
    )
    print_skipped(broken)
    print(f"{options.out}: {len(made.ids):,} vectors of {made.vectors.shape[1]} numbers")
