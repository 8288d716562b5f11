"""How relevant ranked images are: the labels, joined to the ranking again."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from marcir.labels.overlap import shared_labels
from marcir.labels.sets import distinct_sets
from marcir.metrics.ranking import PAIRS, RankedBlock
from marcir.metrics.variants import Variants

GRADED_CUTOFF = 100  # hits that nDCG and wAP look at
# Of an image's overlap with the query: 1 some shared label, 2 J >= 0.4, 3 J >= 0.6, 4 J >= 0.8.
ANY, EASY, MEDIUM, HARD = 1, 2, 3, 4
THRESHOLDS = {EASY: 4, MEDIUM: 6, HARD: 8}  # in tenths


def levels(r: Tensor, union: Tensor) -> Tensor:
    """0 for no shared label, else the highest of ANY, EASY, MEDIUM and HARD that is reached; uint8.

    Compared in whole numbers (10 r >= 10 t * union): no rounding moves an image over the line.

    >>> levels(torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[5, 5, 5, 5, 5]]))
    tensor([[0, 1, 2, 3, 4]], dtype=torch.uint8)
    """
    level, union = (r > 0).to(torch.uint8), union.clamp_min(1)
    for tenths in THRESHOLDS.values():
        level += 10 * r >= tenths * union
    return level


@dataclass(frozen=True, eq=False)
class Judge:
    """The labels of queries and gallery, and the best that the gallery allows for each query.

    Attributes:
        y: Labels of the queries, bool. (Q, L)
        y_gallery: Labels of the gallery, bool. (N, L)
        leave_one_out: Queries are the gallery.
        variants: Which definitions the columns follow.
    """

    y: Tensor
    y_gallery: Tensor
    leave_one_out: bool
    variants: Variants

    @property
    def cutoff(self) -> int:
        """K of the graded columns: 100, or the gallery."""
        return min(GRADED_CUTOFF, len(self.y_gallery) - self.leave_one_out)

    def judge(self, block: RankedBlock) -> "Judged":
        """The labels of a ranked block."""
        y = self.y[block.rows]
        r, union = _overlap(y, self.y_gallery)
        return Judged(self, block, r, union)

    @cached_property
    def _best(self) -> tuple[Tensor, Tensor, Tensor]:
        """Index into, and rows of, the best r and J: once for each distinct label set. (Q,), 2 x (U, K)"""
        sets = distinct_sets(self.y)
        y = self.y[sets.first]
        # A query's own label set stands in its own gallery, at the very top: it is dropped there.
        own = int(self.leave_one_out)
        step = max(1, PAIRS // len(self.y_gallery))
        best_r, best_j = [], []
        for rows in y.split(step):
            r, union = _overlap(rows, self.y_gallery)
            best_r.append(r.topk(self.cutoff + own).values[:, own:])
            best = (r / union.clamp_min(1)).topk(self.cutoff + own).indices[:, own:]
            best_j.append(_jaccard(r.gather(1, best), union.gather(1, best)))
        return sets.index, torch.cat(best_r), torch.cat(best_j)

    def best_shared(self, rows: slice) -> Tensor:
        """Shared labels r in the best order. (Q, K)"""
        index, shared, _ = self._best
        return shared[index[rows]]

    def best_overlap(self, rows: slice) -> Tensor:
        """Jaccard overlap in the best order. (Q, K)"""
        index, _, overlap = self._best
        return overlap[index[rows]]


@dataclass(frozen=True, eq=False)
class Judged:
    """A ranked block with its labels.

    Attributes:
        by: Labels and variants of the whole.
        block: The ranking.
        r: Shared labels, in gallery order. (Q, N)
        union: Labels that query or image has, in gallery order. (Q, N)
    """

    by: Judge
    block: RankedBlock
    r: Tensor
    union: Tensor

    @cached_property
    def level(self) -> Tensor:
        """How much the hit at each rank overlaps: see `levels`. (Q, N)"""
        return levels(self.r, self.union).gather(1, self.block.order)

    @cached_property
    def shared(self) -> Tensor:
        """Shared labels of the first K hits. (Q, K)"""
        return self.r.gather(1, self.block.order[:, : self.by.cutoff])

    @cached_property
    def overlap(self) -> Tensor:
        """Jaccard overlap of the first K hits, float64. (Q, K)"""
        return _jaccard(self.shared, self.union.gather(1, self.block.order[:, : self.by.cutoff]))

    @property
    def tenths(self) -> Tensor:
        """Whole tenths of J, rounded down, in gallery order. (Q, N)"""
        return 10 * self.r // self.union.clamp_min(1)

    @property
    def bins(self) -> Tensor:
        """Whole tenths of J, rounded up, in gallery order: 0 only without overlap. (Q, N)"""
        union = self.union.clamp_min(1)
        return (10 * self.r + union - 1) // union

    @cached_property
    def has_relevant(self) -> Tensor:
        """Whether any image of the gallery shares a label with the query. (Q,)"""
        return (self.level >= ANY).any(1)


def _overlap(y: Tensor, y_gallery: Tensor) -> tuple[Tensor, Tensor]:
    """Labels that two images share, and labels that either has; in as few bytes as they need. 2 x (Q, N)"""
    dtype = torch.int16 if y.shape[1] < 1600 else torch.int32  # ten times a union must fit
    r = shared_labels(y, y_gallery).to(dtype)
    union: Tensor = y.sum(1, dtype=dtype)[:, None] + y_gallery.sum(1, dtype=dtype) - r
    return r, union


def _jaccard(r: Tensor, union: Tensor) -> Tensor:
    """J, float64."""
    return r.double() / union.clamp_min(1)
