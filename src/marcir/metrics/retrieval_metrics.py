"""The seven columns: each a function from a judged ranking to one value per query; nan: left out."""

import torch
from torch import Tensor

from marcir.metrics.functional import (
    average_precision,
    exponential_gain,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)
from marcir.metrics.relevance import ANY, EASY, HARD, MEDIUM, Judged

SHARED_LABEL_CUTOFF = 5000


def shared_label_precision(ranking: Judged) -> Tensor:
    """mAP(sim)@5000: AP of images with a shared label, divided by those found in the first 5,000. (Q,)"""
    relevant = ranking.level[:, :SHARED_LABEL_CUTOFF] >= ANY
    return _unless_none(ranking.has_relevant, average_precision(relevant))


def shared_label_gain(ranking: Judged) -> Tensor:
    """nDCG(sim)@100: gain 2^r - 1 for r shared labels. (Q,)"""
    return _graded(ranking, ranking.shared, ranking.by.best_shared(ranking.block.rows))


def easy_precision(ranking: Judged) -> Tensor:
    """mAP@J0.4: AP of images with J >= 0.4 over the whole gallery, divided by all of them. (Q,)"""
    return _precision_from(ranking, EASY)


def medium_precision(ranking: Judged) -> Tensor:
    """mAP@J0.6: AP of images with J >= 0.6 over the whole gallery, divided by all of them. (Q,)"""
    return _precision_from(ranking, MEDIUM)


def hard_precision(ranking: Judged) -> Tensor:
    """mAP@J0.8: AP of images with J >= 0.8 over the whole gallery, divided by all of them. (Q,)"""
    return _precision_from(ranking, HARD)


def overlap_gain(ranking: Judged) -> Tensor:
    """nDCG@100: gain 2^J - 1. (Q,)"""
    return _graded(ranking, ranking.overlap, ranking.by.best_overlap(ranking.block.rows))


def overlap_precision(ranking: Judged) -> Tensor:
    """wAP@100: mean J down to every hit with J > 0, averaged over those hits. (Q,)"""
    if ranking.by.variants.wap == "any":
        return _unless_none(ranking.has_relevant, weighted_average_precision(ranking.overlap))
    level = ranking.level >= EASY
    value = weighted_average_precision(ranking.overlap, level[:, : ranking.by.cutoff])
    return _unless_none(level.any(1), value)


def _precision_from(ranking: Judged, level: int) -> Tensor:
    relevant = ranking.level >= level
    if ranking.by.variants.ap == "sum":
        return average_precision(relevant)
    has_hard = (ranking.level >= HARD).any(1)
    return trapezoid_average_precision(relevant).masked_fill(~has_hard, torch.nan)


def _graded(ranking: Judged, grades: Tensor, best: Tensor) -> Tensor:
    if ranking.by.variants.ideal == "retrieved":
        best = grades.sort(dim=1, descending=True).values
    value = ndcg(exponential_gain(grades), exponential_gain(best))
    return _unless_none(ranking.has_relevant, value)


def _unless_none(has_relevant: Tensor, value: Tensor) -> Tensor:
    """The value; 0 where relevant images exist but none was found, nan where there are none."""
    return value.nan_to_num(0.0).masked_fill(~has_relevant, torch.nan)
