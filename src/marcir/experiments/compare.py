"""Compare two models query by query."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marcir.errors import DataError
from marcir.files import atomic_write, reason
from marcir.metrics.comparison import ColumnComparison, compare_scores
from marcir.metrics.scores import Scores
from marcir.text_tables import aligned, percent, plain


@dataclass(frozen=True)
class Comparison:
    """Two models, column by column.

    Attributes:
        first: Name of the first.
        second: Name of the second.
        columns: One comparison a column.
    """

    first: str
    second: str
    columns: tuple[ColumnComparison, ...]

    def __str__(self) -> str:
        rows = [["", self.first, self.second, "difference", "95 % from", "to", "p", "queries"]]
        for column in self.columns:
            rows.append(
                [
                    column.column,
                    percent(column.first),
                    percent(column.second),
                    _signed(column.difference),
                    _signed(column.interval.low),
                    _signed(column.interval.high),
                    "-" if math.isnan(column.p) else f"{column.p:.4f}",
                    str(column.queries),
                ]
            )
        return (
            aligned(rows) + "\n\npercent; difference: second minus first, with its bootstrap interval over "
            "queries;\np: paired randomisation test, two-sided, 10,000 times. With several columns, expect "
            "one of 20 below 0.05 by chance."
        )

    def as_json(self) -> dict[str, Any]:
        """Names, and one entry a column; nan as null."""
        columns = [plain(asdict(column)) for column in self.columns]
        return {"first": self.first, "second": self.second, "columns": columns}

    def save_json(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all."""
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(json.dumps(self.as_json(), allow_nan=False) + "\n", "utf-8")


def compare(first: str | Path, second: str | Path, seed: int = 0) -> Comparison:
    """Compare two files of `marcir evaluate --json`.

    Raises:
        DataError: Where they were not judged on the same queries, gallery, labels and definitions.
    """
    contents = [_read(Path(path)) for path in (first, second)]
    scores = [
        Scores.from_json(content.get("model"), str(path))
        for content, path in zip(contents, (first, second), strict=True)
    ]
    where = f"{first} and {second} cannot be compared"
    try:
        columns = compare_scores(scores[0], scores[1], seed)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if contents[0].get("judged_by") != contents[1].get("judged_by"):
        raise DataError(f"{where}: their labels or their galleries differ. Evaluate both with the same ones.")
    names = [str(content.get("name", path)) for content, path in zip(contents, (first, second), strict=True)]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    return Comparison(names[0], names[1], tuple(columns))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file. Make it with: marcir evaluate --json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not what `marcir evaluate --json` writes ({reason(error)}).") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: not what `marcir evaluate --json` writes.")
    return content


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:+.1f}"
