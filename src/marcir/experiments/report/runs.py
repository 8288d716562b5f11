"""Records, put together: seeds of one row, rows of one study, studies of one dataset."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marcir.errors import DataError
from marcir.experiments.record import COMPARISON, Record, slug
from marcir.experiments.report.names import dataset_name, method_name, row_order
from marcir.experiments.studies import STUDIES
from marcir.metrics.scores import Scores

CHOSEN_BY = "nDCG@100"  # the column on the validation images that chooses


@dataclass(frozen=True)
class Spread:
    """A mean over seeds.

    Attributes:
        mean: The mean; nan without values.
        sd: The sample standard deviation; None for fewer than two seeds.
        seeds: How many.
    """

    mean: float
    sd: float | None
    seeds: int


def spread(values: Iterable[float]) -> Spread:
    """Mean and sample standard deviation of the values that there are.

    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, sd=1.0, seeds=3)
    """
    known = np.array([value for value in values if not math.isnan(value)], dtype=np.float64)
    if not len(known):
        return Spread(math.nan, None, 0)
    return Spread(float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else None, len(known))


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a table: runs that differ in nothing but their seed.

    Attributes:
        loss: The loss's name in the catalog.
        method: What the records call the row.
        setting: What the study varies, and its value here.
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
        """The method as tables call it."""
        return method_name(self.loss, self.method)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the finished runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def scores(self) -> list[Scores]:
        """Scores of the finished runs."""
        return [run.scores for run in self.runs if run.scores is not None]

    def of(self, value: Callable[[Record], float | None]) -> Spread:
        """Mean and spread of something that every run has."""
        values = [value(run) for run in self.runs]
        return spread(math.nan if each is None else each for each in values)

    def column(self, name: str) -> Spread:
        """A column over seeds."""
        return spread(scores.get(name, math.nan) for scores in self.scores)

    @cached_property
    def tail(self) -> Spread:
        """Mean AP of the rarest third of the labels, over seeds."""
        return spread(scores.tail for scores in self.scores if scores.label_scores is not None)

    @cached_property
    def validation(self) -> Spread:
        """What chooses, on the validation images."""
        return self.of(lambda run: run.validation.get(CHOSEN_BY))


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
        """The dataset as tables call it."""
        sides = {record.image_side for record in self.records}
        return dataset_name(self.dataset, sides.pop() if len(sides) == 1 else None)

    def file_name(self, *what: str) -> str:
        """A file name of the dataset, whatever its name has in it."""
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


def studies(records: Sequence[Record]) -> dict[str, list[Study]]:
    """Datasets and their studies, the comparison first.

    Raises:
        DataError: Where runs of one table were not judged alike, or one is a duplicate.
    """
    names: dict[str, set[str]] = {}
    for record in records:
        names.setdefault(record.dataset, set()).add(record.study)
    return {
        dataset: [
            _study(dataset, name, [each for each in records if (each.dataset, each.study) == (dataset, name)])
            for name in sorted(names[dataset], key=_study_order)
        ]
        for dataset in sorted(names)
    }


def _study_order(name: str) -> tuple[int, str]:
    known = [COMPARISON, *STUDIES]
    return (known.index(name) if name in known else len(known)), name


def _study(dataset: str, name: str, records: Sequence[Record]) -> Study:
    for what in ("split_checksum", "judged_by"):
        _check_alike(what, records)
    rows: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        key = (record.loss, record.method, json.dumps(record.setting, sort_keys=True))
        rows.setdefault(key, []).append(record)
    made = [_row(group) for group in rows.values()]
    return Study(dataset, name, tuple(sorted(made, key=_order)))


def _row(records: list[Record]) -> Row:
    first = records[0]
    by_seed: dict[int, Record] = {}
    for record in records:
        if record.seed in by_seed:
            raise DataError(f"{record.study}: two records of {record.name}. Remove one of them.")
        by_seed[record.seed] = record
    runs = [by_seed[seed] for seed in sorted(by_seed)]
    return Row(
        first.loss,
        first.method,
        first.setting,
        tuple(run for run in runs if run.done),
        tuple(run for run in runs if not run.done),
    )


def _check_alike(what: str, records: Sequence[Record]) -> None:
    """Refuse runs that were trained on other images, or judged by others."""
    first: Record | None = None
    for record in records:
        value = getattr(record, what)
        if not value:  # a run that failed early does not know it
            continue
        if first is not None and value != getattr(first, what):
            raise DataError(
                f"{record.study} on {record.dataset}: {first.name} and {record.name} cannot share a table, "
                f"their {what} is {getattr(first, what)[:12]} and {value[:12]}. Run both on the same split, "
                "or keep them in two results folders."
            )
        first = first or record


def _order(row: Row) -> tuple[Any, ...]:
    """Methods in the catalog's order, settings by their numbers."""
    settings = tuple((name, *sortable(value)) for name, value in row.setting.items())
    return (*row_order(row.loss, row.method), settings)


def sortable(value: Any) -> tuple[int, float, str]:
    """A key that puts numbers in their order, before texts.

    >>> sorted([10, "b", 9.5, "a", True], key=sortable)
    [9.5, 10, True, 'a', 'b']
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value), ""
    return 1, 0.0, str(value)


def setting_text(setting: Mapping[str, Any]) -> str:
    """A setting in words.

    >>> setting_text({"alpha": 1.5, "plr": False})
    'alpha = 1.5, plr = off'
    """
    return ", ".join(f"{name} = {value_text(value)}" for name, value in setting.items()) or "default"


def value_text(value: Any) -> str:
    """A value as people write it.

    >>> value_text(True), value_text(0.1), value_text(None)
    ('on', '0.1', 'none')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
