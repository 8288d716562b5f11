"""L-W/O-Reg and LReg: prototypes among the samples, and positives that are never pushed apart."""

import torch
from torch import Tensor

from marcir.checks import check_finite, check_positive
from marcir.losses.inputs import Comparison
from marcir.losses.pairs import LabelSets, no_comparison
from marcir.losses.prototypes import PrototypeLoss, masked


class LWithoutRegLoss(PrototypeLoss):
    """L-W/O-Reg: a label-wise contrast over V = batch + prototypes, where prototypes are anchors too.

    L = mean over anchors of V with any weight of -sum_j w_ij log p_ij
    w_ij = 1/n_i sum_{k shared} r_ij / sum_{l != i, k in y_l} r_il
    r_ij = (|y_i n y_j| / |y_j|)^a; for a < 0: 1 where y_j lies inside y_i, else 0

    Args:
        embedding_dim: Length of an embedding, D.
        num_labels: Number of labels, L.
        tau: Temperature.
        overlap_power: The exponent a.
        generator: Draws the first prototypes.
    """

    def __init__(
        self,
        embedding_dim: int,
        num_labels: int,
        tau: float = 0.3,
        overlap_power: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(embedding_dim, num_labels, generator)
        self.tau = check_positive("tau", tau)
        self.overlap_power = check_finite("overlap_power", overlap_power)

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """The sum over anchors with any weight, prototypes included, and their number."""
        points = self.with_prototypes(comparison)
        sets = LabelSets.from_rows(points.y, points.y_other, points.own, points.unknowns)
        none = no_comparison(sets)  # (B, A)
        logits = masked(points.z @ points.z_other.T / self.tau, none, self.tau)  # (B, A)
        w = self.weights(sets, none)  # (B, A)
        log_p = torch.log_softmax(logits, 1)
        loss = -(w * log_p).sum(1) - self.regularisation(w, log_p, logits)  # (B,)
        return loss.sum()[None], (w > 0).any(1).sum()[None]

    def regularisation(self, w: Tensor, log_p: Tensor, logits: Tensor) -> Tensor | float:
        """The regularisation that is subtracted from the loss of each anchor. (B,)"""
        return 0.0

    def weights(self, sets: LabelSets, none: Tensor) -> Tensor:
        """w_ij, 0 where j is not in A(i). (B, A)"""
        r = torch.where(none, 0, self.containments(sets))  # (B, A)
        total = sets.y * (r @ sets.y_other)  # (B, L)
        per_label = torch.where(total > 0, 1 / torch.where(total > 0, total, 1), 0)
        return r * (per_label @ sets.y_other.T) / sets.n.clamp_min(1)[:, None]

    def containments(self, sets: LabelSets) -> Tensor:
        """r_ij of pairs that share a label, over the labels of j that i knows, else 0. (B, A)"""
        inside = sets.shared / sets.n_other_known.clamp_min(1)
        r = (inside == 1).to(inside.dtype) if self.overlap_power < 0 else inside**self.overlap_power
        return torch.where(sets.shared > 0, r, 0)


class LRegLoss(LWithoutRegLoss):
    """LReg: L-W/O-Reg less what would push a positive pair apart. May be negative.

    L = L-W/O-Reg - 1/M sum_ij [w_ij > 0] max(stopgrad(p_ij) - w_ij, 0) s_ij/tau, M = its number of anchors

    So the gradient on a logit is min(p - w, 0)/M for positives and p/M for negatives.
    """

    def regularisation(self, w: Tensor, log_p: Tensor, logits: Tensor) -> Tensor:
        """sum_j [w_ij > 0] max(stopgrad(p_ij) - w_ij, 0) s_ij/tau. (B,)"""
        excess = (log_p.detach().exp() - w).clamp_min(0)  # (B, A)
        return (torch.where(w > 0, excess, 0) * logits).sum(1)
