"""The rows of every label."""

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np

from marcir.errors import StoreError, did_you_mean, needs
from marcir.search.records import Filter

with needs("store"):
    import pyarrow as pa
    import pyarrow.compute as pc


def unknown_label(name: str, known: Iterable[str]) -> StoreError:
    """The error for a label that no image has, with the nearest one."""
    names = list(known)
    advice = did_you_mean(name, names) if names else "No image has a label: index with --labels CSV."
    return StoreError(f"no image of the store has the label '{name}'. {advice}")


class LabelIndex:
    """Rows by label.

    Args:
        column: Lists of label names, one list per row.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __getitem__(self, row: int) -> tuple[str, ...]:
        """The labels of a row.

        >>> LabelIndex(pa.chunked_array([[["a", "b"], None], [["a"]]]))[2]
        ('a',)
        """
        return tuple(self._column[row].as_py() or ())

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Built when a label is first used: a search without filters does not wait for it."""
        lengths = pc.fill_null(pc.list_value_length(self._column), 0).to_numpy()
        rows, labels = np.repeat(np.arange(len(lengths)), lengths), pc.list_flatten(self._column)
        names = pc.unique(labels).sort().to_pylist()
        codes = pc.index_in(labels, pa.array(names, pa.string())).to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
        return {
            name: np.unique(rows[order[start:end]])
            for name, (start, end) in zip(names, pairwise(ends), strict=True)
        }

    def counts(self, allowed: np.ndarray | None = None) -> dict[str, int]:
        """Number of rows of each label; with a mask, only of the rows that it allows. (N,)"""
        if allowed is None:
            return {name: len(rows) for name, rows in self._rows.items()}
        return {name: int(np.count_nonzero(allowed[rows])) for name, rows in self._rows.items()}

    def carrying(self, names: Iterable[str]) -> np.ndarray:
        """Rows that have all of the labels, bool. (N,)"""
        mask = np.ones(len(self._column), dtype=bool)
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
        mask = np.zeros(len(self._column), dtype=bool)
        for name in names:
            if name not in self._rows:
                raise unknown_label(name, self._rows)
            mask[self._rows[name]] = True
        return mask
