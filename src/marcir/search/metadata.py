"""Tables of metadata: bounding boxes, dates, and any other columns."""

import csv
import datetime
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from marcir.errors import DataError
from marcir.files import reason

_CORNERS = ("west", "south", "east", "north")


@dataclass(frozen=True)
class Extra:
    """The metadata of one image.

    Attributes:
        metadata: Columns and values.
        bbox: West, south, east, north in degrees (WGS84).
        date: When it was taken.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    bbox: tuple[float, float, float, float] | None = None
    date: datetime.date | None = None


def read_metadata(path: str | Path, id_of: Callable[[str], str]) -> dict[str, Extra]:
    """Read a CSV whose first column names an image.

    The columns `west`, `south`, `east`, `north` are its bbox in degrees, `date` is its date (2024-05-31);
    all others are kept as text.

    Args:
        path: The table.
        id_of: The id of the image that a name of the table means.

    Raises:
        DataError: Names the file and the line.
    """
    table = Path(path)
    try:
        text = table.read_text("utf-8-sig")
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows = [(lines.line_num, cells) for cells in lines if any(cell.strip() for cell in cells)]
    except FileNotFoundError:
        raise DataError(f"{table}: there is no such table.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table}: cannot be read as CSV in UTF-8 ({reason(error)}).") from error
    if not rows:
        raise DataError(f"{table}: the file is empty. It needs a header and one line per image.")
    header = [name.strip() for name in rows[0][1]]
    _check_header(f"{table} line {rows[0][0]}", header)
    found: dict[str, Extra] = {}
    for line, cells in rows[1:]:
        where = f"{table} line {line}"
        if len(cells) != len(header):
            raise DataError(f"{where}: expected {len(header)} columns as in the header, found {len(cells)}.")
        values = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        image = id_of(values.pop(header[0]))
        if image in found:
            raise DataError(f"{where}: duplicate '{image}'. Keep one.")
        found[image] = _extra(where, values)
    return found


def _check_header(where: str, header: list[str]) -> None:
    if "" in header:
        raise DataError(f"{where}: column {header.index('') + 1} has no name.")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: duplicate column '{twice}'. Keep one.")
    if header[0] in (*_CORNERS, "date"):
        raise DataError(f"{where}: the first column is '{header[0]}'. It must hold the paths of the images.")


def _extra(where: str, values: dict[str, str]) -> Extra:
    corners = [values.pop(corner, "") for corner in _CORNERS]
    date = values.pop("date", "")
    kept = {name: value for name, value in values.items() if value}
    return Extra(kept, _bbox(where, corners), _date(where, date))


def _bbox(where: str, corners: list[str]) -> tuple[float, float, float, float] | None:
    if not any(corners):
        return None
    try:
        west, south, east, north = map(float, corners)
    except ValueError:
        raise DataError(
            f"{where}: west, south, east, north are {corners}. Give four numbers, or none."
        ) from None
    if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
        raise DataError(
            f"{where}: {corners} is no box in degrees: west and east -180..180, south <= north -90..90."
        )
    return west, south, east, north


def _date(where: str, text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise DataError(f"{where}: the date is '{text}'. Write it as 2024-05-31.") from None
