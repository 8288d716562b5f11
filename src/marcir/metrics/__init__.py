"""Retrieval quality: pure functions on ranked relevance, and the columns built of them."""

from marcir.metrics.average_precision import average_precision, trapezoid_average_precision
from marcir.metrics.gain import dcg, ndcg
from marcir.metrics.scores import LabelScores, Scores
from marcir.metrics.variants import Variants
from marcir.metrics.weighted_precision import weighted_average_precision

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
