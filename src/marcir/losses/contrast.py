"""Weighted log-softmax over pairs, with a closed-form gradient, by row blocks.

    L = -sum_ip W_ip log softmax_a(s_ia / T_ia)_p
      =  sum_i k_i log sum_a exp(s_ia / T_ia)  -  sum_ip W_ip s_ip / T_ip,      k_i = sum_p W_ip

Weights and temperatures depend on label sets only. So the second sum, which pulls, is linear in the sums
of embeddings over equal label sets and costs next to nothing; only the first, which pushes, needs every
pair. With p the softmax, dL/ds_ia = (k_i p_ia - W_ia) / T_ia.

Comparisons may have weights beta_a of their own in the softmax, beta_a exp(s_ia / T_ia): log beta_a is then
added to the logits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from threading import local
from typing import Any

import torch
from torch import Tensor

from marcir.errors import BatchError

# Logit of what is not a comparison: exp() of it is exactly 0 relative to any cosine, and it is finite, so
# that a row without comparisons does not become NaN.
MASKED = -1e30
# Relative to the largest logit of a row, what is below is nothing.
_LEAST_LOGIT = -80.0
# A block of this many pairs, in float32, fits the cache of a CPU.
KEPT_ELEMENTS = 1 << 19


@dataclass(frozen=True, eq=False)
class PairTable:
    """Consecutive anchors, and what their label sets want of the label sets of all comparisons.

    Attributes:
        index: The label set of each anchor, a row of the matrices below. (R,)
        W: Pair weights. (U, V)
        k: The sum of W over an anchor's comparisons. (U,)
        W_own: The entry of W for the anchor's own row, which is no comparison; 0 if it has none. (U,)
        inverse_T: 1 / temperature, for each pair or for all. (U, V)
        count: What an anchor adds to the number that the sum is divided by. (U,)
        left_out: Only where labels are unknown: 1 for what an anchor is not compared with and, where every
            row is a label set, for itself; else 0. (U, V)
    """

    index: Tensor
    W: Tensor
    k: Tensor
    W_own: Tensor
    inverse_T: Tensor | float
    count: Tensor
    left_out: Tensor | None = None


@torch.compiler.disable  # type: ignore[untyped-decorator]
def contrast(
    z: Tensor,
    z_other: Tensor,
    own: Tensor,
    sets: Tensor | None,
    tables: Iterable[PairTable],
    rows_at_once: int,
    log_beta: Tensor | None = None,
) -> Tensor:
    """-sum_i sum_p W_ip log softmax_a(s_ia / T_ia + log beta_a)_p, with s_ia = z_i . z_a, over a != own_i.

    Comparisons that a table leaves out are not compared either.

    Value and gradient are computed block by block in one pass, so that no (B, A) matrix is ever kept. No
    gradient flows through W or T, and there is no second derivative.

    Args:
        z: Anchors. (B, D)
        z_other: Comparisons. (A, D)
        own: The comparison to leave out for each anchor, -1 for none. (B,)
        sets: The label set of each comparison, a column of W and T; None where each is its own column. (A,)
        tables: W and T of all anchors, in order.
        rows_at_once: Anchors of one block.
        log_beta: Logarithm of each comparison's weight in the softmax; 0 for all by default. (A,)
    """
    wanted = (z.requires_grad, z_other.requires_grad) if torch.is_grad_enabled() else (False, False)
    value: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
        z, z_other, own, sets, tables, rows_at_once, log_beta, wanted
    )
    return value


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        z_other: Tensor,
        own: Tensor,
        sets: Tensor | None,
        tables: Iterable[PairTable],
        rows_at_once: int,
        log_beta: Tensor | None,
        wanted: tuple[bool, bool],
    ) -> Tensor:
        sums = _Sums(z, z_other, own, sets, log_beta, wanted)
        for table in tables:
            sums.add(table, rows_at_once)
            del table  # the next one gets its memory, which is warm
        ctx.save_for_backward(*sums.gradients())
        return sums.value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: a wrong second derivative would go unnoticed
            raise BatchError(
                "losses over pairs have no second derivative. Call backward without create_graph."
            )
        grad_z, grad_other = ctx.saved_tensors
        return (
            None if grad_z is None else grad * grad_z,
            None if grad_other is None else grad * grad_other,
            *[None] * 6,
        )


class _Sums:
    """Value and gradients of one `contrast`, accumulated table by table."""

    def __init__(
        self,
        z: Tensor,
        z_other: Tensor,
        own: Tensor,
        sets: Tensor | None,
        log_beta: Tensor | None,
        wanted: tuple[bool, bool],
    ) -> None:
        self.z, self.z_other, self.sets, self.log_beta = z, z_other, sets, log_beta
        self.has_own, self.own = (own >= 0)[:, None], own.clamp_min(0)[:, None]  # (B, 1)
        self.value = z.new_zeros(())
        self.start = 0
        # A batch that is compared with itself has one gradient.
        self.in_batch = z is z_other
        self.grad_z = torch.zeros_like(z) if wanted[0] else None
        other = self.grad_z if self.in_batch else torch.zeros_like(z_other)
        self.grad_other = other if wanted[1] else None
        if sets is None:
            return
        num_sets = int(sets.max()) + 1
        self.z_other_sums = _sums_of_sets(z_other, sets, num_sets)  # (V, D)
        self.grad_other_sums = torch.zeros_like(self.z_other_sums)  # (V, D)
        self.log_beta_sums = None if log_beta is None else _sums_of_sets(log_beta[:, None], sets, num_sets)

    def add(self, table: PairTable, rows_at_once: int) -> None:
        """Add the anchors of one table."""
        rows = slice(self.start, self.start + len(table.index))
        self.start = rows.stop
        if table.left_out is not None and self.sets is None:
            self._pull_and_push(rows, table, table.left_out)
            return
        self._pull(table, rows)
        inverse_T, left_out = table.inverse_T, table.left_out
        if self.sets is not None:
            if isinstance(inverse_T, Tensor):
                inverse_T = inverse_T.index_select(1, self.sets)  # (U, A)
            if left_out is not None:
                left_out = left_out.index_select(1, self.sets)  # (U, A)
        for start in range(rows.start, rows.stop, rows_at_once):
            block = slice(start, min(start + rows_at_once, rows.stop))
            index = table.index[block.start - rows.start : block.stop - rows.start]
            self._push(
                block,
                self._rows_of("T", inverse_T, index) if isinstance(inverse_T, Tensor) else inverse_T,
                None if left_out is None else self._rows_of("left_out", left_out, index),
                table.k.index_select(0, index)[:, None],
                table.W_own.index_select(0, index)[:, None],
            )

    def _pull(self, table: PairTable, rows: slice) -> None:
        """-sum_ip W_ip s_ip / T_ip, from sums of embeddings over label sets; own rows still among them."""
        same_sets = self.in_batch and table.index is self.sets
        z_sums = self.z_other_sums
        if not same_sets:
            z_sums = _sums_of_sets(self.z[rows], table.index, len(table.W))  # (U, D)
        Q = table.W * table.inverse_T  # (U, V)
        pulled = Q @ self.z_other_sums  # (U, D)
        self.value -= torch.dot(pulled.view(-1), z_sums.view(-1))
        if self.log_beta_sums is not None:
            self.value -= (table.W @ self.log_beta_sums).index_select(0, table.index).sum()
        self.grad_other_sums.addmm_(Q.T, z_sums, alpha=-1)
        if same_sets:
            self.grad_other_sums.sub_(pulled)
        elif self.grad_z is not None:
            self.grad_z[rows].sub_(pulled.index_select(0, table.index))

    def _push(
        self, rows: slice, inverse_T: Tensor | float, left_out: Tensor | None, k: Tensor, W_own: Tensor
    ) -> None:
        """sum_i k_i log sum_a exp(s_ia / T_ia), pair by pair; takes own rows out of what pulls."""
        z, own = self.z[rows], self.own[rows]  # (R, D), (R, 1)
        logits = _matrix("logits", len(z), self.z_other)  # (R, A)
        torch.mm(z, self.z_other.T, out=logits).mul_(inverse_T)
        if self.log_beta is not None:
            logits.add_(self.log_beta)
        own_logits = logits.gather(1, own)  # (R, 1)
        if left_out is None:
            logits.scatter_(1, own, torch.where(self.has_own[rows], MASKED, own_logits))
            largest = logits.amax(1, keepdim=True)  # (R, 1)
            e = logits.sub_(largest).exp_()  # (R, A)
            total = e.sum(1, keepdim=True)  # (R, 1)
        else:
            left_out.scatter_(1, own, left_out.gather(1, own).masked_fill_(self.has_own[rows], 1))
            largest, e, total = _exponentials(logits, left_out)
        self.value += (k * (largest + total.log()) + W_own * own_logits).sum()
        if self.grad_z is None and self.grad_other is None:
            return
        G = e.mul_(k / total)  # (R, A)  k p
        G.scatter_add_(1, own, W_own).mul_(inverse_T)  # (R, A)  dL/ds, less what `_pull` has
        self._add_gradient(rows, G)

    def _pull_and_push(self, rows: slice, table: PairTable, left_out: Tensor) -> None:
        """sum_i k_i log sum_a exp(s_ia / T_ia) - sum_p W_ip s_ip / T_ip, pair by pair; W = 0 outside A(i)."""
        W, inverse_T, k = table.W, table.inverse_T, table.k[:, None]
        logits = _matrix("logits", len(W), self.z_other)  # (R, A)
        torch.mm(self.z[rows], self.z_other.T, out=logits).mul_(inverse_T)
        if self.log_beta is not None:
            logits.add_(self.log_beta)
        self.value -= torch.dot(W.view(-1), logits.view(-1))
        largest, e, total = _exponentials(logits, left_out)
        self.value += (k * (largest + total.log())).sum()
        if self.grad_z is not None or self.grad_other is not None:
            self._add_gradient(rows, e.mul_(k / total).sub_(W).mul_(inverse_T))  # (R, A)  dL/ds

    def _add_gradient(self, rows: slice, G: Tensor) -> None:
        """Add what dL/ds of some anchors gives the embeddings. (R, A)"""
        if self.grad_z is not None:
            self.grad_z[rows].addmm_(G, self.z_other)
        if self.grad_other is not None:
            self.grad_other.addmm_(G.T, self.z[rows])

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of z and z_other, after all tables were added."""
        if self.grad_other is not None and self.sets is not None:  # rows with unknown labels have no sums
            self.grad_other.add_(self.grad_other_sums.index_select(0, self.sets))
        return self.grad_z, None if self.in_batch else self.grad_other

    def _rows_of(self, name: str, matrix: Tensor, index: Tensor) -> Tensor:
        """The rows of anchors, in a scratch matrix. (U, A) -> (R, A)"""
        return torch.index_select(matrix, 0, index, out=_matrix(name, len(index), self.z_other))


