"""`marcir labels`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser
from marcir.errors import ConfigError
from marcir.files import atomic_write, reason, refuse_address

# How the tables begin that this command writes.
_FIRST_LINE = b"# unlisted: unknown"


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
    _refuse_other_table(Path(options.out))
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


def _refuse_other_table(out: Path) -> None:
    """Refuse to replace a file that this command did not write: it may be the archive's own table."""
    if not out.is_file():
        return
    try:
        with out.open("rb") as file:
            first = file.readline(100)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be read ({reason(error)}). Choose another name.") from error
    if first and first.strip() != _FIRST_LINE:
        raise ConfigError(
            f"--out {out}: there is a file that marcir labels did not write. Choose another name, or delete "
            "it."
        )
