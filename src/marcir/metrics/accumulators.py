"""Accumulate metrics and label scores over ranked blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch

from marcir.metrics.functional import average_precision
from marcir.metrics.ranking import RankedBlock
from marcir.metrics.relevance import GroundTruth, RankedRelevance, moved_to_the_end
from marcir.metrics.retrieval_metrics import Metric

Observer = Callable[[RankedRelevance], None]


class MetricValues:
    """Collects one value per query and metric."""

    def __init__(self, metrics: Mapping[str, Metric], queries: int) -> None:
        self.metrics = metrics
        self.per_query = {name: np.full(queries, np.nan) for name in metrics}
        self.pairs_left_out = np.zeros(queries, np.int64)

    def __call__(self, ranking: RankedRelevance) -> None:
        """Add a block."""
        for name, metric in self.metrics.items():
            self.per_query[name][ranking.block.rows] = metric(ranking).numpy()
        if ranking.left_out is not None:
            self.pairs_left_out[ranking.block.rows] = ranking.left_out.sum(1).numpy()


class LabelPrecision:
    """Sums the AP of every label over the queries that carry it, without images whose label is unknown."""

    def __init__(self, num_labels: int) -> None:
        self._sums = torch.zeros(num_labels, dtype=torch.float64)
        self._queries = torch.zeros(num_labels, dtype=torch.int64)

    def __call__(self, ranking: RankedRelevance) -> None:
        """Add a block."""
        truth, order = ranking.truth, ranking.block.order
        y = truth.y[ranking.block.rows]
        for label in y.any(0).nonzero()[:, 0].tolist():
            rows = y[:, label].nonzero()[:, 0]
            label_order = order[rows]  # (Q', N)
            if truth.known_gallery is not None:
                unknown = ~truth.known_gallery[:, label]  # (N,)
                label_order = moved_to_the_end(label_order, unknown.expand(len(rows), -1))
            relevant = truth.y_gallery[:, label][label_order]  # (Q', N)
            values = average_precision(relevant)
            self._sums[label] += values.nansum()
            self._queries[label] += (~values.isnan()).sum()

    def means(self) -> np.ndarray:
        """Mean AP of each label; nan for one that no query with a relevant image carries. (L,)"""
        means: np.ndarray = (self._sums / self._queries).numpy()  # 0 / 0 is nan
        return means


def observe(truth: GroundTruth, blocks: Iterable[RankedBlock], observers: Sequence[Observer]) -> None:
    """Pass the relevance of every block to all observers, so that the gallery is ranked once."""
    for block in blocks:
        ranking = truth.relevance(block)
        for observer in observers:
            observer(ranking)
