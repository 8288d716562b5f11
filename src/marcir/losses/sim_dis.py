"""Sim-Dis: positives weighed by what they share with the anchor and by what they have besides."""

from typing import Literal, get_args

import torch
from torch import Tensor

from marcir.checks import check_choice, check_positive
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean, has_positives

Placement = Literal["outside", "inside"]


class SimDisLoss(PairLoss):
    """Sim-Dis: SupCon ANY with a factor for similarity and dissimilarity of the label sets.

    L = mean over valid anchors of 1/|P(i)| sum_{p in P(i)} -g_ip log p_ip
    g_ip = |y_i n y_p| / |y_i| * 1 / (1 + |y_p \\ y_i|), of what both know

    Args:
        tau: Temperature.
        placement: `outside` the logarithm, or `inside`: -log(g_ip p_ip), whose gradient is SupCon ANY's.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(
        self, tau: float = 0.3, placement: Placement = "outside", chunk_size: int | None = None
    ) -> None:
        super().__init__(chunk_size)
        self.tau = check_positive("tau", tau)
        self.placement = check_choice("placement", placement, get_args(Placement))

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ip = g_ip / |P(i)|, T = tau; `inside`: W_ip = 1 / |P(i)| and a constant."""
        P = sets.share_of_others((sets.shared > 0).to(sets.J.dtype))  # (U, V)
        if self.placement == "outside":
            return anchor_mean(P * self.weights(sets), sets, self.tau)
        g = similarity_dissimilarity(sets)
        constant = sets.sum_over_others(-P * torch.where(g > 0, g, 1).log())
        return Pairs(P, self.tau, has_positives(P, sets), constant)

    def weights(self, sets: LabelSets) -> Tensor | float:
        """g_ip as a factor outside the logarithm. (U, V)"""
        if self.placement == "inside":
            return super().weights(sets)
        return similarity_dissimilarity(sets)


def similarity_dissimilarity(sets: LabelSets) -> Tensor:
    """g_ip = |y_i n y_p| / |y_i| * 1 / (1 + |y_p \\ y_i|), of what both know. (U, V)"""
    r = sets.shared
    return r / sets.n_known.clamp_min(1) / (1 + sets.n_other_known - r)
