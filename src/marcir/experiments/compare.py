"""Compare two models query by query."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marcir.errors import DataError
from marcir.metrics.comparison import ColumnComparison, compare_scores
from marcir.schema import save
from marcir.text_tables import aligned, nan_to_none, percent
from marcir.training.evaluation import EvaluationFile


@dataclass(frozen=True)
class Comparison:
    """Names of two models, and their comparison in every column."""

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
        """Names, and one entry per column; nan as null."""
        columns = [nan_to_none(asdict(column)) for column in self.columns]
        return {"first": self.first, "second": self.second, "columns": columns}

    def save_json(self, path: str | Path) -> None:
        """Write the JSON file atomically."""
        save(path, self.as_json())


def compare(first: str | Path, second: str | Path, seed: int = 0) -> Comparison:
    """Compare two files of `marcir evaluate --json`, query by query.

    >>> print(compare("before.json", "after.json"))  # doctest: +SKIP

    Raises:
        DataError: Where queries, galleries, labels or definitions differ.
    """
    one, two = EvaluationFile.load(first), EvaluationFile.load(second)
    where = f"{first} and {second} cannot be compared"
    try:
        columns = compare_scores(one.model, two.model, seed)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if one.judged_by != two.judged_by:
        raise DataError(f"{where}: their labels or their galleries differ. Evaluate both with the same ones.")
    names = (one.name or str(first), two.name or str(second))
    if names[0] == names[1]:
        names = (str(first), str(second))
    return Comparison(*names, tuple(columns))


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:+.1f}"
