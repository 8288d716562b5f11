"""Calibrated MARC, ours: MARC's idea with a temperature that rises with the overlap."""

import torch
from torch import Tensor

from marcir.checks import check_bool, check_finite, check_fraction, check_not_negative, check_positive
from marcir.errors import ConfigError
from marcir.labels.statistics import LabelStatistics
from marcir.losses.frequencies import TrainingFrequencies
from marcir.losses.marc import pair_weights
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, Pairs, anchor_mean, labelwise_shares


class CalibratedMARCLoss(PairLoss):
    """Calibrated MARC: targets that count labels which are not shared, temperatures that rise with overlap.

    L = mean over anchors with a positive of -sum_p W_ip log softmax_a(s_ia / T_ia)_p
    W_ip = (1 - mix) a_ip + mix b_ip                  rows sum to 1
    a_ip = c_ip w_ip J_ip^gamma, b_ip = |y_i n y_p|   each normalised over p
    T_ia = tau exp(-delta (1 - J_ia))

    At a row's optimum s_ia = T_ia (log W_ia + const): MARC's falling temperature asks a *lower* cosine of the
    best pairs, a rising one does not.

    Args:
        statistics: Label statistics of the training split; needed with `plr`.
        tau: Temperature of a full match.
        delta: How much lower the temperature of a disjoint pair is.
        gamma: Exponent of the overlap in a_ip.
        mix: Share of b_ip in the weights.
        plr: Whether w_ip weighs pairs by rarity as in MARC; off: w = 1.
        eps: Guards the division in w.
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(
        self,
        statistics: LabelStatistics | None = None,
        tau: float = 0.2,
        delta: float = 0.5,
        gamma: float = 1.0,
        mix: float = 0.5,
        plr: bool = False,
        eps: float = 1e-8,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(chunk_size)
        self.tau = check_positive("tau", tau)
        self.delta = check_finite("delta", delta)
        self.gamma = check_not_negative("gamma", gamma)
        self.mix = check_fraction("mix", mix)
        self.eps = check_not_negative("eps", eps)
        self.frequencies: TrainingFrequencies | None = None
        if check_bool("plr", plr):
            if statistics is None:
                raise ConfigError("plr = True needs `statistics`, the LabelStatistics of the training split.")
            self.frequencies = TrainingFrequencies(statistics, "joint", "mean", "count")
            self.num_labels = statistics.num_labels

    def pairs(self, sets: LabelSets) -> Pairs:
        """W, T, one count for each anchor with a positive."""
        c = labelwise_shares(sets)  # (U, V)
        w = self.weights(sets)  # (U, V)
        # In place: with unknown labels these are large, and new memory takes longer than the products.
        a = sets.share_of_others(c.mul_(w).mul_(sets.J**self.gamma))  # (U, V)
        b = sets.share_of_others(sets.shared)  # (U, V)
        W = a.mul_(1 - self.mix).add_(b.mul_(self.mix))  # (U, V)
        return anchor_mean(W, sets, calibrated_temperatures(sets.J, self.tau, self.delta))

    def weights(self, sets: LabelSets) -> Tensor | float:
        """w_ip, meant for positive pairs. (U, V)"""
        f = self.frequencies
        if f is None:
            return 1.0
        return sets.pairwise(lambda y, y_other: pair_weights(f.of_pairs(y, y_other), self.eps))


def calibrated_temperatures(J: Tensor, tau: float = 0.2, delta: float = 0.5) -> Tensor:
    """T_ia = tau exp(-delta (1 - J_ia)).

    >>> calibrated_temperatures(torch.tensor([0.0, 1.0]))
    tensor([0.1213, 0.2000])
    """
    # In place: new memory takes longer than the exponentials.
    return torch.exp_((1 - J).mul_(-delta)).mul_(tau)
