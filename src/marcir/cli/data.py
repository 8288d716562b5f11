"""`marcir data`: inspect, split, show, scenes and windows."""

from collections.abc import Callable, Sequence

from marcir.cli.parser import ARCHIVE, CUTTING, Parser, choose, print_skipped

COMMANDS = {
    "inspect": "count labels, label sets and broken images",
    "split": "draw training, validation and test parts",
    "show": "draw images beside their augmented versions",
    "scenes": "generate an archive of aerial-like scenes",
    "windows": "cut georeferenced scenes into windows, with labels from a map",
}


def run(parser: Parser, arguments: Sequence[str]) -> int | None:
    """Run the command of the group that the first argument names."""
    chosen = choose(parser, COMMANDS, arguments)
    if chosen is None:
        return None
    name, parser = chosen
    commands: dict[str, Callable[[Parser, Sequence[str]], int | None]] = {
        "inspect": _inspect,
        "split": _split,
        "show": _show,
        "scenes": _scenes,
        "windows": _windows,
    }
    return commands[name](parser, arguments[1:])


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
    parser.add_argument(
        "--method", help="random, stratified or blocks (default: blocks for windows, else random)"
    )
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


def _windows(parser: Parser, arguments: Sequence[str]) -> int:
    parser.add_shared("--scenes")
    parser.add_argument(
        "--map",
        required=True,
        metavar="FILE",
        help="classes: a GeoTIFF of numbers, or polygons (.geojson, .parquet)",
    )
    parser.add_argument("--legend", metavar="CSV", help="value,name of the classes (default: the values)")
    parser.add_argument("--field", metavar="NAME", help="the field of the polygons that has their class")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument(
        "--min-share",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="smallest share of a window that makes a class one of its labels (default 0.01)",
    )
    parser.add_argument(
        "--unmapped",
        default="unknown",
        choices=["unknown", "absent"],
        help="what classes are where the map has no data (default unknown)",
    )
    parser.add_argument(
        "--split-blocks",
        type=float,
        default=5000,
        metavar="METRES",
        help="side of the blocks of space that training, validation and test get as a whole (default 5000); "
        "0: no blocks, and a random split is allowed",
    )
    parser.add_shared(*CUTTING, "--remote-assets")
    options = vars(parser.parse(arguments))
    from marcir.geo.labelling import label_windows
    from marcir.geo.scene import parse_bands

    if options["bands"] is not None:
        options["bands"] = parse_bands(options["bands"])
    made = label_windows(**options)
    print_skipped(made.broken)
    print(made)
    return 1 if made.broken else 0
