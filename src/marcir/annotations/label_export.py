"""Write the labels of a store as a label table."""

import csv
import io
from dataclasses import dataclass
from typing import Literal

from marcir.annotations.annotations import Annotations
from marcir.annotations.merge import merged_table
from marcir.annotations.names import shown
from marcir.data.label_csv import SIGNS, LabelTable, can_name
from marcir.errors import DataError
from marcir.search.store import Snapshot, Store

Source = Literal["merged", "page", "table"]


@dataclass(frozen=True)
class ExportedLabels:
    """A label table as text, and what is not in it.

    Attributes:
        text: The table: `path,labels`, where labels that are not listed are unknown.
        images: Number of its rows.
        labels: Number of its labels.
        unlabelled: Images of the store of which no label is known; they are not listed.
        unwritable: Ids that no label table can hold, and that have known labels.
        gone: Images that the page labels and the store does not hold any more; their labels are kept.
    """

    text: str
    images: int
    labels: int
    unlabelled: int
    unwritable: tuple[str, ...]
    gone: int

    def __str__(self) -> str:
        lines = [f"{self.images:,} images with known labels, {self.labels:,} labels"]
        if self.unlabelled:
            lines.append(f"{self.unlabelled:,} images without any are not listed: their labels are unknown")
        if self.unwritable:
            lines.append(
                f"WARNING: left out {len(self.unwritable):,} whose names no label table can hold, such as "
                f"{shown(self.unwritable[0])}: rename them"
            )
        if self.gone:
            lines.append(
                f"{self.gone:,} that the page labels are not in the store now; their labels are kept"
            )
        return "\n".join(lines)


def export_labels(store: Store, annotations: Annotations, source: Source = "merged") -> ExportedLabels:
    """The labels of a store, as a table for `marcir train` and `marcir index --labels`.

    Args:
        store: The store, with the labels of its table.
        annotations: What the page states.
        source: Labels of the table and of the page merged, or those of one of them.

    Raises:
        DataError: For a label that a list of labels cannot hold.
    """
    page = {} if source == "table" else annotations.labels.states()

    def read(snapshot: Snapshot) -> tuple[LabelTable, int, int]:
        table = merged_table(snapshot, page, with_table=source != "page")
        return table, snapshot.count(), len(snapshot.missing(list(page)))

    table, images, gone = store.read(read)
    kept = [row for row in table.rows if can_name(row.image)]
    unwritable = tuple(row.image for row in table.rows if not can_name(row.image))
    text = table_text(table._replace(rows=kept))
    return ExportedLabels(text, len(kept), len(table.names), images - len(table.rows), unwritable, gone)


def table_text(table: LabelTable) -> str:
    r"""A label table as a list in which what is not listed is unknown.

    >>> from marcir.data.label_csv import LabelRow
    >>> row = LabelRow("a.png", ("ship",), 3, unknown=("barn",))
    >>> print(table_text(LabelTable([row], ("barn", "dock", "ship"), "unknown", True)), end="")
    # unlisted: unknown
    path,labels
    a.png,!dock;ship

    Raises:
        DataError: For a label that a list cannot hold.
    """
    for name in table.names:
        if ";" in name or name.strip() != name or {name[0], name[-1]} & SIGNS.keys():
            raise DataError(
                f"label {shown(name)}: a list of labels cannot hold this name. Rename it in the table."
            )
    out = io.StringIO()
    out.write("# unlisted: unknown\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", "labels"])
    for row in table.rows:
        present, unknown = set(row.labels), set(row.unknown)
        known = (name if name in present else f"!{name}" for name in table.names if name not in unknown)
        writer.writerow([row.image, ";".join(known)])
    return out.getvalue()
