"""The seven metrics: functions from ranked relevance to one value per query, nan if it is excluded.

`observe` passes every ranked block to accumulators of their values and of the scores per label.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from marcir.metrics.functional import (
    average_precision,
    exponential_gain,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)
from marcir.metrics.ranking import RankedBlock
from marcir.metrics.relevance import ANY, EASY, HARD, MEDIUM, GroundTruth, RankedRelevance, moved_to_the_end

SHARED_LABEL_CUTOFF = 5000
Metric = Callable[[RankedRelevance], Tensor]
Observer = Callable[[RankedRelevance], None]


def shared_label_precision(ranking: RankedRelevance) -> Tensor:
    """mAP(sim)@5000: AP of images with a shared label, divided by those found in the first 5,000. (Q,)"""
    relevant = ranking.level[:, :SHARED_LABEL_CUTOFF] >= ANY
    return _zero_if_none_found(ranking.has_relevant, average_precision(relevant))


def shared_label_gain(ranking: RankedRelevance) -> Tensor:
    """nDCG(sim)@100: gain 2^r - 1 for r shared labels. (Q,)"""
    return _graded(ranking, ranking.shared, ranking.truth.best_shared(ranking.block.rows))


def threshold_precision(ranking: RankedRelevance, level: int) -> Tensor:
    """mAP@J: AP of images at or above a level of overlap, divided by all of them in the gallery. (Q,)"""
    relevant = ranking.level >= level
    if ranking.truth.variants.ap == "sum":
        return average_precision(relevant)
    has_hard = (ranking.level >= HARD).any(1)
    return trapezoid_average_precision(relevant).masked_fill(~has_hard, torch.nan)


def overlap_gain(ranking: RankedRelevance) -> Tensor:
    """nDCG@100: gain 2^J - 1. (Q,)"""
    return _graded(ranking, ranking.overlap, ranking.truth.best_overlap(ranking.block.rows))


def overlap_precision(ranking: RankedRelevance) -> Tensor:
    """wAP@100: mean J down to every hit with J > 0, averaged over those hits. (Q,)"""
    if ranking.truth.variants.wap == "any":
        return _zero_if_none_found(ranking.has_relevant, weighted_average_precision(ranking.overlap))
    relevant = ranking.level >= EASY
    K = ranking.truth.cutoff
    value = weighted_average_precision(ranking.overlap, relevant[:, :K])
    if ranking.left_out is not None:
        value = value * K / ranking.ranked.clamp(1, K)  # a query may rank fewer than K
    return _zero_if_none_found(relevant.any(1), value)


METRICS: dict[str, Metric] = {
    "mAP(sim)@5000": shared_label_precision,
    "nDCG(sim)@100": shared_label_gain,
    "mAP@J0.4": partial(threshold_precision, level=EASY),
    "mAP@J0.6": partial(threshold_precision, level=MEDIUM),
    "mAP@J0.8": partial(threshold_precision, level=HARD),
    "nDCG@100": overlap_gain,
    "wAP@100": overlap_precision,
}


def _graded(ranking: RankedRelevance, grades: Tensor, best: Tensor) -> Tensor:
    if ranking.truth.variants.ideal == "retrieved":
        best = grades.sort(dim=1, descending=True).values
    value = ndcg(exponential_gain(grades), exponential_gain(best))
    return _zero_if_none_found(ranking.has_relevant, value)


def _zero_if_none_found(has_relevant: Tensor, value: Tensor) -> Tensor:
    """The value; 0 where relevant images exist but none was found, nan where there are none."""
    return value.nan_to_num(0.0).masked_fill(~has_relevant, torch.nan)


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
