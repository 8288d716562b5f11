"""Base class of losses that are one weighted log-softmax over pairs, with the weights from `pairs`."""

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from marcir.checks import check_int, check_positive
from marcir.labels.sets import DistinctSets, distinct_sets
from marcir.losses.base import MultiLabelLoss
from marcir.losses.contrast import KEPT_ELEMENTS, PairTable, contrast
from marcir.losses.inputs import Comparison
from marcir.losses.pairs import LabelRows, LabelSets, Pairs

# Pairs per block on a GPU: enough to be worth a kernel launch.
_BLOCK_ELEMENTS_ELSEWHERE = 1 << 25
_FEWEST_ROWS = 64
# Below this 1/T is practically infinite.
LEAST_T = 1e-6
# With unknown labels, tables of label sets are faster than those of rows from so many comparisons on, and up
# to so many sets per comparison.
_MANY_ROWS, _FEW_SETS = 256, 0.4
# Elements of the weights of label sets before they are expanded to rows.
_TABLE_ELEMENTS = 1 << 20
# The same of rows with unknown labels: at a batch of 1,024, 2^17 and 2^18 are slower (more calls).
_ROW_TABLE_ELEMENTS = 1 << 19


class PairLoss(MultiLabelLoss):
    """L = sum_i -sum_p W_ip log softmax_a(s_ia / T_ia)_p / count, with W, T and count from `pairs`.

    Args:
        chunk_size: Anchors that are worked on at a time; memory grows with chunk_size x comparisons. By
            default it is chosen for speed, and memory stays bounded as well.
    """

    def __init__(self, chunk_size: int | None = None) -> None:
        super().__init__()
        self.chunk_size = None if chunk_size is None else check_int("chunk_size", chunk_size, 1)

    @abstractmethod
    def pairs(self, sets: LabelSets) -> Pairs:
        """Weights, temperatures and counts of label-set pairs."""

    def weights(self, sets: LabelSets) -> Tensor | float:
        """w_ip of positive pairs, without their share of a mean: 1 unless a loss weights pairs. (U, V)"""
        return 1.0

    def influence(self, sets: LabelSets) -> Tensor:
        """gamma_ip = w_ip / T_ip of positive pairs, 0 elsewhere: the influence of a pair. (U, V)"""
        pairs = self.pairs(sets)
        gamma = torch.as_tensor(self.weights(sets) / pairs.T, dtype=sets.y.dtype, device=sets.y.device)
        return torch.where(pairs.W > 0, gamma, 0)

    def valid_anchors(self, comparison: Comparison) -> Tensor:
        """Anchors that add to the count. (B,)"""
        tables = tables_of(self, comparison)
        valid = torch.cat([table.count[table.index] > 0 for table in tables])  # in the tables' order
        return valid if tables.order is None else torch.empty_like(valid).index_copy_(0, tables.order, valid)

    def terms(self, comparison: Comparison, log_beta: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One sum over anchors and the count it is divided by.

        Args:
            comparison: Anchors and comparisons.
            log_beta: Logarithm of each comparison's weight in the softmax, see `contrast`. (A,)
        """
        tables = tables_of(self, comparison)
        z, z_other, own = comparison.z, comparison.z_other, comparison.own
        if tables.order is not None:
            z, own = z[tables.order], own[tables.order]
        rows = self.chunk_size or max(_FEWEST_ROWS, _block_elements(z.device) // len(z_other))
        value = contrast(z, z_other, own, tables.sets, tables, rows, log_beta)
        return (value + tables.constant)[None], tables.count[None]


class OneTemperatureLoss(PairLoss):
    """A loss over pairs with the same temperature for all of them.

    Args:
        tau: Temperature.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(self, tau: float = 0.3, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self.tau = check_positive("tau", tau)


def tables_of(loss: PairLoss, comparison: Comparison) -> "Tables":
    """The tables of a batch: of its label sets, or of its rows where unknown labels make too many sets."""
    rows, unknowns = len(comparison.y_other), comparison.unknowns
    if unknowns and rows < _MANY_ROWS:
        return RowTables(loss, comparison)
    others = distinct_sets(_states(comparison.y_other, unknowns))
    if unknowns and len(others.sizes) > _FEW_SETS * rows:
        return RowTables(loss, comparison)
    return Tables(loss, comparison, others)


def _block_elements(device: torch.device) -> int:
    return KEPT_ELEMENTS if device.type == "cpu" else _BLOCK_ELEMENTS_ELSEWHERE


class Tables:
    """The pairs of a batch, computed for its distinct label sets, some anchor sets at a time.

    Where one table would be too large, anchors are taken in the `order` of their label sets, so that each
    table needs few of them. `count` and `constant` are complete when all tables have been taken.
    """

    def __init__(self, loss: PairLoss, comparison: Comparison, others: DistinctSets) -> None:
        self.loss = loss
        self.comparison = comparison
        y, own = comparison.y, comparison.own
        self.others = others
        self.anchors = (
            others
            if comparison.y is comparison.y_other
            else distinct_sets(
                torch.cat([_states(y, comparison.unknowns), (own >= 0).to(y.dtype)[:, None]], 1)
            )
        )
        self.sets_at_once = max(1, _TABLE_ELEMENTS // len(comparison.y_other))
        one_table = len(self.anchors.sizes) <= self.sets_at_once
        self.order = None if one_table else self.anchors.index.argsort(stable=True)  # (B,)
        self.sets: Tensor | None = self.others.index  # (A,)
        self.count = y.new_zeros(())
        self.constant = y.new_zeros(())

    def __iter__(self) -> Iterator[PairTable]:
        if self.order is None:
            yield self._table(slice(None), self.anchors.index)
            return
        index = self.anchors.index[self.order]  # (B,) rising
        ends = [0, *self.anchors.sizes.cumsum(0).tolist()]  # where the anchors of each set end
        for first in range(0, len(ends) - 1, self.sets_at_once):
            last = min(first + self.sets_at_once, len(ends) - 1)
            yield self._table(slice(first, last), index[ends[first] : ends[last]] - first)

    def _table(self, kinds: slice, index: Tensor) -> PairTable:
        """The table of some anchor label sets; adds them to the counts."""
        first = self.anchors.first[kinds]
        own = self.comparison.own[first]
        y = self.comparison.y[first]
        same = self.anchors is self.others and self.order is None
        sets = LabelSets.from_rows(
            y,
            y if same else self.comparison.y_other[self.others.first],
            torch.where(own >= 0, self.others.index[own], -1),
            self.comparison.unknowns,
            self.others.sizes,
        )
        pairs = self._pairs(sets, self.anchors.sizes[kinds].to(y.dtype))
        # A set that only the anchor has is no partner: its weight must not rely on cancellation later.
        W = pairs.W.masked_fill(sets.multiplicity == 0, 0)
        return PairTable(
            index=index,
            W=W,
            k=sets.sum_over_others(W),
            W_own=W.gather(1, sets.own.clamp_min(0)[:, None]).squeeze(1) * (sets.own >= 0),
            count=pairs.count,
            inverse_T=_inverse(pairs.T),
            left_out=sets.left_out,
        )

    def _pairs(self, sets: LabelSets, anchors: Tensor) -> Pairs:
        """The pairs of label sets; adds their anchors, so many of each set, to the counts. (U,)"""
        pairs = self.loss.pairs(sets)
        self.count += anchors @ pairs.count
        if pairs.constant is not None:
            self.constant += anchors @ pairs.constant
        return pairs


class RowTables(Tables):
    """The pairs of a batch with unknown labels, some anchors at a time: every row is its own label set."""

    def __init__(self, loss: PairLoss, comparison: Comparison) -> None:
        self.loss = loss
        self.comparison = comparison
        self.order = self.sets = None
        self.count = comparison.y.new_zeros(())
        self.constant = comparison.y.new_zeros(())

    def __iter__(self) -> Iterator[PairTable]:
        y, y_other = self.comparison.y, self.comparison.y_other
        batch = LabelRows.from_rows(y, y_other, self.comparison.own, unknowns=True)
        step = max(1, _ROW_TABLE_ELEMENTS // len(y_other))
        step = min(step, self.loss.chunk_size or step)
        for start in range(0, len(y), step):
            yield self._table_of_rows(batch.anchors(slice(start, start + step)))

    def _table_of_rows(self, sets: LabelRows) -> PairTable:
        """The table of some anchors; adds them to the counts."""
        left_out = sets.left_out
        pairs = self._pairs(sets, torch.ones_like(sets.n))
        return PairTable(
            index=torch.arange(len(sets.y), device=sets.y.device),
            W=pairs.W,  # (R, A)  0 for the own row, which shares nothing
            k=pairs.W.sum(1),
            W_own=torch.zeros_like(sets.n),
            count=pairs.count,
            inverse_T=_inverse(pairs.T),
            left_out=None if left_out is None else sets.replace_own(left_out, 1),
        )


def _states(y: Tensor, unknowns: bool) -> Tensor:
    """Labels as 0 and 1, where labels may be unknown twice as many: present, and unknown. (B, L), (B, 2 L)"""
    return torch.cat([y > 0, y < 0], 1) if unknowns else y


def _inverse(T: Tensor | float) -> Tensor | float:
    """1 / T, finite. (U, V)"""
    return T.clamp_min(LEAST_T).reciprocal_() if isinstance(T, Tensor) else 1 / max(T, LEAST_T)
