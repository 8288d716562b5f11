"""Records grouped for tables: runs by row, rows by study, studies by dataset."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np

from marcir.errors import DataError
from marcir.experiments.record import COMPARISON, Record, slug
from marcir.experiments.report.names import dataset_name, method_name, row_order
from marcir.experiments.studies import STUDIES
from marcir.metrics.retrieval_metrics import METRICS
from marcir.metrics.scores import Scores

CHOSEN_BY = "nDCG@100"  # the metric on the validation images that selects a setting
TAIL = "tail"  # mean AP of the rarest third of the labels
COLUMNS = (*METRICS, TAIL)


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds.

    Attributes:
        mean: nan without values.
        sd: None for fewer than two seeds.
        seeds: Number of values.
    """

    mean: float
    sd: float | None
    seeds: int

    @classmethod
    def from_values(cls, values: Iterable[float | None]) -> "Spread":
        """Summarise the values that are neither None nor nan.

        >>> Spread.from_values([1.0, 2.0, None, 3.0])
        Spread(mean=2.0, sd=1.0, seeds=3)
        """
        known = np.array([value for value in values if value is not None and not math.isnan(value)])
        if not len(known):
            return cls(math.nan, None, 0)
        return cls(float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else None, len(known))


def means_and_sds(spreads: Iterable[Spread]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations, nan where unknown. 2 x (M,)"""
    pairs = [(each.mean, math.nan if each.sd is None else each.sd) for each in spreads]
    means, sds = np.array(pairs).T
    return means, sds


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a table: runs that differ only in their seed.

    Attributes:
        loss: The loss's name in the catalog.
        method: Name of the row in the records.
        setting: Settings that the study varies.
        runs: Finished runs, by seed.
        failed: Runs without scores, by seed.
    """

    loss: str
    method: str
    setting: Mapping[str, Any]
    runs: tuple[Record, ...]
    failed: tuple[Record, ...]

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        return method_name(self.loss, self.method)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the finished runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def scores(self) -> list[Scores]:
        """Scores of the finished runs."""
        return [run.scores for run in self.runs if run.scores is not None]

    def spread(self, value: Callable[[Record], float | None]) -> Spread:
        """Mean and standard deviation of a value of each run."""
        return Spread.from_values(map(value, self.runs))

    def column(self, name: str) -> Spread:
        """A metric or `tail`, over seeds."""
        if name == TAIL:
            return Spread.from_values(each.tail for each in self.scores if each.label_scores is not None)
        return Spread.from_values(scores.get(name) for scores in self.scores)

    @property
    def validation(self) -> Spread:
        """The metric that selects a setting, on the validation images."""
        return self.spread(lambda run: run.validation.get(CHOSEN_BY))

    @property
    def loss_step(self) -> float:
        """Shortest loss step in milliseconds of the runs timed on an idle machine; nan without any."""
        timed = (run.loss_milliseconds for run in self.runs if run.timed_idle)
        return min((each for each in timed if each is not None), default=math.nan)


@dataclass(frozen=True, eq=False)
class Study:
    """The rows of one table.

    Attributes:
        dataset: The dataset's name.
        name: `comparison`, or the name of an ablation.
        rows: All rows, in the order in which they are shown; some may have no finished run.
    """

    dataset: str
    name: str
    rows: tuple[Row, ...]

    @property
    def dataset_title(self) -> str:
        """Name of the dataset in tables."""
        sides = {record.image_side for record in self.records}
        return dataset_name(self.dataset, sides.pop() if len(sides) == 1 else None)

    def file_name(self, *what: str) -> str:
        """A valid file name that starts with the dataset's name."""
        return slug("-".join([self.dataset, *what]))

    @property
    def done(self) -> list[Row]:
        """Rows with a finished run."""
        return [row for row in self.rows if row.runs]

    @property
    def records(self) -> list[Record]:
        """Finished runs of all rows."""
        return [run for row in self.rows for run in row.runs]

    @property
    def failed(self) -> list[Record]:
        """Failed runs of all rows."""
        return [run for row in self.rows for run in row.failed]

    def row(self, method: str) -> Row | None:
        """The row of a method, if it has a finished run."""
        return next((row for row in self.done if row.method == method), None)

    def rows_of(self, methods: Iterable[str]) -> list[Row]:
        """Rows of those methods that have a finished run, in the order of `methods`."""
        return [row for method in methods if (row := self.row(method)) is not None]


def group_records(records: Sequence[Record]) -> dict[str, list[Study]]:
    """Group records into the studies of each dataset, the comparison first.

    Raises:
        DataError: Where runs of one table have different splits or test labels, or one is a duplicate.
    """
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.dataset, record.study].append(record)
    found: dict[str, list[Study]] = defaultdict(list)
    for dataset, name in sorted(groups, key=lambda key: (key[0], _study_order(key[1]))):
        found[dataset].append(_study(dataset, name, groups[dataset, name]))
    return dict(found)


def _study_order(name: str) -> tuple[int, str]:
    known = [COMPARISON, *STUDIES]
    return (known.index(name) if name in known else len(known)), name


def _study(dataset: str, name: str, records: Sequence[Record]) -> Study:
    for what in ("split_checksum", "judged_by"):
        _check_same(what, records)
    rows: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        rows[record.loss, record.method, json.dumps(record.setting, sort_keys=True)].append(record)
    return Study(dataset, name, tuple(sorted(map(_row, rows.values()), key=_order)))


def _row(records: list[Record]) -> Row:
    runs = sorted(records, key=lambda record: record.seed)
    for first, second in pairwise(runs):
        if first.seed == second.seed:
            raise DataError(f"{second.study}: two records of {second.name}. Remove one of them.")
    done, failed = (tuple(run for run in runs if run.done is wanted) for wanted in (True, False))
    return Row(runs[0].loss, runs[0].method, records[0].setting, done, failed)


def _check_same(what: str, records: Sequence[Record]) -> None:
    """Refuse runs that were trained or scored on different images."""
    known = [record for record in records if getattr(record, what)]  # unknown for a run that failed early
    for record in known:
        first = known[0]
        one, other = getattr(first, what), getattr(record, what)
        if one != other:
            raise DataError(
                f"{record.study} on {record.dataset}: {first.name} and {record.name} cannot share a table, "
                f"their {what} is {one[:12]} and {other[:12]}. Run both on the same split, "
                "or keep them in two results folders."
            )


def _order(row: Row) -> tuple[Any, ...]:
    """Sort key: methods in the catalog's order, settings by value."""
    settings = tuple((name, *sortable(value)) for name, value in row.setting.items())
    return (*row_order(row.loss, row.method), settings)


def sortable(value: Any) -> tuple[int, float, str]:
    """Sort key that puts numbers before texts.

    >>> sorted([10, "b", 9.5, "a", True], key=sortable)
    [9.5, 10, True, 'a', 'b']
    """
    return (0, float(value), "") if is_number(value) else (1, 0.0, str(value))


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def setting_text(setting: Mapping[str, Any]) -> str:
    """Format a setting.

    >>> setting_text({"alpha": 1.5, "plr": False})
    'alpha = 1.5, plr = off'
    """
    return ", ".join(f"{name} = {value_text(value)}" for name, value in setting.items()) or "default"


def value_text(value: Any) -> str:
    """Format a value.

    >>> value_text(True), value_text(0.1), value_text(None)
    ('on', '0.1', 'none')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
