"""Datasets with a label table."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from marcir.data.archive import Archive, images_by_stem
from marcir.data.images import SUFFIXES
from marcir.data.label_csv import Unlisted, read_label_table
from marcir.data.readers.base import DatasetReader
from marcir.errors import DataError


class TableReader(DatasetReader):
    """A dataset with a table of image names and labels.

    Attributes:
        TABLE: Path of the table below root.
        DELIMITER: The column delimiter.
    """

    TABLE: ClassVar[str]
    DELIMITER: ClassVar[str] = ","

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Read the table, and find the images by their names."""
        file = labels or self.need(root / self.TABLE, root)
        images = images_by_stem(self.need(root / self.IMAGE_FOLDER, root), SUFFIXES)
        table = read_label_table(file, self.DELIMITER, spellings(self.LABELS), unlisted)
        for row in table.rows:
            if row.image not in images:
                raise DataError(
                    f"{file} line {row.line}: there is no image named '{row.image}' below {root}. "
                    "Add the file, or remove the line."
                )
        return self.archive_of_table(root, [images[row.image] for row in table.rows], table)


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
