"""Columns and label scores of judged rankings, gathered block by block."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from marcir.metrics.functional import average_precision
from marcir.metrics.ranking import RankedBlock
from marcir.metrics.relevance import Judge, Judged

Column = Callable[[Judged], Tensor]
Observer = Callable[[Judged], None]


class ColumnValues:
    """Fills one value per query into every column."""

    def __init__(self, columns: Mapping[str, Column], queries: int) -> None:
        self.columns = columns
        self.per_query = {name: np.full(queries, np.nan) for name in columns}

    def __call__(self, ranking: Judged) -> None:
        """Take in a block."""
        for name, column in self.columns.items():
            self.per_query[name][ranking.block.rows] = column(ranking).numpy()


class LabelPrecision:
    """Sums the AP of every label over the queries that carry it."""

    def __init__(self, num_labels: int) -> None:
        self._sums = torch.zeros(num_labels, dtype=torch.float64)
        self._queries = torch.zeros(num_labels, dtype=torch.int64)

    def __call__(self, ranking: Judged) -> None:
        """Take in a block."""
        y, order = ranking.by.y[ranking.block.rows], ranking.block.order
        for label in y.any(0).nonzero()[:, 0].tolist():
            rows = y[:, label].nonzero()[:, 0]
            relevant = ranking.by.y_gallery[:, label][order[rows]]  # (Q', N)
            values = average_precision(relevant)
            self._sums[label] += values.nansum()
            self._queries[label] += (~values.isnan()).sum()

    def means(self) -> np.ndarray:
        """Mean AP of each label; nan for one that no query with a relevant image carries. (L,)"""
        means: np.ndarray = (self._sums / self._queries).numpy()  # 0 / 0 is nan
        return means


def observe(judge: Judge, blocks: Iterable[RankedBlock], observers: Sequence[Observer]) -> None:
    """Show every block, judged, to all observers: the gallery is ranked once for all of them."""
    for block in blocks:
        ranking = judge.judge(block)
        for observer in observers:
            observer(ranking)
