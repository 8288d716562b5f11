"""Read label tables: CSV and tab-separated files; every error names the line."""

import csv
import io
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from marcir.checks import check_choice
from marcir.data.object_storage import ImagePath
from marcir.errors import DataError, did_you_mean

Unlisted = Literal["absent", "unknown"]
State = Literal["present", "absent", "unknown"]
Line = tuple[int, list[str]]
# Before a label name in a list, and in the cells of a matrix.
SIGNS: dict[str, State] = {"?": "unknown", "!": "absent"}
_CELLS: dict[str, State] = {"1": "present", "0": "absent", "?": "unknown", "": "unknown"}
_UNLISTED = re.compile(r"#\s*unlisted\s*:\s*(\w+)", re.IGNORECASE)
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_IMAGE_NAME = re.compile(r"\.(jpe?g|png|webp|tiff?)$", re.IGNORECASE)


@dataclass(frozen=True)
class LabelRow:
    """One row of a label table.

    Attributes:
        image: The image's name or path.
        labels: Names of the labels present.
        line: Line number in the file.
        unknown: Names of the labels that are unknown. All other labels of the table are absent.
    """

    image: str
    labels: tuple[str, ...]
    line: int
    unknown: tuple[str, ...] = ()


class LabelTable(NamedTuple):
    """The content of a label table.

    Attributes:
        rows: One row per image.
        names: The label names: those of the header for a matrix, sorted for a list.
        unlisted: What a label is where a list does not name it. The rows' `unknown` already follow it; it
            matters for images without a row, and for labels that only another table has.
        is_list: Whether the table lists label names, instead of having a column for each label.
    """

    rows: list[LabelRow]
    names: tuple[str, ...]
    unlisted: Unlisted
    is_list: bool


def can_name(image: str) -> bool:
    r"""Whether a label table can hold the name of an image.

    >>> [can_name(image) for image in ("a b.png", " a.png", "a\nb.png", "# unlisted: absent")]
    [True, False, False, False]
    """
    return image == image.strip() and not set(image) & set("\r\n\0") and not _UNLISTED.match(image)


def path_below(root: ImagePath, path: str) -> str:
    """Normalise a path of a table, relative to the image folder.

    >>> path_below(Path("/data"), "./a//1.png"), path_below(Path("/data"), "/data/a/1.png")
    ('a/1.png', 'a/1.png')
    """
    above = f"{root.absolute()}/"
    # First also as it is: to normalise an address would change its `s3://`.
    return posixpath.normpath(path.removeprefix(above)).removeprefix(above)


def read_label_table(
    path: str | Path,
    delimiter: str = ",",
    spellings: Mapping[str, str] | None = None,
    unlisted: Unlisted | None = None,
) -> LabelTable:
    """Read a label table in either of two forms.

    A matrix has one column per label (`path,building,road`) with 1 for present, 0 for absent, and `?` or
    nothing for unknown. A list has the column `labels`, with `;` between names (`path,labels`): `name` is
    present, `?name` unknown, `!name` absent; a table of windows (`id,...,labels`) is a list, too. Labels that
    a list does not name are absent; with the first line `# unlisted: unknown` they are unknown. A byte-order
    mark, CRLF and blank lines are accepted. `0` and `1` in a list are labels only where other labels are
    numbers, or the table says what is unlisted.

    Args:
        path: The table.
        delimiter: The column delimiter.
        spellings: Maps every accepted spelling, in lower case, to the name of a known label. If given, other
            labels are refused, and so is a matrix with a missing or duplicate column.
        unlisted: What labels are that a list does not name; by default what the table says, else absent.

    Raises:
        DataError: Names the file and the line.
    """
    path = Path(path)
    lines = read_lines(path, delimiter)
    is_stated = _UNLISTED.match(lines[0][1][0].strip()) is not None
    unlisted = _unlisted(path, lines, unlisted)
    (first, header), *body = lines
    header = [cell.strip() for cell in header]
    _check_header(f"{path} line {first}", header, delimiter)
    is_list = _is_list(header)
    if unlisted == "unknown" and not is_list:
        raise DataError(
            f"{path} line {first}: there is a column for every label, so that no label is unlisted. Write ? "
            "where a label is unknown, and leave out `unlisted`."
        )
    names = [] if is_list else _columns(f"{path} line {first}", header[1:], spellings)
    read: list[tuple[str, dict[str, State], int]] = []
    for line, cells in body:
        where = f"{path} line {line}"
        if _UNLISTED.match(cells[0].strip()):
            raise DataError(f"{where}: '{cells[0].strip()}' must be the first line of the table. Move it.")
        if len(cells) != len(header):
            raise DataError(_column_count_error(where, header, cells, delimiter))
        states = parse_states(where, cells[-1], spellings) if is_list else _matrix_cells(where, names, cells)
        read.append((cells[0].strip(), states, line))
    if is_list and len(header) == 2 and not is_stated:
        _check_no_cells(path, read)
    if is_list:
        names = sorted({label for _, states, _ in read for label in states} | set((spellings or {}).values()))
    else:
        unlisted = "absent"
    rows = _rows(read, names, unlisted)
    _check_images(path, rows)
    return LabelTable(rows, tuple(names), unlisted, is_list)


