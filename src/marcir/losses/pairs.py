"""Pairs of label sets: the terms that the losses of this family are sums of.

Rows with equal label sets have equal weights and temperatures, so every matrix here is over the distinct
label sets of a batch (U of anchors, V of comparisons), not over its rows. Where labels are unknown, a label
set is a pair of sets, the labels present and the labels known (Reading R24). Where few of these are equal,
every row is a set.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from marcir.labels.overlap import intersection_sizes, known_union_sizes
from marcir.labels.sets import distinct_sets


@dataclass(frozen=True, eq=False)
class LabelSets:
    """Some anchor label sets, and all comparison label sets with the number of rows that have each.

    Attributes:
        y: Label sets of anchors. (U, L)
        y_other: Label sets of comparisons. (V, L)
        sizes: Comparisons that have each set. (V,)
        own: The set of the anchor's own row, which is no comparison; -1 for none. (U,)
        known: Labels known of anchors; None where all are. (U, L)
        known_other: Labels known of comparisons. (V, L)
    """

    y: Tensor
    y_other: Tensor
    sizes: Tensor
    own: Tensor
    known: Tensor | None = None
    known_other: Tensor | None = None

    @classmethod
    def from_rows(
        cls, y: Tensor, y_other: Tensor, own: Tensor, unknowns: bool, sizes: Tensor | None = None
    ) -> Self:
        """Label sets from labels that may be unknown (-1); without sizes, every row is its own set."""
        sizes = y_other.new_ones(len(y_other)) if sizes is None else sizes
        if not unknowns:
            return cls(y, y_other, sizes, own)
        known, known_other = (y >= 0).to(y.dtype), (y_other >= 0).to(y.dtype)
        return cls(y.clamp_min(0), y_other.clamp_min(0), sizes, own, known, known_other)

    def anchors(self, rows: slice) -> Self:
        """The same comparisons with some of the anchors."""
        known = None if self.known is None else self.known[rows]
        return replace(self, y=self.y[rows], own=self.own[rows], known=known)

    @cached_property
    def multiplicity(self) -> Tensor:
        """Number of rows of each set, without the anchor's own row. (U, V)"""
        m = self.sizes.to(self.y.dtype).expand(len(self.y), -1).clone()
        return m.scatter_add_(1, self.own.clamp_min(0)[:, None], -self.has_own)

    @property
    def has_own(self) -> Tensor:
        """1 for an anchor whose own row is among the comparisons, else 0. (U, 1)"""
        return (self.own >= 0).to(self.y.dtype)[:, None]

    @property
    def left_out(self) -> Tensor | None:
        """1 for sets that share no known label with the anchor but may share one, else 0. (U, V)

        None if all labels are known.
        """
        if self.known is None or self.known_other is None:
            return None
        # |y_i| + |y_p| - |union| - |shared| labels are present in one and unknown in the other. A shared
        # label counts more than all of these.
        at_least = torch.add(self.union, self.shared, alpha=2 * self.y.shape[1])  # (U, V)
        return at_least.sub_(self.n[:, None]).lt_(self.n_other)

    @cached_property
    def partners(self) -> Tensor:
        """|P_k(i)|, the comparisons with label k of the anchor; 0 where k is not the anchor's. (U, L)"""
        own = self.has_own * self.y_other.index_select(0, self.own.clamp_min(0))  # (U, L)
        return self.y * (self.sizes.to(self.y.dtype) @ self.y_other - own)

    @cached_property
    def shared(self) -> Tensor:
        """Number of shared labels. (U, V)"""
        return self.sum_over_shared(self.y)

    @cached_property
    def n(self) -> Tensor:
        """Number of labels of anchors. (U,)"""
        return self.y.sum(1)

    @cached_property
    def n_other(self) -> Tensor:
        """Number of labels of comparisons. (V,)"""
        return self.y_other.sum(1)

    @property
    def n_known(self) -> Tensor:
        """Number of labels of anchors that the comparison knows, |y_i n K_p|. (U, V), or (U, 1) if all"""
        return self.n[:, None] if self.known_other is None else intersection_sizes(self.y, self.known_other)

    @property
    def n_other_known(self) -> Tensor:
        """Number of labels of comparisons that the anchor knows, |y_p n K_i|. (U, V), or (V,) if all"""
        return self.n_other if self.known is None else intersection_sizes(self.known, self.y_other)

    @cached_property
    def union(self) -> Tensor:
        """Number of labels that either has and both know. (U, V)"""
        if self.known is None or self.known_other is None:
            return self.n[:, None] + self.n_other - self.shared
        return known_union_sizes(self.y, self.known, self.y_other, self.known_other)

    @cached_property
    def J(self) -> Tensor:
        """Jaccard overlap of what both know. (U, V)"""
        return self.shared / self.union.clamp_min(1)

    def sum_over_shared(self, values: Tensor) -> Tensor:
        """Sum over shared labels k of x_ik, with x_ik = 0 where k is not the anchor's. (U, L) -> (U, V)"""
        return intersection_sizes(values, self.y_other)

    def pairwise(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """f(y_i, y_p) of the labels that are present. (U, V)"""
        return function(self.y, self.y_other)

    def sum_over_others(self, matrix: Tensor) -> Tensor:
        """sum_{a in A(i)} M_ia over the comparisons themselves, not over their sets. (U, V) -> (U,)

        Where no label is shared M is 0, so it is on what is left out.
        """
        return (matrix * self.multiplicity).sum(1)

    def share_of_others(self, matrix: Tensor) -> Tensor:
        """M_ip / sum_{a in A(i)} M_ia; a row without positives stays zero. (U, V) -> (U, V)"""
        total = self.sum_over_others(matrix)[:, None]
        return matrix / torch.where(total > 0, total, torch.inf)


class LabelRows(LabelSets):
    """Label sets where every row is its own set, so that an anchor's own row can share nothing with it."""

    def sum_over_shared(self, values: Tensor) -> Tensor:
        """Sum over shared labels k of x_ik; 0 for the own row. (U, L) -> (U, V)"""
        return self.replace_own(super().sum_over_shared(values), 0)

    def pairwise(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """f(y_i, y_p), once for rows with the same labels present, whatever is known besides. (U, V)"""
        anchors, others = distinct_sets(self.y), distinct_sets(self.y_other)
        of_sets = function(self.y[anchors.first], self.y_other[others.first])
        return of_sets.index_select(1, others.index).index_select(0, anchors.index)

    def sum_over_others(self, matrix: Tensor) -> Tensor:
        """sum_{a in A(i)} M_ia, where M is 0 if no label is shared. (U, V) -> (U,)"""
        return matrix.sum(1)

    def replace_own(self, matrix: Tensor, value: float) -> Tensor:
        """Write a value where the comparison is the anchor's own row, in place. (U, V)"""
        own = self.own.clamp_min(0)[:, None]
        return matrix.scatter_(1, own, torch.where(self.has_own > 0, value, matrix.gather(1, own)))


def no_comparison(sets: LabelSets) -> Tensor:
    """Of `LabelSets.from_rows`: where a row is the anchor itself or left out, so not in A(i). (B, A)"""
    is_own = torch.arange(len(sets.y_other), device=sets.own.device) == sets.own[:, None]
    return is_own if sets.left_out is None else is_own.logical_or_(sets.left_out)


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
    return sets.sum_over_shared(torch.where(P > 0, P.reciprocal(), 0))


def valid_labels(sets: LabelSets) -> Tensor:
    """Number of an anchor's labels that have a partner, |{k in y_i: P_k(i) not empty}|. (U,)"""
    return (sets.partners > 0).sum(1).to(sets.y.dtype)


def has_positives(W: Tensor, sets: LabelSets) -> Tensor:
    """1 for an anchor with a positive pair among its comparisons, else 0 (Reading R2). (U,)"""
    return (sets.sum_over_others(W) > 0).to(W.dtype)


def anchor_mean(W: Tensor, sets: LabelSets, T: Tensor | float) -> Pairs:
    """Pairs of a loss that is a mean over the anchors with a positive."""
    return Pairs(W, T, has_positives(W, sets))
