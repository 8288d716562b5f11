"""`marcir search`."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.cli.parser import Parser
from marcir.files import atomic_write, refuse_address

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

    where = _filter(options)
    archive = open_store(options.store, device=options.device)
    result = _search(archive, where, options)
    written = list(_write_files(archive, result, options))
    if options.at is not None and not options.json:
        print(f"like {result.query_images[0]}, which shows {options.at}")
    print(json.dumps(result.as_json(), ensure_ascii=False, indent=1) if options.json else result)
    if not result.hits and where.bbox is not None and options.at is not None and not options.json:
        print(f"--bbox {options.bbox} filters the hits, wherever --at is: no other image is in it.")
    for line in written:
        print(line, file=sys.stderr if options.json else sys.stdout)


def _add_options(parser: Parser) -> None:
    parser.add_shared("--store")
    parser.add_argument("--image", metavar="FILE", help="find images like this file")
    parser.add_argument("--id", metavar="ID", help="find images like this one of the archive")
    parser.add_argument("--at", metavar="LON,LAT", help="find images like the one that shows this point")
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
    parser.add_argument(
        "--bbox", metavar="W,S,E,N", help="only images in this box, in degrees; W > E across the date line"
    )
    parser.add_argument("--within", metavar="GEOJSON", help="only images in the polygons of this file")
    parser.add_argument("--from", metavar="DATE", help="only images of this day or later: 2020-01-31")
    parser.add_argument("--to", metavar="DATE", help="only images of this day or earlier")
    parser.add_argument("--k", type=int, default=10, help="number of hits (default 10)")
    parser.add_argument("--min-similarity", type=float, help="minimum cosine with the query, -1 to 1")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sheet", metavar="FILE", help="draw query and first 100 hits (.png, .pdf, .svg)")
    parser.add_argument("--geojson", metavar="FILE", help="write the hits that have a place as GeoJSON")
    parser.add_argument("--geoparquet", metavar="FILE", help="write the hits that have a place as GeoParquet")
    parser.add_shared("--device")


def _check(parser: Parser, options: Namespace) -> None:
    kinds = (options.image, options.id, options.at, options.like, options.by_labels)
    if sum(kind is not None for kind in kinds) != 1:
        parser.error("needs exactly one of --image, --id, --at, --like and --by-labels")
    if options.unlike and not options.like:
        parser.error("--unlike goes with --like")
    if options.none_unknown_ok and not options.none:
        parser.error("--none-unknown-ok goes with --none")
    if options.labels_from and not options.by_labels:
        parser.error("--labels-from goes with --by-labels")
    if options.sheet is not None:
        from marcir.figures.canvas import FORMATS

        if Path(options.sheet).suffix.lower() not in FORMATS:
            parser.error(f"--sheet {options.sheet}: use a name that ends in .png, .pdf or .svg")
    if options.geoparquet is not None:
        from marcir.search.geoparquet import check_parquet_name

        check_parquet_name(options.geoparquet)
    read = (options.image, options.within, *(options.like or ()), *(options.unlike or ()))
    written = {"--sheet": options.sheet, "--geojson": options.geojson, "--geoparquet": options.geoparquet}
    for name, out in written.items():
        refuse_address(name, out)
        if out is not None and any(_is_same_file(out, file) for file in read):
            parser.error(f"{name} {out}: this file belongs to the query. Use another name")


def _filter(options: Namespace) -> "Filter":
    from marcir.search.area import Area, parse_bbox, parse_date
    from marcir.search.records import Filter

    first, last = vars(options)["from"], options.to
    return Filter(
        any=tuple(options.any or ()),
        all=tuple(options.all or ()),
        none=tuple(options.none or ()),
        min_similarity=options.min_similarity,
        none_unknown_ok=options.none_unknown_ok,
        bbox=None if options.bbox is None else parse_bbox(options.bbox),
        within=None if options.within is None else Area.read(options.within),
        date_from=None if first is None else parse_date(first),
        date_to=None if last is None else parse_date(last),
    )


def _search(archive: "SearchableArchive", where: "Filter", options: Namespace) -> "SearchResult":
    if options.image is not None:
        return archive.by_image(Path(options.image), options.k, where)
    if options.id is not None:
        return archive.by_id(options.id, options.k, where)
    if options.at is not None:
        from marcir.search.area import parse_point

        return archive.by_place(*parse_point(options.at), options.k, where)
    if options.like is not None:
        return archive.by_examples(options.like, options.unlike or (), options.k, where)
    from marcir.search.queries import open_store

    source = open_store(options.labels_from) if options.labels_from else None
    return archive.by_labels(options.by_labels, options.k, where, source)


def _write_files(archive: "SearchableArchive", result: "SearchResult", options: Namespace) -> Iterator[str]:
    """Write the files that were asked for, and yield one line about each."""
    if options.sheet is not None:
        from marcir.search.sheet import MAX_EXAMPLES, draw_result

        examples = list(_query_images(result, options))
        draw_result(archive, result, options.sheet, examples)
        left_out = len(examples) > MAX_EXAMPLES
        part = f", with the first {MAX_EXAMPLES} of {len(examples)} examples" if left_out else ""
        yield f"{options.sheet}: the hits as a picture{part}"
    if options.geojson is not None:
        from marcir.search.hits import as_geojson

        yield _write(options.geojson, as_geojson(result.hits))
    if options.geoparquet is not None:
        from marcir.search.geoparquet import as_geoparquet

        yield _write(options.geoparquet, as_geoparquet(result.hits))


def _write(path: str, content: bytes) -> str:
    with atomic_write(Path(path)) as temporary:
        temporary.write_bytes(content)
    return f"{path}: the hits"


def _query_images(result: "SearchResult", options: Namespace) -> Iterator[tuple[str, str | Path]]:
    """Heading and image (an id or a file) of every example of the query."""
    if options.id is not None or options.at is not None:
        yield "QUERY", result.query_images[0]
    if options.image is not None:
        yield "QUERY", Path(options.image)
    for heading, examples in (("LIKE", options.like), ("UNLIKE", options.unlike)):
        for each in examples or ():
            yield heading, Path(each) if Path(each).is_file() else each


def _is_same_file(first: str, second: str | None) -> bool:
    """Whether two paths are the same existing file."""
    return second is not None and Path(second).is_file() and Path(first).resolve() == Path(second).resolve()
