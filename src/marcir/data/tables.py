"""Label tables: CSV and tab-separated files, read with the line in every error."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marcir.errors import DataError, did_you_mean


@dataclass(frozen=True)
class LabelRow:
    """One line of a label table: which image, which labels, and where it stands."""

    image: str
    labels: tuple[str, ...]
    line: int


def read_label_table(path: str | Path, delimiter: str = ",") -> tuple[list[LabelRow], tuple[str, ...]]:
    """Read a label table in either form.

    A 0/1 matrix has one column a label (`path,building,road`); a list has the column `labels`, with `;`
    between names (`path,labels`). A byte-order mark, CRLF and blank lines are accepted.

    Returns:
        The rows, and the label names: the header's for a matrix, sorted for a list.

    Raises:
        DataError: Names the file and the line.
    """
    path = Path(path)
    lines = csv.reader(io.StringIO(_read_text(path), newline=""), delimiter=delimiter)
    try:
        table = [(lines.line_num, cells) for cells in lines if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise DataError(f"{path} line {lines.line_num}: {error}.") from error
    if not table:
        raise DataError(f"{path}: the file is empty. It needs a header and one line an image.")
    (_, header), body = table[0], table[1:]
    header = [cell.strip() for cell in header]
    _check_header(path, header, delimiter)
    is_list = [name.lower() for name in header[1:]] == ["labels"]
    rows = []
    for line, cells in body:
        if len(cells) != len(header):
            raise DataError(
                f"{path} line {line}: expected {len(header)} columns as in the header, found {len(cells)}."
            )
        labels = _list_cell(cells[1]) if is_list else _matrix_cells(path, line, header, cells)
        rows.append(LabelRow(cells[0].strip(), labels, line))
    _check_images(path, rows)
    names = sorted({label for row in rows for label in row.labels}) if is_list else header[1:]
    return rows, tuple(names)


def canonical_names(path: str | Path, names: Sequence[str], spellings: dict[str, str]) -> dict[str, str]:
    """From a table's label names to one canonical name each.

    Args:
        path: The table, for errors.
        names: Label names as they stand in the table.
        spellings: From every accepted spelling, in lower case, to the canonical name.

    >>> canonical_names("t.csv", ["Bare-Soil"], {"bare-soil": "bare soil", "bare soil": "bare soil"})
    {'Bare-Soil': 'bare soil'}
    """
    known = {}
    for name in names:
        canonical = spellings.get(name.lower().strip())
        if canonical is None:
            raise DataError(f"{path} line 1: unknown label '{name}'. {did_you_mean(name, spellings)}")
        known[name] = canonical
    return known


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such label table.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} line {line}: not UTF-8. Save the table as UTF-8.") from None


def _check_header(path: Path, header: list[str], delimiter: str) -> None:
    if len(header) < 2:
        other = next((name for sign, name in _SIGNS.items() if sign != delimiter and sign in header[0]), None)
        found = f", separated by {other}?" if other else "."
        raise DataError(
            f"{path} line 1: found one column{found} Columns are separated by {_SIGNS[delimiter]}: "
            "an image and its labels."
        )
    for position, name in enumerate(header[1:], 2):
        if not name:
            raise DataError(f"{path} line 1: column {position} has no label name.")
    double = next((name for name in header[1:] if header[1:].count(name) > 1), None)
    if double is not None:
        raise DataError(f"{path} line 1: the label '{double}' stands twice.")


_SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def _list_cell(cell: str) -> tuple[str, ...]:
    names = [name.strip() for name in cell.split(";")]
    return tuple(dict.fromkeys(name for name in names if name))


def _matrix_cells(path: Path, line: int, header: list[str], cells: list[str]) -> tuple[str, ...]:
    labels = []
    for name, cell in zip(header[1:], cells[1:], strict=True):
        if cell.strip() not in ("0", "1"):
            raise DataError(f"{path} line {line}: label '{name}' is {cell.strip()!r}. Use 0 or 1.")
        if cell.strip() == "1":
            labels.append(name)
    return tuple(labels)


def _check_images(path: Path, rows: list[LabelRow]) -> None:
    first: dict[str, int] = {}
    for row in rows:
        if not row.image:
            raise DataError(f"{path} line {row.line}: the image's name is missing.")
        if row.image in first:
            raise DataError(
                f"{path} line {row.line}: '{row.image}' stands here and in line {first[row.image]}. Keep one."
            )
        first[row.image] = row.line