def _exponentials(logits: Tensor, left_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The largest logit of each row among its comparisons, exp(logit - largest), and its sum; in place.

    Args:
        logits: Logits of all pairs. (R, A)
        left_out: 0 for comparisons, 1 for what is none. (R, A)
    """
    largest = logits.add_(left_out, alpha=MASKED).amax(1, keepdim=True)  # (R, 1)
    # exp() of less is slow on a CPU and lost in the sum.
    e = logits.sub_(largest).clamp_min_(_LEAST_LOGIT).exp_()  # (R, A)
    e.addcmul_(e, left_out, value=-1)  # exactly 0 where nothing is compared
    total = e.sum(1, keepdim=True).clamp_min_(1)  # (R, 1)  1 where there is nothing to compare
    return largest, e, total


def _sums_of_sets(z: Tensor, index: Tensor, sets: int) -> Tensor:
    """Sum of the embeddings of each label set. (B, D), (B,) -> (U, D)"""
    return z.new_zeros(sets, z.shape[1]).index_add_(0, index, z)


# The (R, A) matrices of a block, kept from step to step on a CPU: fresh pages cost as much as the sums.
class _Kept(local):
    def __init__(self) -> None:
        self.matrices: dict[tuple[str, torch.dtype], Tensor] = {}


_kept = _Kept()


def _matrix(name: str, rows: int, z_other: Tensor) -> Tensor:
    """An uninitialised (rows, A) scratch matrix, one per thread and name."""
    columns = len(z_other)
    if z_other.device.type != "cpu" or rows * columns > KEPT_ELEMENTS:
        return z_other.new_empty(rows, columns)
    kept = _kept.matrices
    flat = kept.get((name, z_other.dtype))
    if flat is None:
        with torch.inference_mode(False):  # training uses it, too
            flat = kept[name, z_other.dtype] = torch.empty(KEPT_ELEMENTS, dtype=z_other.dtype, device="cpu")
    return flat[: rows * columns].view(rows, columns)
