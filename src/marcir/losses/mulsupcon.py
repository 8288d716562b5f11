"""MulSupCon: one SupCon for each label of an anchor, in one matrix product."""

from marcir.losses.pair_loss import OneTemperatureLoss
from marcir.losses.pairs import LabelSets, Pairs, labelwise_shares, valid_labels


class MulSupConLoss(OneTemperatureLoss):
    """MulSupCon: mean over valid (anchor, label) pairs of l_ik.

    l_ik = 1/|P_k(i)| sum_{p in P_k(i)} -log p_ip,  P_k(i) = {p in A(i): k in y_p}
    """

    def pairs(self, sets: LabelSets) -> Pairs:
        """W = c, T = tau, one count for each valid label."""
        return Pairs(labelwise_shares(sets), self.tau, valid_labels(sets))


class WgMulSupConLoss(MulSupConLoss):
    """Wg-MulSupCon: the mean of l_ik over an anchor's valid labels first, then over anchors."""

    def pairs(self, sets: LabelSets) -> Pairs:
        """W = c / valid labels, T = tau, one count for each valid anchor."""
        return mean_of_each_anchor(super().pairs(sets))


def mean_of_each_anchor(pairs: Pairs) -> Pairs:
    """From a mean over (anchor, label) pairs to a mean over anchors of the mean over labels."""
    labels = pairs.count.clamp_min(1)[:, None]
    return Pairs(pairs.W / labels, pairs.T, (pairs.count > 0).to(pairs.W.dtype))
