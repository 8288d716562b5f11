"""`marcir index`."""

from collections.abc import Sequence

from marcir.cli.options import add_batch_size, add_device
from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="a folder of marcir train (default: the store's own; for a new store, ImageNet features)",
    )
    parser.add_argument("--images", required=True, metavar="DIR", help="images anywhere below this folder")
    parser.add_argument("--store", required=True, metavar="URI", help="a folder, or s3://bucket/path")
    parser.add_argument("--labels", metavar="CSV", help="label table; paths are relative to --images")
    parser.add_argument(
        "--metadata", metavar="CSV", help="path, west, south, east, north, date, anything else"
    )
    parser.add_argument("--prune", action="store_true", help="remove images whose files are gone")
    parser.add_argument(
        "--root-moved", action="store_true", help="the images of the store lie in this folder now"
    )
    parser.add_argument(
        "--check-recall", action="store_true", help="build an approximate index and measure its recall"
    )
    add_device(parser)
    add_batch_size(parser)
    options = parser.parse(arguments)
    from marcir.search.index import index

    done = index(
        options.images,
        options.store,
        model=options.model,
        labels=options.labels,
        metadata=options.metadata,
        prune=options.prune,
        root_moved=options.root_moved,
        device=options.device,
        batch_size=options.batch_size,
    )
    print(done)
    if options.check_recall:
        from marcir.search.store_info import check_recall

        print(check_recall(options.store))
    return 1 if done.broken else 0
