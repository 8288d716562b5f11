"""`marcir data scenes`."""

from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--images", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="fixes every pixel (default 0)")
    options = parser.parse(arguments)
    from marcir.scenes.write import write_scenes

    write_scenes(Path(options.out), options.images, options.size, options.seed)
    print(f"{options.out}: {options.images} scenes of {options.size} x {options.size} pixels, labels.csv")
