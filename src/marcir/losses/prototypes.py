"""One learnable vector a label, and the log-probabilities that dense losses share."""

import torch
from torch import Tensor, nn

from marcir.checks import whole
from marcir.errors import ConfigError
from marcir.losses.base import MultiLabelLoss
from marcir.losses.batch import unit_length
from marcir.losses.contrast import MASKED


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
        self.num_labels = whole("num_labels", num_labels, 1)
        self.embedding_dim = whole("embedding_dim", embedding_dim, 1)
        self.prototypes = nn.Parameter(torch.empty(num_labels, embedding_dim))  # (L, D)
        if not isinstance(generator, torch.Generator | None):
            raise ConfigError(f"generator: expected a torch.Generator, found {type(generator).__name__}.")
        nn.init.xavier_uniform_(self.prototypes, generator=generator or torch.Generator().manual_seed(0))

    def unit_prototypes(self, z: Tensor) -> Tensor:
        """The prototypes at unit length, in the dtype of z. (L, D)"""
        return unit_length(self.prototypes.to(z.dtype))


def own_rows(own: Tensor, num_others: int) -> Tensor:
    """Where the comparison is the anchor itself. (B,) -> (B, A)"""
    return torch.arange(num_others, device=own.device) == own[:, None]


def similarities_of_others(z: Tensor, z_other: Tensor, is_own: Tensor, tau: float) -> Tensor:
    """s_ia / tau, with the anchor's own row masked. (B, A)"""
    return (z @ z_other.T / tau).masked_fill(is_own, MASKED)
