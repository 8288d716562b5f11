"""`marcir data show`."""

from collections.abc import Sequence

from marcir.cli.options import add_archive, add_on_broken, print_skipped
from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    add_archive(parser)
    parser.add_argument(
        "--out", default="samples.png", metavar="PNG", help="the picture (default samples.png)"
    )
    parser.add_argument("--images", type=int, default=6, help="images to show (default 6)")
    parser.add_argument("--views", type=int, default=5, help="augmented versions of each (default 5)")
    parser.add_argument("--size", type=int, default=128, help="side of the augmented images (default 128)")
    parser.add_argument("--seed", type=int, default=0, help="fixes which images and how (default 0)")
    add_on_broken(parser)
    options = parser.parse(arguments)
    from marcir.experiments.inspect import show

    broken = show(**vars(options))
    print_skipped(broken)
    print(options.out)
