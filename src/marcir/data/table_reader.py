"""Datasets whose labels stand in a table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from marcir.data.archive import Archive, images_below
from marcir.data.dataset import DatasetReader
from marcir.data.images import SUFFIXES
from marcir.data.tables import LabelRow, canonical_names, read_label_table
from marcir.errors import DataError


class TableReader(DatasetReader):
    """A dataset with a 0/1 table of image names and labels.

    Attributes:
        TABLE: The table's usual place below root.
        FOLDER: The folder below root that holds the images, at any depth.
        DELIMITER: What separates the table's columns.
    """

    TABLE: ClassVar[str]
    FOLDER: ClassVar[str]
    DELIMITER: ClassVar[str] = ","

    def read(self, root: Path, labels: Path | None = None) -> Archive:
        """Read the table; an image belongs to the row with its name."""
        table = labels or self.need(root / self.TABLE, root)
        images = images_below(self.need(root / self.FOLDER, root), SUFFIXES)
        rows, names = read_label_table(table, self.DELIMITER)
        known = canonical_names(table, names, spellings(self.LABELS))
        paths = paths_of_rows(table, rows, images, root)
        canonical = [[known[name] for name in row.labels] for row in rows]
        return self.archive(root, [row.image for row in rows], paths, canonical)


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """Accepted spellings of label names: with hyphens or underscores, in the plural, in any case.

    >>> spellings(["bare soil"])["bare-soil"], spellings(["car"])["cars"]
    ('bare soil', 'car')
    """
    accepted = {}
    for label in labels:
        for form in (label, label + "s"):
            for sign in (" ", "-", "_", ""):
                accepted[form.replace(" ", sign)] = label
    return accepted


def paths_of_rows(
    table: Path, rows: Sequence[LabelRow], images: Mapping[str, Path], root: Path
) -> list[Path]:
    """The image file of every row of a label table."""
    for row in rows:
        if row.image not in images:
            raise DataError(
                f"{table} line {row.line}: there is no image named '{row.image}' below {root}. "
                "Add the file, or remove the line."
            )
    return [images[row.image] for row in rows]
