"""Your own archive: any folder of images and one CSV."""

from pathlib import Path, PurePosixPath

from marcir.data.archive import Archive
from marcir.data.dataset import DatasetReader
from marcir.data.tables import LabelRow, read_label_table
from marcir.errors import DataError
from marcir.labels import LabelVocabulary


class Manifest(DatasetReader):
    """A folder and a table of paths below it, as a 0/1 matrix or with a column `labels`."""

    NAME = "manifest"
    LAYOUT = (
        "images anywhere below the folder, and labels.csv with the columns path,labels or path,label1,..."
    )

    def read(self, root: Path, labels: Path | None = None) -> Archive:
        """Read the table; every path must name a file below root."""
        table = labels or self.need(root / "labels.csv", root)
        rows, names, paths = read_manifest(root, table)
        vocabulary = LabelVocabulary(names)
        ids = tuple(row.image for row in rows)
        encoded = vocabulary.encode(row.labels for row in rows)
        return Archive(self.NAME, root, ids, tuple(paths), encoded, vocabulary)


def read_manifest(root: Path, table: Path) -> tuple[list[LabelRow], tuple[str, ...], list[Path]]:
    """The rows of a table of paths, its label names, and the files below root."""
    rows, names = read_label_table(table)
    return rows, names, [_below(root, row, table) for row in rows]


def _below(root: Path, row: LabelRow, table: Path) -> Path:
    """The file of a row; a path that leaves the archive is refused."""
    parts = PurePosixPath(row.image)
    if parts.is_absolute() or ".." in parts.parts:
        raise DataError(
            f"{table} line {row.line}: '{row.image}' leaves the archive. Give paths below {root}."
        )
    path = root / parts
    if not path.is_file():
        raise DataError(
            f"{table} line {row.line}: '{row.image}' is not in root={root}. Add the file, remove the "
            "line, or set --root to the folder that the paths start from."
        )
    return path