def _rows(
    read: list[tuple[str, dict[str, State], int]], names: list[str], unlisted: Unlisted
) -> list[LabelRow]:
    """The rows, with the states of labels that a row does not name."""
    rows = []
    # The tuples of equal rows are made once: those of unknown labels may be long.
    made: dict[tuple[tuple[str, State], ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for image, states, line in read:
        key = tuple(states.items())
        if key not in made:
            present = tuple(name for name, state in key if state == "present")
            listed = states if unlisted == "absent" else {name: states.get(name, unlisted) for name in names}
            made[key] = present, tuple(name for name, state in listed.items() if state == "unknown")
        present, unknown = made[key]
        rows.append(LabelRow(image, present, line, unknown))
    return rows


def _unlisted(path: Path, lines: list[Line], option: Unlisted | None) -> Unlisted:
    """What labels are that a list does not name; removes the line that says it from the lines."""
    if option is not None:
        check_choice("unlisted", option, get_args(Unlisted))
    number, cells = lines[0]
    text = cells[0].strip()
    # A spreadsheet adds empty cells.
    if not text.startswith("#") or any(cell.strip() for cell in cells[1:]):
        return option or "absent"
    found = _UNLISTED.fullmatch(text)
    choices: dict[str, Unlisted] = {choice: choice for choice in get_args(Unlisted)}
    stated = choices.get(found[1].lower()) if found else None
    if stated is None:
        raise DataError(
            f"{path} line {number}: found '{text}'. Write '# unlisted: absent' or '# unlisted: unknown', or "
            "remove the line."
        )
    if option not in (None, stated):
        raise DataError(
            f"{path} line {number}: found '{text}', but --unlisted is {option}. Leave the option out, or "
            "correct the line."
        )
    del lines[0]
    if not lines:
        raise DataError(f"{path}: there is no header after line {number}. Add one: path,labels")
    following, cells = lines[0]
    if _UNLISTED.match(cells[0].strip()):
        raise DataError(
            f"{path} line {following}: '{cells[0].strip()}': `unlisted` is given twice, first in line "
            f"{number}. Keep one."
        )
    return stated


def read_lines(path: Path, delimiter: str = ",") -> list[Line]:
    """The cells of every line that is not blank, with its line number."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), delimiter=delimiter)
    lines: list[Line] = []
    begin = 1
    try:
        for cells in reader:
            if any("\n" in cell or "\r" in cell for cell in cells):
                raise DataError(
                    f"{path} line {begin}: a cell continues on the next line. Close its quotation mark."
                )
            if any(cell.strip() for cell in cells):
                lines.append((begin, cells))
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path} line {begin}: {error}. Is a quotation mark not closed?") from error
    if not lines:
        raise DataError(f"{path}: the file is empty. It needs a header and one line per image.")
    return lines


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such label table.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
    invalid = content.find(b"\0")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        invalid = error.start
    else:
        if invalid < 0:
            return text
    line = content.count(b"\n", 0, invalid) + 1
    raise DataError(f"{path} line {line}: not UTF-8. Save the table as UTF-8.")


def _check_header(where: str, header: list[str], delimiter: str) -> None:
    if len(header) < 2:
        other = _other_delimiter(header[0], delimiter)
        raise DataError(
            f"{where}: found one column{f', separated by {other}?' if other else '.'} "
            f"Columns are separated by {_DELIMITERS[delimiter]}: an image and its labels."
        )
    if _IMAGE_NAME.search(header[0]) or (set(header[1:]) <= set(_CELLS) and any(header[1:])):
        raise DataError(
            f"{where}: '{header[0]}' is an image, not a header. Add a first line: path, then `labels` "
            "or the label names."
        )
    if not _is_list(header) and "labels" in (name.lower() for name in header):
        raise DataError(
            f"{where}: found the columns {', '.join(map(repr, header))}. A list of labels has two: the path, "
            "then `labels`. Remove the others."
        )
    for position, name in enumerate(header[1:], 2):
        if not name:
            raise DataError(f"{where}: column {position} has no label name.")
    duplicate = next((name for name in header[1:] if header[1:].count(name) > 1), None)
    if duplicate is not None:
        raise DataError(f"{where}: duplicate label '{duplicate}'.")


def _is_list(header: list[str]) -> bool:
    """Whether the last column lists labels: after the path, or in a table of windows, after ids."""
    first, *others, last = (name.lower() for name in header)
    return last == "labels" and (not others or first == "id")


def _other_delimiter(text: str, delimiter: str) -> str | None:
    """The name of another delimiter that occurs in the text."""
    return next((name for sign, name in _DELIMITERS.items() if sign != delimiter and sign in text), None)


def _column_count_error(where: str, header: list[str], cells: list[str], delimiter: str) -> str:
    text = f"{where}: expected {len(header)} columns as in the header, found {len(cells)}"
    if len(cells) == 1 and (other := _other_delimiter(cells[0], delimiter)):
        return f"{text}, separated by {other}? Columns are separated by {_DELIMITERS[delimiter]}."
    if _is_list(header) and len(header) == 2 and len(cells) > 2:
        if all(cell.strip() in _CELLS for cell in cells[1:]):
            return f"{text}. A table of 0, 1 and ? has a column per label: name the labels in the first line."
        return f"{text}. Separate labels by semicolons: {';'.join(cell.strip() for cell in cells[1:3])}"
    return f"{text}. Use the same number in every line."


def _columns(where: str, names: list[str], spellings: Mapping[str, str] | None) -> list[str]:
    """The labels of a matrix's columns."""
    if spellings is None:
        return names
    known = [_canonical(where, name, spellings) for name in names]
    for name, label in zip(names, known, strict=True):
        first = names[known.index(label)]
        if first != name:
            raise DataError(f"{where}: the columns '{first}' and '{name}' are one label. Keep one.")
    if absent := sorted(set(spellings.values()) - set(known)):
        raise DataError(
            f"{where}: no column for {', '.join(absent)}. Add it, with 0 where an image has no such label."
        )
    return known


def _canonical(where: str, name: str, spellings: Mapping[str, str] | None) -> str:
    if spellings is None:
        return name
    label = spellings.get(name.lower())
    if label is None:
        raise DataError(f"{where}: unknown label '{name}'. {did_you_mean(name, spellings)}")
    return label


def parse_states(where: str, cell: str, spellings: Mapping[str, str] | None) -> dict[str, State]:
    """The states of the labels that a cell of a list names."""
    states: dict[str, State] = {}
    written: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in cell.split(";"))):
        sign = entry[0] if entry[0] in SIGNS else ""
        name = entry.removeprefix(sign).strip()
        if not name:
            raise DataError(
                f"{where}: '{entry}' has no label name after it. Write ?name for an unknown label and !name "
                "for an absent one. Where all that is not listed is unknown, begin the table with "
                "'# unlisted: unknown'."
            )
        if sign and (name[0] in SIGNS or name[-1] in SIGNS):
            bare = name.strip("".join(SIGNS) + " ") or "name"
            raise DataError(f"{where}: '{entry}' has two signs. Write ?{bare} (unknown) or !{bare} (absent).")
        if name[-1] in SIGNS:
            bare = name.strip("".join(SIGNS) + " ")
            raise DataError(f"{where}: '{entry}' has its sign after the name. Write {name[-1]}{bare}.")
        label = _canonical(where, name, spellings)
        state: State = SIGNS.get(sign, "present")
        if states.setdefault(label, state) != state:
            raise DataError(f"{where}: '{written[label]}' and '{entry}' contradict each other. Keep one.")
        written.setdefault(label, entry)
    return states


