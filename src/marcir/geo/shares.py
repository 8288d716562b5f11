"""Shares of a window that classes of a map cover, and the labels that follow from them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from marcir.data.label_csv import read_lines
from marcir.errors import DataError

Unmapped = Literal["unknown", "absent"]
# Areas of polygons are sums of floats.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Shares:
    """Which shares of a window the classes of a map cover.

    Attributes:
        classes: Shares by name of the class, 0 to 1; classes may overlap.
        covered: Share that any class covers.
    """

    classes: dict[str, float]
    covered: float

    def present(self, min_share: float) -> frozenset[str]:
        """Classes that cover at least `min_share`.

        >>> sorted(Shares({"road": 0.005, "tree": 0.4}, 0.405).present(0.01))
        ['tree']
        """
        return frozenset(name for name, share in self.classes.items() if share >= min_share - _ROUNDING)

    def unknown(self, names: Iterable[str], min_share: float) -> list[str]:
        """Classes that cover less, but might not if the rest of the window were known.

        >>> shares = Shares({"road": 0.005, "tree": 0.988}, 0.993)
        >>> shares.unknown(["road", "tree", "water"], 0.01)
        ['road']
        """
        rest = 1 - self.covered
        present = self.present(min_share)
        return [
            name
            for name in names
            if name not in present and self.classes.get(name, 0.0) + rest >= min_share - _ROUNDING
        ]


@dataclass(frozen=True)
class Legend:
    """Names of the classes of a map.

    Attributes:
        path: Its file, for errors; None if values are names themselves.
        names: Name by value; an empty one stands for no data.
    """

    path: Path | None = None
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> "Legend":
        """Read a table with the columns value,name.

        Several values may have one name. A value without a name counts as no data.

        Raises:
            DataError: Names the file and the line.
        """
        path = Path(path)
        if not path.is_file():
            raise DataError(f"{path}: there is no such legend. Give a table value,name with --legend.")
        (first, header), *body = read_lines(path)
        if [cell.strip().lower() for cell in header] != ["value", "name"]:
            raise DataError(f"{path} line {first}: found {','.join(header)}. The header must be: value,name")
        names: dict[str, str] = {}
        for line, cells in body:
            if len(cells) != 2:
                raise DataError(f"{path} line {line}: expected value,name, found {len(cells)} columns.")
            value, name = (cell.strip() for cell in cells)
            if value in names:
                raise DataError(f"{path} line {line}: duplicate value '{value}'. Keep one.")
            names[value] = check_name(name, f"{path} line {line}")
        return cls(path, names)

    def name(self, value: str, where: str) -> str:
        """Name of a value; empty for no data.

        Raises:
            DataError: If the legend has no such value, or the value cannot be a label; `where` is the map.
        """
        if self.path is None:
            return check_name(value, where)
        if value not in self.names:
            raise DataError(
                f"{self.path}: the value '{value}' of {where} is not in it. Add the line '{value},NAME', or "
                f"'{value},' if it stands for no data."
            )
        return self.names[value]


def check_name(name: str, where: str) -> str:
    """The name without spaces around it, if it can be an entry of a list of labels.

    >>> check_name(" bare soil ", "legend.csv line 2")
    'bare soil'
    """
    name = name.strip()
    if ";" in name or name.startswith(("?", "!")) or not (name.isprintable() or not name):
        raise DataError(
            f"{where}: '{ascii(name)[1:-1]}' cannot be a label: it begins with ? or !, or has a semicolon or "
            "a line break. Rename the class."
        )
    return name
