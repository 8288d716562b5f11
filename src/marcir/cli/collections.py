"""`marcir collections`."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marcir.cli.parser import Parser
from marcir.files import atomic_write, refuse_address

if TYPE_CHECKING:
    from marcir.annotations.annotations import Annotations
    from marcir.annotations.collection_export import Format
    from marcir.search.store import Store

_FORMS: tuple["Format", ...] = ("csv", "geojson", "paths")


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=["list", "show", "export"],
        help="list all (default), show the images of one, or export it",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="which collection")
    parser.add_shared("--store", "--annotations")
    parser.add_argument("--csv", metavar="OUT", help="export: a table, as that of a search")
    parser.add_argument("--geojson", metavar="OUT", help="export: features with the places of the images")
    parser.add_argument("--paths", metavar="OUT", help="export: the files of the images, one path per line")
    options = parser.parse(arguments)
    if (options.action == "list") != (options.name is None):
        parser.error("name a collection after show or export, and none after list")
    wanted = [form for form in _FORMS if getattr(options, form) is not None]
    if bool(wanted) != (options.action == "export"):
        parser.error("export needs at least one of --csv, --geojson and --paths, which go with it alone")
    from marcir.annotations.annotations import open_annotations
    from marcir.search.lance import LanceStore

    store = LanceStore(options.store)  # a mistyped one would look like one without collections
    annotations = open_annotations(options.store, options.annotations)
    if options.action == "list":
        for each in annotations.collections.all():
            print(f"{each.images:8,}  {each.changed[:10]}  {each.name}")
    elif options.action == "show":
        for image in annotations.collections.images(options.name):
            print(image)
    else:
        _export(store, annotations, options, wanted)


def _export(
    store: "Store", annotations: "Annotations", options: Namespace, wanted: Sequence["Format"]
) -> None:
    from marcir.annotations.annotated_store import AnnotatedStore
    from marcir.annotations.collection_export import collection_files, collection_hits, hits_file, paths_text
    from marcir.data.object_storage import image_path

    for form in wanted:
        refuse_address(f"--{form}", getattr(options, form))
    merged, name = AnnotatedStore(store, annotations), options.name
    hits, root = collection_hits(merged, annotations, name), image_path(store.about.root)
    for form in wanted:
        what = f"{_counted(len(hits), 'image')} of '{name}'"
        if form == "paths":
            files = collection_files(merged, annotations, name)
            content = paths_text([str(root / file) for file in files]).encode()
            what = f"{_counted(len(files), 'file')} of {what}"
        else:
            content = hits_file(hits, form)
        out = getattr(options, form)
        with atomic_write(Path(out)) as temporary:
            temporary.write_bytes(content)
        print(f"{out}: {what}")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
