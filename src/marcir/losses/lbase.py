"""LBase: every pair pulled by its Jaccard overlap."""

from marcir.checks import positive
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean


class LBaseLoss(PairLoss):
    """LBase: Jaccard overlaps as soft targets.

    L = mean over anchors with some J > 0 of -sum_j w_ij log p_ij,  w_ij = J_ij / sum_{l in A(i)} J_il

    Args:
        tau: Temperature.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(self, tau: float = 0.3, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self.tau = positive("tau", tau)

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ij = J_ij / sum_l J_il, T = tau."""
        return anchor_mean(sets.share_of_others(sets.J), sets, self.tau)
