"""One learnable vector per label, and what dense losses share."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from marcir.checks import check_int
from marcir.errors import ConfigError
from marcir.losses.base import MultiLabelLoss
from marcir.losses.inputs import Comparison, unit_length


class PrototypeLoss(MultiLabelLoss):
    """A loss with learnable prototypes, one for each label: trained with the network, unused in retrieval.

    Args:
        embedding_dim: Length of an embedding, D.
        num_labels: Number of labels, L.
        generator: Draws the first prototypes (Xavier-uniform); a generator of its own, seeded with 0, by
            default, so that making a loss leaves the global random state alone.
    """

    def __init__(self, embedding_dim: int, num_labels: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.num_labels = check_int("num_labels", num_labels, 1)
        self.embedding_dim = check_int("embedding_dim", embedding_dim, 1)
        self.prototypes = nn.Parameter(torch.empty(num_labels, embedding_dim, device="cpu"))  # (L, D)
        if not isinstance(generator, torch.Generator | None):
            raise ConfigError(f"generator: expected a torch.Generator, found {type(generator).__name__}.")
        nn.init.xavier_uniform_(self.prototypes, generator=generator or torch.Generator().manual_seed(0))

    def unit_prototypes(self, z: Tensor) -> Tensor:
        """The prototypes at unit length, in the dtype of z. (L, D)"""
        return unit_length(self.prototypes.to(z.dtype))

    def with_prototypes(self, comparison: Comparison, as_anchors: bool = True) -> Comparison:
        """V: the prototypes join the comparisons as their last rows; prototype k has the label set {k}.

        Args:
            comparison: Images.
            as_anchors: Whether they join the anchors, too; of several processes each takes its share.
        """
        z, y = comparison.z, comparison.y
        c = self.unit_prototypes(z)  # (L, D)
        labels = torch.eye(len(c), dtype=y.dtype, device=y.device)
        z_other = torch.cat([comparison.z_other, c])  # (A + L, D)
        y_other = torch.cat([comparison.y_other, labels])  # (A + L, L)
        if not as_anchors:
            return replace(comparison, z_other=z_other, y_other=y_other)
        place = len(comparison.z_other) + torch.arange(len(c), device=z.device)
        rank, processes = comparison.process
        if processes == 1 and z is comparison.z_other and y is comparison.y_other:
            # A batch compared with itself shares its tensors, which is faster for losses over pairs.
            own = torch.cat([comparison.own, place])
            return Comparison(z_other, y_other, z_other, y_other, own, unknowns=comparison.unknowns)
        counted = slice(rank, None, processes)
        return Comparison(
            z=torch.cat([z, c[counted]]),
            y=torch.cat([y, labels[counted]]),
            z_other=z_other,
            y_other=y_other,
            own=torch.cat([comparison.own, place[counted]]),
            unknowns=comparison.unknowns,
        )

    def prototype_logits(self, comparison: Comparison, c: Tensor, tau: float) -> Tensor:
        """z_i . c_l / tau, masked where label l is unknown for i (Reading R24). (B, L)"""
        logits = comparison.z @ c.T / tau
        return masked(logits, comparison.y < 0, tau) if comparison.unknowns else logits


def masked(logits: Tensor, none: Tensor, tau: float) -> Tensor:
    """Logits s / tau; those of no comparison so low that exp() of them is lost in any sum. (B, A)"""
    return torch.where(none, -1 / tau - 60, logits)  # exp() of less is slow on a CPU
