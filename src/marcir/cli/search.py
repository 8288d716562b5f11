"""`marcir search`."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.cli.parser import Parser
from marcir.files import refuse_address

if TYPE_CHECKING:
    from marcir.search.queries import SearchableArchive, SearchResult
    from marcir.search.records import Filter


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    _add_options(parser)
    options = parser.parse(arguments)
    _check(parser, options)
    refuse_address("--image", options.image)
    from marcir.search.queries import open_store
    from marcir.search.records import Filter

    any_, all_, none = (tuple(names or ()) for names in (options.any, options.all, options.none))
    where = Filter(any_, all_, none, options.min_similarity, none_unknown_ok=options.none_unknown_ok)
    archive = open_store(options.store, device=options.device)
    result = _search(archive, where, options)
    if options.sheet is not None:
        from marcir.search.sheet import draw_result

        draw_result(archive, result, options.sheet, list(_query_images(options)))
    print(json.dumps(result.as_json(), ensure_ascii=False, indent=1) if options.json else result)
    if options.sheet is not None:
        print(f"{options.sheet}: the hits as a picture", file=sys.stderr if options.json else sys.stdout)


def _add_options(parser: Parser) -> None:
    parser.add_shared("--store")
    parser.add_argument("--image", metavar="FILE", help="find images like this file")
    parser.add_argument("--id", metavar="ID", help="find images like this one of the archive")
    for name, text in (
        ("like", "an example, a file or an id (repeat)"),
        ("unlike", "a counter-example, a file or an id (repeat)"),
        ("by-labels", "find images near the mean of those with this label (repeat)"),
        ("any", "only images with one of these labels (repeat)"),
        ("all", "only images with all of these labels (repeat)"),
        ("none", "only images known to be without these labels (repeat)"),
    ):
        parser.add_argument(
            f"--{name}", metavar="ID" if "like" in name else "LABEL", action="append", help=text
        )
    parser.add_argument(
        "--none-unknown-ok", action="store_true", help="with --none: also where the labels are unknown"
    )
    parser.add_argument(
        "--labels-from", metavar="URI", help="with --by-labels: a labelled store of one model"
    )
    parser.add_argument("--k", type=int, default=10, help="number of hits (default 10)")
    parser.add_argument("--min-similarity", type=float, help="minimum cosine with the query, -1 to 1")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sheet", metavar="FILE", help="draw query and first 100 hits (.png, .pdf, .svg)")
    parser.add_shared("--device")


def _check(parser: Parser, options: Namespace) -> None:
    kinds = (options.image, options.id, options.like, options.by_labels)
    if sum(kind is not None for kind in kinds) != 1:
        parser.error("needs exactly one of --image, --id, --like and --by-labels")
    if options.unlike and not options.like:
        parser.error("--unlike goes with --like")
    if options.none_unknown_ok and not options.none:
        parser.error("--none-unknown-ok goes with --none")
    if options.labels_from and not options.by_labels:
        parser.error("--labels-from goes with --by-labels")
    if options.sheet is None:
        return
    from marcir.figures.canvas import FORMATS

    if Path(options.sheet).suffix.lower() not in FORMATS:
        parser.error(f"--sheet {options.sheet}: use a name that ends in .png, .pdf or .svg")
    files = (options.image, *(options.like or ()), *(options.unlike or ()))
    if any(_is_same_file(options.sheet, file) for file in files):
        parser.error(f"--sheet {options.sheet}: this is an image of the query. Use another name")


def _search(archive: "SearchableArchive", where: "Filter", options: Namespace) -> "SearchResult":
    if options.image is not None:
        return archive.by_image(Path(options.image), options.k, where)
    if options.id is not None:
        return archive.by_id(options.id, options.k, where)
    if options.like is not None:
        return archive.by_examples(options.like, options.unlike or (), options.k, where)
    from marcir.search.queries import open_store

    source = open_store(options.labels_from) if options.labels_from else None
    return archive.by_labels(options.by_labels, options.k, where, source)


def _query_images(options: Namespace) -> Iterator[tuple[str, str | Path]]:
    """Heading and image (an id or a file) of every example of the query."""
    if options.id is not None:
        yield "QUERY", options.id
    if options.image is not None:
        yield "QUERY", Path(options.image)
    for heading, examples in (("LIKE", options.like), ("UNLIKE", options.unlike)):
        for each in examples or ():
            yield heading, Path(each) if Path(each).is_file() else each


def _is_same_file(first: str, second: str | None) -> bool:
    """Whether two paths are the same existing file."""
    return second is not None and Path(second).is_file() and Path(first).resolve() == Path(second).resolve()