def _check_no_cells(path: Path, read: list[tuple[str, dict[str, State], int]]) -> None:
    """Refuse the labels 0 and 1 where no other label is a number: they are cells of a matrix."""
    if any(label.isdecimal() and label not in ("0", "1") for _, states, _ in read for label in states):
        return
    for _, states, line in read:
        for label in states:
            if label in ("0", "1"):
                raise DataError(
                    f"{path} line {line}: found {label} where label names are listed. A table of 0 and 1 has "
                    "a column per label: name the labels in the first line. If it is a label, rename it."
                )


def _matrix_cells(where: str, names: list[str], cells: list[str]) -> dict[str, State]:
    """The states of all labels."""
    states = {}
    for position, name in enumerate(names, 1):
        cell = cells[position].strip()
        if cell not in _CELLS:
            raise DataError(_cell_error(where, names, position, cell))
        states[name] = _CELLS[cell]
    return states


def _cell_error(where: str, names: list[str], position: int, cell: str) -> str:
    name = names[position - 1]
    if _IMAGE_NAME.search(cell):
        return (
            f"{where}: found the image '{cell}' in column {position + 1}, '{name}'. Images must be in "
            "the first column: remove the columns before it."
        )
    listed = ", or name the column `labels` to list names." if len(names) == 1 else "."
    return f"{where}: label '{name}' is {cell!r}. Use 0, 1 or ? (unknown){listed}"


def _check_images(path: Path, rows: list[LabelRow]) -> None:
    first: dict[str, int] = {}
    for row in rows:
        if not row.image:
            raise DataError(f"{path} line {row.line}: the image's name is missing.")
        if row.image in first:
            raise DataError(
                f"{path} line {row.line}: duplicate image '{row.image}', also in line {first[row.image]}. "
                "Keep one."
            )
        first[row.image] = row.line
