"""Relevance of ranked images, computed from the labels of query and image."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from marcir.errors import BatchError, LabelError
from marcir.labels.overlap import intersection_sizes, known_union_sizes, may_share
from marcir.labels.sets import DistinctSets, distinct_sets, present_and_known
from marcir.metrics.ranking import PAIRS, RankedBlock
from marcir.metrics.variants import Variants

GRADED_CUTOFF = 100  # K of nDCG and wAP
# Levels of overlap with the query: 1 some shared label, 2 J >= 0.4, 3 J >= 0.6, 4 J >= 0.8.
ANY, EASY, MEDIUM, HARD = 1, 2, 3, 4
THRESHOLDS = {EASY: 4, MEDIUM: 6, HARD: 8}  # in tenths


def levels(r: Tensor, union: Tensor) -> Tensor:
    """0 for no shared label, else the highest of ANY, EASY, MEDIUM and HARD that is reached; uint8.

    Compared in whole numbers (10 r >= 10 t * union): rounding cannot move an image across a threshold.

    >>> levels(torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[5, 5, 5, 5, 5]]))
    tensor([[0, 1, 2, 3, 4]], dtype=torch.uint8)
    """
    level, union = (r > 0).to(torch.uint8), union.clamp_min(1)
    for tenths in THRESHOLDS.values():
        level += 10 * r >= tenths * union
    return level


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """Labels of queries and gallery, and the best ranking that the gallery allows for each query.

    Attributes:
        y: Labels present of the queries, bool. (Q, L)
        y_gallery: Labels present of the gallery, bool. (N, L)
        leave_one_out: The queries are the gallery; each is left out of its own ranking.
        variants: Which definitions the metrics follow.
        known: Labels known of the queries, bool; None where all labels are known. (Q, L)
        known_gallery: Labels known of the gallery. (N, L)
    """

    y: Tensor
    y_gallery: Tensor
    leave_one_out: bool
    variants: Variants
    known: Tensor | None = None
    known_gallery: Tensor | None = None

    @classmethod
    def from_labels(
        cls, labels: Tensor | np.ndarray, gallery_labels: Tensor | np.ndarray | None, variants: Variants
    ) -> "GroundTruth":
        """Validate labels 0, 1 or -1 (unknown). Without gallery labels, the queries are the gallery.

        Raises:
            BatchError: Where there are too few images, or queries and gallery have different labels.
            LabelError: Where labels are not multi-hot.
        """
        y, known = present_and_known(_as_tensor(labels, "labels"), "labels")
        if gallery_labels is None:
            if len(y) < 2:
                raise BatchError(f"labels: {len(y)} images. A query needs at least one other image to find.")
            return cls(y, y, True, variants, known, known)
        y_gallery, known_gallery = present_and_known(
            _as_tensor(gallery_labels, "gallery labels"), "gallery labels"
        )
        if not len(y) or not len(y_gallery):
            raise BatchError(f"{len(y)} queries and {len(y_gallery)} gallery images. Give at least one each.")
        if y.shape[1] != y_gallery.shape[1]:
            raise BatchError(f"queries have {y.shape[1]} labels, the gallery {y_gallery.shape[1]}.")
        if known is None and known_gallery is None:
            return cls(y, y_gallery, False, variants)
        known = torch.ones_like(y) if known is None else known
        known_gallery = torch.ones_like(y_gallery) if known_gallery is None else known_gallery
        return cls(y, y_gallery, False, variants, known, known_gallery)

    def of_queries(self, queries: Tensor) -> "GroundTruth":
        """The same gallery for some of the queries."""
        known = None if self.known is None else self.known[queries]
        return replace(self, y=self.y[queries], known=known)

    @cached_property
    def distinct_queries(self) -> DistinctSets:
        """The distinct label sets of queries: with unknown labels, of those present and those known."""
        return distinct_sets(self.y if self.known is None else torch.cat([self.y, self.known], 1))

    @property
    def gallery(self) -> int:
        """Number of images that a query ranks."""
        return len(self.y_gallery) - self.leave_one_out

    @property
    def cutoff(self) -> int:
        """K of the graded metrics: 100, or the size of a smaller gallery."""
        return min(GRADED_CUTOFF, self.gallery)

    def relevance(self, block: RankedBlock) -> "RankedRelevance":
        """The relevance of a ranked block."""
        r, union = self.overlap(block.rows)
        left_out = self.left_out(block.rows)
        order = block.order if left_out is None else moved_to_the_end(block.order, left_out)
        return RankedRelevance(self, block, r, union, order, left_out)

    def overlap(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Sizes of intersection and union of label sets, over what both know, in a small dtype. 2 x (Q, N)"""
        y, y_gallery = self.y[rows], self.y_gallery
        dtype = torch.int16 if y.shape[1] < 1600 else torch.int32  # ten times a union must fit
        r = intersection_sizes(y, y_gallery).to(dtype)
        if self.known is None or self.known_gallery is None:
            union: Tensor = y.sum(1, dtype=dtype)[:, None] + y_gallery.sum(1, dtype=dtype) - r
            return r, union
        return r, known_union_sizes(y, self.known[rows], y_gallery, self.known_gallery).to(dtype)

    def left_out(self, rows: slice | Tensor) -> Tensor | None:
        """Images that share no known label with the query but may share one; they are not ranked. (Q, N)"""
        if self.known is None or self.known_gallery is None:
            return None
        return may_share(self.y[rows], self.known[rows], self.y_gallery, self.known_gallery)

    @cached_property
    def rankings_differ(self) -> bool:
        """Whether some query ranks images of different overlap; else all its rankings have one score."""
        sets = self.distinct_queries
        for rows in sets.first.split(max(1, PAIRS // len(self.y_gallery))):
            r, union = self.overlap(rows)
            overlap, left_out = _jaccard(r, union), self.left_out(rows)
            ranked = torch.ones_like(overlap, dtype=torch.bool) if left_out is None else ~left_out
            if self.leave_one_out:
                ranked.scatter_(1, rows[:, None], False)
            highest = overlap.masked_fill(~ranked, -torch.inf).amax(1)
            if (overlap.masked_fill(~ranked, torch.inf).amin(1) < highest).any():
                return True
        return False

    @cached_property
    def _best(self) -> tuple[Tensor, Tensor, Tensor]:
        """Index into, and rows of, the best r and J: once for each distinct label set. (Q,), 2 x (U, K)"""
        sets = self.distinct_queries
        # A query's own label set comes first in its own gallery, where it is dropped.
        own = int(self.leave_one_out)
        step = max(1, PAIRS // len(self.y_gallery))
        best_r, best_j = [], []
        for rows in sets.first.split(step):
            r, union = self.overlap(rows)
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
class RankedRelevance:
    """A ranked block with the relevance of its images.

    Attributes:
        truth: Labels and variants of all queries.
        block: The ranking.
        r: Shared labels, in gallery order. (Q, N)
        union: Labels that query or image has and both know, in gallery order. (Q, N)
        order: Gallery positions, the most similar first; those left out last. (Q, N)
        left_out: Images that are not ranked, in gallery order; None where all labels are known. (Q, N)
    """

    truth: GroundTruth
    block: RankedBlock
    r: Tensor
    union: Tensor
    order: Tensor
    left_out: Tensor | None

    @cached_property
    def ranked(self) -> Tensor:
        """Number of images that each query ranks. (Q,)"""
        number = torch.full(self.order.shape[:1], self.order.shape[1])
        return number if self.left_out is None else number - self.left_out.sum(1)

    @cached_property
    def level(self) -> Tensor:
        """Level of overlap of the hit at each rank, see `levels`. (Q, N)"""
        return levels(self.r, self.union).gather(1, self.order)

    @cached_property
    def shared(self) -> Tensor:
        """Shared labels of the first K hits. (Q, K)"""
        return self.r.gather(1, self.order[:, : self.truth.cutoff])

    @cached_property
    def overlap(self) -> Tensor:
        """Jaccard overlap of the first K hits, float64. (Q, K)"""
        return _jaccard(self.shared, self.union.gather(1, self.order[:, : self.truth.cutoff]))

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


def _as_tensor(labels: Tensor | np.ndarray, where: str) -> Tensor:
    if isinstance(labels, Tensor):
        return labels.detach().cpu()
    try:
        array = np.asarray(labels)
        # A copy in native byte order: the array may be read-only, reversed or from another machine.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError) as error:
        raise LabelError(
            f"{where}: expected multi-hot labels (N, L) of 0, 1 and -1, found what is no such array. "
            "Turn names into rows with marcir.LabelVocabulary(names).encode(rows)."
        ) from error


def moved_to_the_end(order: Tensor, left_out: Tensor) -> Tensor:
    """A ranking with the images that are left out behind the others. (Q, N)

    They are not relevant and behind all that are, so that no metric that counts relevant hits sees them.

    Args:
        order: Gallery positions. (Q, N)
        left_out: Images to move, in gallery order. (Q, N)

    >>> moved_to_the_end(torch.tensor([[2, 0, 1]]), torch.tensor([[False, False, True]]))
    tensor([[0, 1, 2]])
    """
    last = left_out.gather(1, order).to(torch.uint8)  # (Q, N)
    return order.gather(1, last.argsort(dim=1, stable=True))


def _jaccard(r: Tensor, union: Tensor) -> Tensor:
    """J, float64."""
    return r.double() / union.clamp_min(1)
