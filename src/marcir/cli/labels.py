"""`marcir labels`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser
from marcir.files import atomic_write, refuse_address


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_shared("--store", "--annotations")
    parser.add_argument("--out", required=True, metavar="CSV", help="where the label table goes")
    parser.add_argument(
        "--source",
        default="merged",
        choices=["merged", "page", "table"],
        help="labels of table and page, where the page wins (default), or of one of them",
    )
    options = parser.parse(arguments)
    if options.source == "table" and options.annotations is not None:
        parser.error("--source table is without annotations: leave --annotations out")
    refuse_address("--out", options.out)
    from marcir.annotations.annotations import Annotations, open_annotations
    from marcir.annotations.label_export import export_labels
    from marcir.search.lance import LanceStore

    store = LanceStore(options.store)
    if options.source == "table":
        annotations = Annotations(None)
    else:
        annotations = open_annotations(options.store, options.annotations)
    found = export_labels(store, annotations, options.source)
    with atomic_write(Path(options.out)) as temporary:
        temporary.write_text(found.text, "utf-8")
    first, *notes = str(found).splitlines()
    print(f"{options.out}: {first}")
    for note in notes:
        print(note, file=sys.stderr)
