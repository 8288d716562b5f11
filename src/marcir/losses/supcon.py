"""SupCon for label sets: the positives of an anchor are those with the same set, or with a shared label."""

from marcir.checks import positive
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean


class SupConAllLoss(PairLoss):
    """SupCon ALL: positives are the images with the same label set.

    L = mean over valid anchors of 1/|P(i)| sum_{p in P(i)} -log p_ip
    P(i) = {p in A(i): y_p = y_i}

    Args:
        tau: Temperature.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(self, tau: float = 0.3, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self.tau = positive("tau", tau)

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ip = [y_p = y_i] / |P(i)|, T = tau."""
        P = (sets.J == 1).to(sets.J.dtype)
        return anchor_mean(sets.share_of_others(P), sets, self.tau)


class SupConAnyLoss(PairLoss):
    """SupCon ANY: positives are the images with at least one shared label.

    L = mean over valid anchors of 1/|P(i)| sum_{p in P(i)} -log p_ip
    P(i) = {p in A(i): y_p and y_i share a label}

    Args:
        tau: Temperature.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(self, tau: float = 0.3, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self.tau = positive("tau", tau)

    def pairs(self, sets: LabelSets) -> Pairs:
        """W_ip = [y_i and y_p share a label] / |P(i)|, T = tau."""
        P = (sets.shared > 0).to(sets.J.dtype)
        return anchor_mean(sets.share_of_others(P), sets, self.tau)
