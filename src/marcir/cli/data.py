"""`marcir data`: inspect, split, show and scenes."""

from collections.abc import Sequence

from marcir.cli.parser import ARCHIVE, Parser, choose, print_skipped

COMMANDS = {
    "inspect": "count labels, label sets and broken images",
    "split": "draw training, validation and test parts",
    "show": "draw images beside their augmented versions",
    "scenes": "generate an archive of aerial-like scenes",
}


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Run the command of the group that the first argument names."""
    chosen = choose(parser, COMMANDS, arguments)
    if chosen is not None:
        name, parser = chosen
        {"inspect": _inspect, "split": _split, "show": _show, "scenes": _scenes}[name](parser, arguments[1:])


def _inspect(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_shared(*ARCHIVE)
    parser.add_argument("--heat-map", metavar="PNG", help="draw which labels occur together")
    parser.add_argument(
        "--on-broken", default="list", choices=["list", "skip"], help="skip: count without broken images"
    )
    options = parser.parse(arguments)
    from marcir.experiments.inspect import inspect

    inspect(**vars(options), report=print)


def _split(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_shared(*ARCHIVE)
    parser.add_argument("--out", required=True, metavar="JSON", help="where the split goes")
    parser.add_shared("--seed", help="fixes the draw (default 0)")
    parser.add_argument("--method", default="random", help="random (default) or stratified")
    parser.add_shared("--on-broken")
    options = parser.parse(arguments)
    from marcir.experiments.inspect import split

    drawn, broken = split(**vars(options))
    print_skipped(broken)
    print(f"{options.out}: {drawn}")


def _show(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_shared(*ARCHIVE)
    parser.add_argument(
        "--out", default="samples.png", metavar="PNG", help="the picture (default samples.png)"
    )
    parser.add_argument("--images", type=int, default=6, help="images to show (default 6)")
    parser.add_argument("--views", type=int, default=5, help="augmented versions of each (default 5)")
    parser.add_argument("--size", type=int, default=128, help="side of the augmented images (default 128)")
    parser.add_shared("--seed", help="fixes which images and how (default 0)")
    parser.add_shared("--on-broken")
    options = parser.parse(arguments)
    from marcir.experiments.inspect import show

    print_skipped(show(**vars(options)))
    print(options.out)


def _scenes(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--images", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default 64)")
    parser.add_shared("--seed", help="fixes every pixel (default 0)")
    options = parser.parse(arguments)
    from marcir.scenes.write import write_scenes

    write_scenes(**vars(options))
    print(f"{options.out}: {options.images} scenes of {options.size} x {options.size} pixels, labels.csv")
