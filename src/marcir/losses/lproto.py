"""LProto: images pulled to the prototypes of their labels."""

import torch
from torch import Tensor

from marcir.checks import check_positive
from marcir.losses.inputs import Comparison
from marcir.losses.prototypes import PrototypeLoss


class LProtoLoss(PrototypeLoss):
    """LProto: cross-entropy over prototypes with the targets y_i / n_i.

    L = mean over labelled images of -1/n_i sum_{k in y_i} log softmax_l(z_i . c_l / tau)_k

    The softmax runs over the labels known for i. It has no comparisons: `z_other` is ignored.

    Args:
        embedding_dim: Length of an embedding, D.
        num_labels: Number of labels, L.
        tau: Temperature.
        generator: Draws the first prototypes.
    """

    def __init__(
        self,
        embedding_dim: int,
        num_labels: int,
        tau: float = 0.3,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(embedding_dim, num_labels, generator)
        self.tau = check_positive("tau", tau)

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """The sum over labelled images and their number."""
        y, c = comparison.present, self.unit_prototypes(comparison.z)
        log_q = torch.log_softmax(self.prototype_logits(comparison, c, self.tau), 1)  # (B, L)
        n = y.sum(1)  # (B,)
        loss = -(y * log_q).sum(1) / n.clamp_min(1)  # (B,)
        return loss.sum()[None], (n > 0).sum()[None]
