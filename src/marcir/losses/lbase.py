"""LBase: Jaccard overlaps as soft targets of all pairs."""

from marcir.losses.pair_loss import OneTemperatureLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean


class LBaseLoss(OneTemperatureLoss):
    """LBase: Jaccard overlaps as soft targets.

    L = mean over anchors with some J > 0 of -sum_j w_ij log p_ij,  w_ij = J_ij / sum_{l in A(i)} J_il
    """

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ij = J_ij / sum_l J_il, T = tau."""
        return anchor_mean(sets.share_of_others(sets.J), sets, self.tau)
