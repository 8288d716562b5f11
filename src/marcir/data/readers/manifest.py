"""Your own archive: any folder of images and one CSV."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from marcir.data.archive import Archive
from marcir.data.label_csv import LabelRow, path_below, read_label_table
from marcir.data.readers.base import DatasetReader
from marcir.errors import DataError
from marcir.labels import LabelVocabulary

# Characters of a path shown in an error.
_SHOWN = 100


class Manifest(DatasetReader):
    """A folder and a table of paths below it, as a 0/1 matrix or with a column `labels`."""

    NAME = "manifest"
    LAYOUT = (
        "images anywhere below the folder, and labels.csv with the columns path,labels or path,label1,..."
    )

    def read_folder(self, root: Path, labels: Path | None) -> Archive:
        """Read the table; every path must be a file below root."""
        table = labels or self.need(root / "labels.csv", root)
        rows, names, paths = read_manifest(root, table)
        vocabulary = LabelVocabulary(names)
        ids = tuple(row.image for row in rows)
        encoded = vocabulary.encode(row.labels for row in rows)
        return Archive(self.NAME, root, ids, tuple(paths), encoded, vocabulary)


def read_manifest(
    root: Path, table: Path, spellings: Mapping[str, str] | None = None
) -> tuple[list[LabelRow], tuple[str, ...], list[Path]]:
    """Read the rows of a table of paths, its label names, and the files below root.

    Paths in the rows are normalised (`./a//1.png` is `a/1.png`), and no two rows have the same file.
    """
    rows, names = read_label_table(table, spellings=spellings)
    # Absolute paths below the folder become relative.
    rows = [
        replace(row, image=path_below(root, row.image)) if PurePosixPath(row.image).is_absolute() else row
        for row in rows
    ]
    paths = [_below(root, row, table) for row in rows]
    _check_files(table, rows, paths)
    return [replace(row, image=str(PurePosixPath(row.image))) for row in rows], names, paths


def _below(root: Path, row: LabelRow, table: Path) -> Path:
    """The file of a row; refuses a path outside the archive."""
    where, shown = f"{table} line {row.line}", _shortened(row.image)
    parts = PurePosixPath(row.image)
    if parts.is_absolute() or ".." in parts.parts:
        raise DataError(f"{where}: '{shown}' leaves the archive. Give paths below {root}.")
    path = root / parts
    try:
        if path.is_file():
            return path
        is_folder = path.is_dir()
    except OSError as error:
        raise DataError(f"{where}: '{shown}': {error.strerror}. Correct the path.") from None
    if is_folder:
        raise DataError(f"{where}: '{shown}' is a folder. Give the path of an image.")
    if "\\" in row.image:
        raise DataError(f"{where}: '{shown}' is not in root={root}. Write forward slashes: a/1.png")
    raise DataError(
        f"{where}: '{shown}' is not in root={root}. Add the file, remove the line, or set --root to the "
        "folder that the paths start from."
    )


def _shortened(path: str) -> str:
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."


def _check_files(table: Path, rows: list[LabelRow], paths: list[Path]) -> None:
    """Refuse a file that occurs in two rows, by another spelling or through a link."""
    first: dict[Path, LabelRow] = {}
    for row, path in zip(rows, paths, strict=True):
        other = first.setdefault(path.resolve(), row)
        if other is not row:
            raise DataError(
                f"{table} line {row.line}: '{row.image}' is the same file as '{other.image}' in line "
                f"{other.line}. Keep one."
            )
