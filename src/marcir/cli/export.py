"""`marcir export`."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser

_TABLE = "images.parquet"


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument("--model", metavar="RUN", help="a folder of marcir train, for --onnx")
    parser.add_shared("--store", required=False, help="a store of marcir index, for --geoparquet and --stac")
    parser.add_argument("--onnx", metavar="OUT", help="write the model as ONNX")
    parser.add_argument(
        "--geoparquet", metavar="OUT", help="write images, places, labels and embeddings as GeoParquet"
    )
    parser.add_argument(
        "--stac", metavar="DIR", help="write a static STAC collection, into a new or empty folder"
    )
    options = parser.parse(arguments)
    _check(parser, options)
    if options.onnx is not None:
        from marcir.model.export import export_onnx

        worst = export_onnx(options.model, options.onnx)
        print(f"{options.onnx}: agrees with the model to {worst:.1e} for batches of 1, 2 and 5")
    elif options.geoparquet is not None:
        from marcir.search.geoparquet import write_geoparquet
        from marcir.search.lance import LanceStore

        count = write_geoparquet(LanceStore(options.store), options.geoparquet)
        print(f"{options.geoparquet}: {count:,} images")
    else:
        _write_stac(options.store, options.stac)


def _check(parser: Parser, options: Namespace) -> None:
    kinds = {"--onnx": options.onnx, "--geoparquet": options.geoparquet, "--stac": options.stac}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        parser.error("needs exactly one of --onnx, --geoparquet and --stac")
    source, other = ("--model", "--store") if given == ["--onnx"] else ("--store", "--model")
    values = {"--model": options.model, "--store": options.store}
    if values[source] is None:
        parser.error(f"{given[0]} needs {source}")
    if values[other] is not None:
        parser.error(f"{other} does not go with {given[0]}")


def _write_stac(uri: str, out: str) -> None:
    from marcir.files import atomic_folder, refuse_address
    from marcir.geo.stac_export import file_finder, write_collection
    from marcir.search.arrow import scan_descriptions
    from marcir.search.geoparquet import write_geoparquet
    from marcir.search.lance import LanceStore

    refuse_address("--stac", out)
    store = LanceStore(uri)
    with atomic_folder(Path(out), "--stac") as folder:
        write_geoparquet(store, folder / _TABLE)
        bands = None if store.about.windows is None else store.about.windows.bands
        name, href_of = Path(uri).name.removesuffix(".store"), file_finder(store.about.root, bands)
        done = store.read_table(
            lambda rows: write_collection(folder, scan_descriptions(rows), name, href_of, [_TABLE])
        )
    print(f"{out}: {done}")
