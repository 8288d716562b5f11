"""The seven metrics, functions from ranked relevance to one value per query; nan: query excluded."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from marcir.metrics.functional import (
    average_precision,
    exponential_gain,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)
from marcir.metrics.relevance import ANY, EASY, HARD, MEDIUM, RankedRelevance

SHARED_LABEL_CUTOFF = 5000
Metric = Callable[[RankedRelevance], Tensor]


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
