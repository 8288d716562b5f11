"""SupCon for label sets: the positives of an anchor are those with the same set, or with a shared label."""

from marcir.losses.pair_loss import OneTemperatureLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean


class SupConAllLoss(OneTemperatureLoss):
    """SupCon ALL: positives are the images with the same label set.

    L = mean over valid anchors of 1/|P(i)| sum_{p in P(i)} -log p_ip
    P(i) = {p in A(i): y_p = y_i}
    """

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ip = [y_p = y_i] / |P(i)|, T = tau."""
        P = (sets.J == 1).to(sets.J.dtype)
        return anchor_mean(sets.share_of_others(P), sets, self.tau)


class SupConAnyLoss(OneTemperatureLoss):
    """SupCon ANY: positives are the images with at least one shared label.

    L = mean over valid anchors of 1/|P(i)| sum_{p in P(i)} -log p_ip
    P(i) = {p in A(i): y_p and y_i share a label}
    """

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ip = [y_i and y_p share a label] / |P(i)|, T = tau."""
        P = (sets.shared > 0).to(sets.J.dtype)
        return anchor_mean(sets.share_of_others(P), sets, self.tau)
