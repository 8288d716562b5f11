"""Wrap a loss with a memory of past batches."""

from torch import Tensor

from marcir.checks import check_int
from marcir.errors import ConfigError
from marcir.losses.base import MultiLabelLoss
from marcir.losses.distributed import DistributedLoss
from marcir.losses.inputs import Comparison
from marcir.losses.lmsc import LMscLoss
from marcir.losses.lproto import LProtoLoss
from marcir.losses.memory_bank import EmbeddingQueue


class CrossBatchMemory(MultiLabelLoss):
    """Compare the anchors of a batch with past batches too.

    The comparisons are the batch (or z_other), then the past rows; the anchor's own row of this batch is
    left out. Past rows are detached, kept in training mode, and saved with the loss.

    Args:
        loss: Any loss that compares images.
        size: Past rows that are kept.

    >>> import torch
    >>> from marcir.losses import MulSupConLoss
    >>> loss = CrossBatchMemory(MulSupConLoss(), size=4096)
    >>> _ = loss(torch.eye(4), torch.eye(4).repeat_interleave(2, 1)[:, :4])
    >>> len(loss.memory.z)
    4
    """

    def __init__(self, loss: MultiLabelLoss, size: int) -> None:
        super().__init__()
        if not isinstance(loss, MultiLabelLoss):
            raise ConfigError(
                f"expected a loss of marcir, found {type(loss).__name__}. Make one with create_loss."
            )
        if isinstance(loss, LProtoLoss):
            raise ConfigError(
                "LProto compares images with prototypes only: a memory of past images would change nothing."
            )
        if isinstance(loss, LMscLoss) and loss.queue.size:
            raise ConfigError(
                f"LMsc has a queue of its own (queue_size = {loss.queue.size}): set it to 0, or leave the "
                "memory out."
            )
        if isinstance(loss, CrossBatchMemory | DistributedLoss):
            raise ConfigError(
                f"a memory goes directly around a loss, not around {type(loss).__name__}. Several processes: "
                "DistributedLoss(CrossBatchMemory(loss, size))."
            )
        self.loss = loss
        self.num_labels = loss.num_labels
        self.embedding_dim = loss.embedding_dim
        self.takes_unknown = loss.takes_unknown
        self.memory = EmbeddingQueue(check_int("size", size, 1))

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """Terms of the wrapped loss, with more comparisons."""
        terms = self.loss.terms(self.memory.append_to(comparison))
        if self.training:
            self.memory.add(comparison.z_other, comparison.y_other)
        return terms

    def reduce(self, total: Tensor, count: Tensor) -> Tensor:
        """Delegates to the wrapped loss."""
        return self.loss.reduce(total, count)

    def valid_anchors(self, comparison: Comparison) -> Tensor:
        """Valid anchors of the wrapped loss, with more comparisons. (B,)"""
        return self.loss.valid_anchors(self.memory.append_to(comparison))
