"""Your own archive: any folder of images and one CSV."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from marcir.data.archive import Archive
from marcir.data.label_csv import LabelRow, LabelTable, Unlisted, path_below, read_label_table
from marcir.data.readers.base import DatasetReader
from marcir.errors import DataError

# Characters of a path shown in an error.
_SHOWN = 100


class Manifest(DatasetReader):
    """A folder and a table of paths below it, as a 0/1 matrix or with a column `labels`."""

    NAME = "manifest"
    LAYOUT = (
        "images anywhere below the folder, and labels.csv with the columns path,labels or path,label1,..."
    )

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Read the table; every path must be a file below root."""
        file = labels or self.need(root / "labels.csv", root)
        table, paths = read_manifest(root, file, unlisted=unlisted)
        return self.archive_of_table(root, paths, table)


def read_manifest(
    root: Path,
    file: Path,
    spellings: Mapping[str, str] | None = None,
    unlisted: Unlisted | None = None,
) -> tuple[LabelTable, list[Path]]:
    """Read a table of paths, and find the files of its rows below root.

    Paths in the rows are normalised (`./a//1.png` is `a/1.png`), and no two rows have the same file.
    """
    table = read_label_table(file, spellings=spellings, unlisted=unlisted)
    # Absolute paths below the folder become relative.
    rows = [
        replace(row, image=path_below(root, row.image)) if PurePosixPath(row.image).is_absolute() else row
        for row in table.rows
    ]
    paths = [_below(root, row, file) for row in rows]
    _check_files(file, rows, paths)
    rows = [replace(row, image=str(PurePosixPath(row.image))) for row in rows]
    return table._replace(rows=rows), paths


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
