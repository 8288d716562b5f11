"""A first-in, first-out queue of embeddings of past batches."""

import torch
from torch import Tensor

from marcir.checks import check_int
from marcir.errors import BatchError
from marcir.losses.inputs import Comparison
from marcir.losses.resizable_buffers import ResizableBuffers


class EmbeddingQueue(ResizableBuffers):
    """The last `size` embeddings and labels that were added, detached; saved with the loss.

    Args:
        size: How many are kept at most.
    """

    z: Tensor
    y: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = check_int("size", size, 0)
        # The widths are those of the first batch.
        self.register_buffer("z", torch.empty(0, 0, device="cpu"))
        self.register_buffer("y", torch.empty(0, 0, device="cpu"))

    def append_to(self, comparison: Comparison) -> Comparison:
        """Append the queue to the comparisons. (A, D), (A, L) -> (A + Q, D), (A + Q, L)"""
        if not self.size or not len(self.z):
            return comparison
        z, y = comparison.z_other, comparison.y_other
        if self.z.shape[1] != z.shape[1] or self.y.shape[1] != y.shape[1]:
            raise BatchError(
                f"the batch has {z.shape[1]} dimensions and {y.shape[1]} labels, the past batches have "
                f"{self.z.shape[1]} and {self.y.shape[1]}. Start a new memory for another network or archive."
            )
        kept = slice(-self.size, None)  # a saved queue may have been longer
        z_other, y_other = torch.cat([z, self.z[kept].to(z)]), torch.cat([y, self.y[kept].to(y)])
        return comparison.with_others(z_other, y_other)

    @torch.no_grad()
    def add(self, z: Tensor, y: Tensor) -> None:
        """Append rows and drop the oldest."""
        if not self.size:
            return
        old_z = self.z.to(z) if len(self.z) else z[:0]
        old_y = self.y.to(y) if len(self.y) else y[:0]
        self.z = torch.cat([old_z, z])[-self.size :].detach().clone()
        self.y = torch.cat([old_y, y])[-self.size :].detach().clone()
