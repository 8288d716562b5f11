"""The rows of every label."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from marcir.errors import StoreError, did_you_mean
from marcir.search.records import Filter


def unknown_label(name: str, known: Iterable[str]) -> StoreError:
    """The error for a label that no image has, with the nearest one."""
    names = list(known)
    advice = did_you_mean(name, names) if names else "No image has a label: index with --labels CSV."
    return StoreError(f"no image of the store has the label '{name}'. {advice}")


class LabelIndex:
    """Rows by label.

    Args:
        labels: Label names of every row.
    """

    def __init__(self, labels: Sequence[Sequence[str]]) -> None:
        self.labels = labels

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Built when a label is first used: a search without filters does not wait for it."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, names in enumerate(self.labels):
            for name in names:
                rows[name].append(row)
        return {name: np.unique(np.array(found, dtype=np.int64)) for name, found in sorted(rows.items())}

    def counts(self, allowed: np.ndarray | None = None) -> dict[str, int]:
        """Number of rows of each label; with a mask, only of the rows that it allows. (N,)"""
        if allowed is None:
            return {name: len(rows) for name, rows in self._rows.items()}
        return {name: int(np.count_nonzero(allowed[rows])) for name, rows in self._rows.items()}

    def carrying(self, names: Iterable[str]) -> np.ndarray:
        """Rows that have all of the labels, bool. (N,)"""
        mask = np.ones(len(self.labels), dtype=bool)
        for name in names:
            mask &= self._mask([name])
        return mask

    def allowed(self, where: Filter | None) -> np.ndarray | None:
        """Rows that pass the labels of a filter, bool; None where all do. (N,)

        Raises:
            StoreError: For a label that no row has, with the nearest one.
        """
        if where is None or not where.by_labels:
            return None
        mask = self.carrying(where.all)
        if where.any:
            mask &= self._mask(where.any)
        return mask & ~self._mask(where.none) if where.none else mask

    def _mask(self, names: Iterable[str]) -> np.ndarray:
        mask = np.zeros(len(self.labels), dtype=bool)
        for name in names:
            if name not in self._rows:
                raise unknown_label(name, self._rows)
            mask[self._rows[name]] = True
        return mask
