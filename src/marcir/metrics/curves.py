"""Precision, overlap and similarity curves of a ranking, for figures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marcir.metrics.relevance import RankedRelevance

TENTHS = tuple(range(1, 11))  # thresholds of J
HITS = 10  # whose precision is shown by threshold
# Edges of the bins of J: no overlap at all, then tenths, each with its upper edge.
EDGES = (0.0, *(tenth / 10 for tenth in TENTHS))


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves of one model, of chance and of the order by J, over all queries that have labels.

    Attributes:
        precision: Of the first 10 hits, the share with J >= 0.1, 0.2 ... 1. (10,)
        precision_oracle: The same of the gallery in the order of J. (10,)
        precision_chance: The same of any image. (10,)
        overlap: Mean J of the hit at each rank. (K,)
        overlap_oracle: The same of the gallery in the order of J. (K,)
        overlap_chance: Mean J of any image. (K,)
        similarity_mean: Mean cosine of all pairs in bins of J: 0, (0, 0.1], (0.1, 0.2] ... (0.9, 1]. (11,)
        similarity_sd: Their standard deviation. (11,)
        pairs: Number of pairs in each bin. (11,)
    """

    precision: np.ndarray
    precision_oracle: np.ndarray
    precision_chance: np.ndarray
    overlap: np.ndarray
    overlap_oracle: np.ndarray
    overlap_chance: np.ndarray
    similarity_mean: np.ndarray
    similarity_sd: np.ndarray
    pairs: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """Plain lists, nan as null."""
        return {
            name: [None if np.isnan(value) else value for value in values.tolist()]
            for name, values in vars(self).items()
        }


class CurveSums:
    """Accumulates the curves block by block."""

    def __init__(self) -> None:
        self._queries = 0
        self._hits = torch.zeros(3, len(TENTHS), dtype=torch.float64)  # model, oracle, chance
        self._overlaps: list[Tensor | float] = [0.0, 0.0, 0.0]
        self._moments = torch.zeros(3, len(EDGES), dtype=torch.float64)  # pairs, sum, sum of squares

    def __call__(self, ranking: RankedRelevance) -> None:
        """Add a block; queries without labels are skipped."""
        rows, order = ranking.block.rows, ranking.order  # without the query itself
        labelled = ranking.truth.y[rows].any(1) & (ranking.ranked > 0)
        tenths = ranking.tenths.gather(1, order)[labelled]  # (Q, N)
        best = ranking.truth.best_overlap(rows)[labelled]
        self._queries += len(best)
        # 1e-9: a quotient that equals a tenth must not be rounded down below it.
        best_tenths = (10 * best + 1e-9).long()
        ranked = ranking.ranked[labelled]
        for line, of in enumerate((tenths[:, :HITS], best_tenths[:, :HITS], tenths)):
            self._hits[line] += _reached(of, ranked)
        mean = (ranking.r / ranking.union.clamp_min(1)).gather(1, order)[labelled].double().mean(1)
        mean = mean * _of_ranked(order, ranked)
        for line, overlap in enumerate((ranking.overlap[labelled], best, mean[:, None].expand_as(best))):
            self._overlaps[line] += overlap.sum(0)
        self._add_pairs(ranking)

    def _add_pairs(self, ranking: RankedRelevance) -> None:
        order = ranking.order
        bins = ranking.bins.gather(1, order).flatten().long()
        cosine = ranking.block.similarity.gather(1, order).flatten()
        if ranking.left_out is not None:
            ranked = ~ranking.left_out.gather(1, order).flatten()
            bins, cosine = bins[ranked], cosine[ranked]
        for moment, weights in enumerate((None, cosine, cosine**2)):
            self._moments[moment] += torch.bincount(bins, weights, len(EDGES))

    def curves(self) -> Curves:
        """The means."""
        pairs, total, squares = self._moments
        mean = total / pairs
        spread = (squares / pairs - mean**2).clamp_min(0).sqrt()
        hits = (self._hits / self._queries).numpy()
        overlaps = [
            np.asarray(line) / self._queries if self._queries else np.zeros(0) for line in self._overlaps
        ]
        similarity = (mean.numpy(), spread.numpy(), pairs.long().numpy())
        return Curves(*hits, *overlaps, *similarity)  # type: ignore[call-arg]  # three lines of each


def _of_ranked(hits: Tensor, ranked: Tensor) -> Tensor:
    """Factor from a mean over all hits to one over the ranked: those left out come last and are 0. (Q,)"""
    return hits.shape[1] / ranked.clamp_max(hits.shape[1]).double()


def _reached(tenths: Tensor, ranked: Tensor) -> Tensor:
    """Sum over queries of the share of hits that reach each threshold. (10,)"""
    factor = _of_ranked(tenths, ranked)
    share = [((tenths >= threshold).double().mean(1) * factor).sum() for threshold in TENTHS]
    return torch.stack(share) if tenths.shape[1] else torch.zeros(len(TENTHS), dtype=torch.float64)
