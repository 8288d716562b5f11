"""Labels of a snapshot that are not those of its table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from marcir.search.records import LabelStates, Row


class LabelRows(Protocol):
    """Labels of rows, and rows of labels."""

    def __getitem__(self, row: int) -> tuple[str, ...]:
        """The labels of a row."""

    @property
    def names(self) -> Collection[str]:
        """All labels."""

    def counts(self, allowed: np.ndarray | None = None) -> dict[str, int]:
        """Number of rows of each label; with a mask, only of the rows that it allows. (N,)"""

    def mask(self, names: Sequence[str]) -> np.ndarray:
        """Rows that have at least one of the labels, bool. (N,)"""


class ChangedLabels:
    """Labels of rows of which some are others.

    Args:
        before: The labels of all rows as they were.
        rows: Number of rows.
        changed: Labels of some rows, instead of their own.
        everywhere: Labels that all other rows have beside their own.
    """

    def __init__(
        self,
        before: LabelRows,
        rows: int,
        changed: Mapping[int, tuple[str, ...]],
        everywhere: tuple[str, ...] = (),
    ) -> None:
        self._before, self._changed, self._everywhere = before, changed, everywhere
        self._others = np.ones(rows, dtype=bool)  # rows that are as before (N,)
        self._others[list(changed)] = False

    def __getitem__(self, row: int) -> tuple[str, ...]:
        if row in self._changed:
            return self._changed[row]
        return (*self._before[row], *self._everywhere)

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """Changed rows of each label."""
        found: dict[str, list[int]] = {}
        for row, names in self._changed.items():
            for name in names:
                found.setdefault(name, []).append(row)
        return found

    @cached_property
    def names(self) -> Collection[str]:
        """All labels, also those that no row has any more: a filter by one is no error, and finds nothing."""
        return {*self._before.names, *self._everywhere, *self._rows}

    def counts(self, allowed: np.ndarray | None = None) -> dict[str, int]:
        """Number of rows of each label; with a mask, only of the rows that it allows. (N,)"""
        others = self._others if allowed is None else self._others & allowed
        counts = {**dict.fromkeys(self.names, 0), **self._before.counts(others)}
        for name in self._everywhere:
            counts[name] = int(np.count_nonzero(others))
        for name, rows in self._rows.items():
            counts[name] += len(rows) if allowed is None else int(np.count_nonzero(allowed[rows]))
        return counts

    def mask(self, names: Sequence[str]) -> np.ndarray:
        """Rows that have at least one of the labels, bool. (N,)"""
        everywhere = any(name in self._everywhere for name in names)
        mask = self._others.copy() if everywhere else self._before.mask(names) & self._others
        for name in names:
            mask[self._rows.get(name, [])] = True
        return mask


def relabelled(labels: Mapping[str, LabelStates], unknown: Sequence[str], row: Row) -> Row:
    """A row with other labels, where it has some, else with some unknown ones beside its own.

    >>> row = relabelled({}, ("dock",), Row("a", np.zeros(0), ("ship",)))
    >>> row.labels, row.unknown
    (('ship',), ('dock',))
    """
    if (states := labels.get(row.id)) is not None:
        return replace(row, labels=states.present, unknown=states.unknown, labelled=True)
    return replace(row, unknown=(*row.unknown, *unknown)) if unknown else row
