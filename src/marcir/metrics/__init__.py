"""Retrieval metrics: pure functions of ranked relevance, and scores made of them."""

from marcir.metrics.functional import (
    average_precision,
    dcg,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)
from marcir.metrics.scores import LabelScores, Scores
from marcir.metrics.variants import Variants

__all__ = [
    "LabelScores",
    "Scores",
    "Variants",
    "average_precision",
    "dcg",
    "ndcg",
    "trapezoid_average_precision",
    "weighted_average_precision",
]
