"""Reference scores: random rankings (chance) and rankings by the labels themselves (oracle)."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from marcir.checks import check_seed
from marcir.metrics.ranking import Similarities, ranked_blocks
from marcir.metrics.relevance import GroundTruth
from marcir.metrics.retrieval_metrics import METRICS, MetricValues, observe
from marcir.metrics.scores import Scores
from marcir.metrics.variants import Variants
from marcir.progress import track

RANKINGS = 10
MANY_QUERIES = 5000  # above which chance is estimated from SAMPLED of them
SAMPLED = 1000
GRADED_BY_SHARED = "nDCG(sim)@100"  # the metric whose best order is by r, not by J


def chance_scores(
    labels: Tensor | np.ndarray,
    *,
    gallery_labels: Tensor | np.ndarray | None = None,
    variants: Mapping[str, str] | Variants | None = None,
    seed: int = 0,
) -> Scores:
    """Score random rankings: the mean of 10, with its standard error.

    Above 5,000 queries it comes from 1,000 sampled ones.

    >>> scores = chance_scores(torch.eye(4).repeat(25, 1))
    >>> 0.2 < scores["mAP(sim)@5000"] < 0.35
    True
    """
    truth = GroundTruth.from_labels(labels, gallery_labels, Variants.from_mapping(variants))
    generator = torch.Generator().manual_seed(check_seed(seed))
    total, images = len(truth.y), len(truth.y_gallery)
    queries = torch.arange(total)
    if total > MANY_QUERIES:
        queries = torch.randperm(total, generator=generator)[:SAMPLED].sort().values
    sampled = truth.of_queries(queries)

    def at_random(rows: slice) -> Tensor:
        return torch.rand(rows.stop - rows.start, images, generator=generator, dtype=torch.float64)

    rankings = track(range(RANKINGS), RANKINGS, "chance")
    runs = [_values(sampled, at_random, queries, list(METRICS)) for _ in rankings]
    values = {
        name: np.array([run.per_query[name] for run in runs]) for name in METRICS
    }  # (rankings, queries)
    return Scores(
        {name: np.mean(each, axis=0) for name, each in values.items()},
        tuple(map(str, queries.tolist())),
        truth.gallery,
        variants=truth.variants.non_default(),
        standard_error={name: _standard_error(each, total) for name, each in values.items()},
        pairs_left_out=int(runs[0].pairs_left_out.sum()),
    )


def oracle_scores(
    labels: Tensor | np.ndarray,
    *,
    gallery_labels: Tensor | np.ndarray | None = None,
    variants: Mapping[str, str] | Variants | None = None,
) -> Scores:
    """Score the ranking by J, and for nDCG(sim) by r: the ceiling of the first six metrics.

    For wAP it is only the value of the J-order, which can be beaten where the gallery is larger than K.

    >>> oracle_scores(torch.eye(4).repeat(2, 1))["mAP@J0.8"]
    1.0
    """
    truth = GroundTruth.from_labels(labels, gallery_labels, Variants.from_mapping(variants))
    sets = truth.distinct_queries  # queries with equal label sets have equal values
    distinct = truth.of_queries(sets.first)

    def by_overlap(rows: slice) -> Tensor:
        r, union = distinct.overlap(rows)
        return r.double() / union.clamp_min(1)

    def by_shared(rows: slice) -> Tensor:
        return distinct.overlap(rows)[0].double() / max(truth.y.shape[1], 1)

    by_j = [name for name in METRICS if name != GRADED_BY_SHARED]
    found = _values(distinct, by_overlap, sets.first, by_j)
    found.per_query |= _values(distinct, by_shared, sets.first, [GRADED_BY_SHARED]).per_query
    index = sets.index.numpy()
    return Scores(
        {name: found.per_query[name][index] for name in METRICS},
        tuple(map(str, range(len(truth.y)))),
        truth.gallery,
        variants=truth.variants.non_default(),
        pairs_left_out=int(found.pairs_left_out[index].sum()),
    )


def _values(
    truth: GroundTruth, similarities: Similarities, positions: Tensor, names: list[str]
) -> MetricValues:
    """Values of some metrics; `positions` are those of the queries in a gallery that holds them. (Q,) each"""
    values = MetricValues({name: METRICS[name] for name in names}, len(truth.y))
    left_out = positions if truth.leave_one_out else None
    observe(truth, ranked_blocks(similarities, len(truth.y), len(truth.y_gallery), left_out), [values])
    return values


def _standard_error(values: np.ndarray, queries: int) -> float:
    """Of the mean of (rankings, queries): over queries where they were sampled, else over rankings."""
    values = values[:, ~np.isnan(values[0])]
    if not values.size:
        return float("nan")
    spread = values.mean(1) if queries <= MANY_QUERIES else values.mean(0)
    return float(spread.std(ddof=1) / np.sqrt(len(spread))) if len(spread) > 1 else float("nan")
