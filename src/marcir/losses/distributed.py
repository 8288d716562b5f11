"""A loss over the joined batch of several processes."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from marcir.errors import BatchError, ConfigError
from marcir.losses.base import MultiLabelLoss
from marcir.losses.inputs import Comparison


class DistributedLoss(MultiLabelLoss):
    """The loss of the joined batch of all processes, equal to that of one process.

    Each process takes its own rows as anchors and everybody's rows as comparisons. The value is the same on
    all of them. Gradients are scaled so that their *mean* over processes, which
    `DistributedDataParallel` and Lightning Fabric compute, is the gradient of the joined batch; prototypes
    are parameters of the loss and must be averaged in the same way. Without a process group, or with one
    process, this is the loss itself.

    Goes outside a memory: `DistributedLoss(CrossBatchMemory(loss, size))`.

    >>> from marcir.losses import MulSupConLoss
    >>> z, y = torch.eye(4), torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> bool(DistributedLoss(MulSupConLoss())(z, y) == MulSupConLoss()(z, y))
    True

    Args:
        loss: Any loss.
    """

    def __init__(self, loss: MultiLabelLoss) -> None:
        super().__init__()
        if not isinstance(loss, MultiLabelLoss):
            raise ConfigError(
                f"expected a loss of marcir, found {type(loss).__name__}. Make one with create_loss."
            )
        self.loss = loss
        self.num_labels = loss.num_labels
        self.embedding_dim = loss.embedding_dim
        self.takes_unknown = loss.takes_unknown

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """Sums and counts over all processes."""
        if not several_processes():
            return self.loss.terms(comparison)
        total, count = self.loss.terms(joined(comparison))
        sums, counts = total.detach().clone(), count.clone()
        dist.all_reduce(sums)
        dist.all_reduce(counts)
        # The value of the sum, the gradient of this process's part times their number.
        return sums + dist.get_world_size() * (total - total.detach()), counts

    def reduce(self, total: Tensor, count: Tensor) -> Tensor:
        """Delegates to the wrapped loss."""
        return self.loss.reduce(total, count)

    def valid_anchors(self, comparison: Comparison) -> Tensor:
        """The valid ones among this process's anchors. (B,)"""
        return self.loss.valid_anchors(joined(comparison) if several_processes() else comparison)


def several_processes() -> bool:
    """Whether there is a process group of more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def joined(comparison: Comparison) -> Comparison:
    """This process's anchors, compared with the rows of all processes."""
    rank, sizes = dist.get_rank(), gathered_sizes(comparison.z_other)
    own = comparison.own
    return comparison.with_others(
        z_other=_Gather.apply(comparison.z_other, sizes),  # type: ignore[no-untyped-call]
        y_other=_gather(comparison.y_other, sizes),
        own=torch.where(own >= 0, own + sum(sizes[:rank]), -1),
        process=(rank, dist.get_world_size()),
    )


def gathered_sizes(rows: Tensor) -> list[int]:
    """The number of rows on every process, which may differ."""
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    return [int(n) for n in sizes]


def _gather(rows: Tensor, sizes: list[int]) -> Tensor:
    """Gather the rows of all processes in order; padded, because collectives need equal shapes."""
    padded = rows.new_zeros(max(sizes), rows.shape[1])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


class _Gather(torch.autograd.Function):
    """`_gather` whose gradient is the sum of the gradients of all processes for these rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.start, ctx.size = sum(sizes[: dist.get_rank()]), len(rows)
        return _gather(rows, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise BatchError("DistributedLoss has no second derivative. Call backward without create_graph.")
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad[ctx.start : ctx.start + ctx.size], None
