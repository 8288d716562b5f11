"""What a ranking is measured against: chance below, the labels themselves above."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from marcir.labels.overlap import jaccard, shared_labels
from marcir.labels.sets import distinct_sets
from marcir.metrics.accumulators import Column, ColumnValues, observe
from marcir.metrics.ranking import ranked_blocks
from marcir.metrics.relevance import Judge
from marcir.metrics.scores import Scores
from marcir.metrics.variants import Variants
from marcir.progress import track

RANKINGS = 10
MANY_QUERIES = 5000  # above which chance is estimated from SAMPLED of them
SAMPLED = 1000
GRADED_BY_SHARED = "nDCG(sim)@100"  # the column whose best order is by r, not by J


def chance(
    y: Tensor,
    y_gallery: Tensor,
    leave_one_out: bool,
    columns: Mapping[str, Column],
    variants: Variants,
    ids: tuple[str, ...],
    seed: int,
) -> Scores:
    """Mean of 10 random rankings of the gallery, with the standard error of each mean.

    Above 5,000 queries 1,000 of them are sampled.
    """
    generator = torch.Generator().manual_seed(seed)
    queries = torch.arange(len(y))
    if len(y) > MANY_QUERIES:
        queries = torch.randperm(len(y), generator=generator)[:SAMPLED].sort().values
    judge = Judge(y[queries], y_gallery, leave_one_out, variants)

    def at_random(rows: slice) -> Tensor:
        return torch.rand(rows.stop - rows.start, len(y_gallery), generator=generator, dtype=torch.float64)

    runs = []
    for _ in track(range(RANKINGS), RANKINGS, "chance"):
        values = ColumnValues(columns, len(queries))
        left_out = queries if leave_one_out else None
        observe(judge, ranked_blocks(at_random, len(queries), len(y_gallery), left_out), [values])
        runs.append(values.per_query)
    means = {name: np.mean([run[name] for run in runs], axis=0) for name in columns}
    errors = {name: _standard_error(np.array([run[name] for run in runs]), len(y)) for name in columns}
    gallery = len(y_gallery) - leave_one_out
    named = tuple(ids[query] for query in queries.tolist())
    return Scores(means, named, gallery, None, variants.named(), errors)


def _standard_error(values: np.ndarray, queries: int) -> float:
    """Of the mean of (rankings, queries): over queries where they were sampled, else over rankings."""
    values = values[:, ~np.isnan(values[0])]
    if not values.size:
        return float("nan")
    spread = values.mean(1) if queries <= MANY_QUERIES else values.mean(0)
    return float(spread.std(ddof=1) / np.sqrt(len(spread))) if len(spread) > 1 else float("nan")


def oracle(
    y: Tensor,
    y_gallery: Tensor,
    leave_one_out: bool,
    columns: Mapping[str, Column],
    variants: Variants,
    ids: tuple[str, ...],
) -> Scores:
    """The gallery ranked by J, and for nDCG(sim) by r: the ceiling of the first six columns.

    For wAP it is only the value of the J-order. Queries with equal label sets have equal values.
    """
    sets = distinct_sets(y)
    judge = Judge(y[sets.first], y_gallery, leave_one_out, variants)

    def by_overlap(rows: slice) -> Tensor:
        return jaccard(judge.y[rows].double(), y_gallery)

    def by_shared(rows: slice) -> Tensor:
        return shared_labels(judge.y[rows].double(), y_gallery) / max(y.shape[1], 1)

    per_query = {}
    by_r = {name: column for name, column in columns.items() if name == GRADED_BY_SHARED}
    by_j = {name: column for name, column in columns.items() if name not in by_r}
    for chosen, similarities in ((by_j, by_overlap), (by_r, by_shared)):
        values = ColumnValues(chosen, len(judge.y))
        left_out = sets.first if leave_one_out else None
        observe(judge, ranked_blocks(similarities, len(judge.y), len(y_gallery), left_out), [values])
        per_query.update({name: value[sets.index.numpy()] for name, value in values.per_query.items()})
    ordered = {name: per_query[name] for name in columns}
    return Scores(ordered, ids, len(y_gallery) - leave_one_out, None, variants.named())
