"""Pairs of label sets: the terms that the losses of this family are sums of.

Rows with equal label sets have equal weights and temperatures, so every matrix here is over the distinct
label sets of a batch (U of anchors, V of comparisons), not over its rows.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from marcir.labels.overlap import jaccard_of_counts, shared_labels


@dataclass(frozen=True, eq=False)
class LabelSets:
    """Some anchor label sets, and all comparison label sets with the number of rows that have each.

    Attributes:
        y: Label sets of anchors. (U, L)
        y_other: Label sets of comparisons. (V, L)
        sizes: Comparisons that have each set. (V,)
        own: The set of the anchor's own row, which is no comparison; -1 for none. (U,)
    """

    y: Tensor
    y_other: Tensor
    sizes: Tensor
    own: Tensor

    @classmethod
    def from_rows(cls, y: Tensor, y_other: Tensor, own: Tensor) -> "LabelSets":
        """Treat every row as its own set: plain (B, A) matrices, for diagnosis."""
        return cls(y, y_other, y_other.new_ones(len(y_other)), own)

    @cached_property
    def multiplicity(self) -> Tensor:
        """Number of comparisons of each set, without the anchor's own row. (U, V)"""
        m = self.sizes.to(self.y.dtype).expand(len(self.y), -1).clone()
        has_own = (self.own >= 0).to(m.dtype)[:, None]
        return m.scatter_add_(1, self.own.clamp_min(0)[:, None], -has_own)

    @cached_property
    def partners(self) -> Tensor:
        """|P_k(i)|, the comparisons with label k of the anchor; 0 where k is not the anchor's. (U, L)"""
        return self.y * (self.multiplicity @ self.y_other)

    @cached_property
    def shared(self) -> Tensor:
        """Number of shared labels. (U, V)"""
        return shared_labels(self.y, self.y_other)

    @cached_property
    def n(self) -> Tensor:
        """Number of labels of anchors. (U,)"""
        return self.y.sum(1)

    @cached_property
    def n_other(self) -> Tensor:
        """Number of labels of comparisons. (V,)"""
        return self.y_other.sum(1)

    @cached_property
    def J(self) -> Tensor:
        """Jaccard overlap. (U, V)"""
        return jaccard_of_counts(self.shared, self.n, self.n_other)

    def sum_over_others(self, matrix: Tensor) -> Tensor:
        """sum_{a in A(i)} M_ia over the comparisons themselves, not over their sets. (U, V) -> (U,)"""
        return (matrix * self.multiplicity).sum(1)

    def share_of_others(self, matrix: Tensor) -> Tensor:
        """M_ip / sum_{a in A(i)} M_ia; a row without positives stays zero. (U, V) -> (U, V)"""
        total = self.sum_over_others(matrix)[:, None]
        return torch.where(total > 0, matrix / torch.where(total > 0, total, 1), 0)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Weights and temperatures of every pair of label sets.

    Attributes:
        W: Pair weights. (U, V)
        T: Temperatures, for each pair or for all. (U, V)
        count: What an anchor of each set adds to the number that the sum is divided by. (U,)
        constant: What an anchor of each set adds to the sum without any gradient. (U,)
    """

    W: Tensor
    T: Tensor | float
    count: Tensor
    constant: Tensor | None = None


def labelwise_shares(sets: LabelSets) -> Tensor:
    """c_ip = sum over shared labels k of 1 / |P_k(i)|  (the inner means of Eq. 3). (U, V)"""
    P = sets.partners  # (U, L)
    return torch.where(P > 0, P.reciprocal(), 0) @ sets.y_other.T


def valid_labels(sets: LabelSets) -> Tensor:
    """Number of an anchor's labels that have a partner, |{k in y_i: P_k(i) not empty}|. (U,)"""
    return (sets.partners > 0).sum(1).to(sets.y.dtype)


def has_positives(W: Tensor, sets: LabelSets) -> Tensor:
    """1 for an anchor with a positive pair among its comparisons, else 0 (Reading R2). (U,)"""
    return ((W > 0) & (sets.multiplicity > 0)).any(1).to(W.dtype)


def anchor_mean(W: Tensor, sets: LabelSets, T: Tensor | float) -> Pairs:
    """Pairs of a loss that is a mean over the anchors with a positive."""
    return Pairs(W, T, has_positives(W, sets))
