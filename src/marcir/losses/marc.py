"""MARC, the paper's loss, and Wg-MARC."""

from typing import Literal, get_args

import torch
from torch import Tensor

from marcir.checks import check_bool, check_choice, check_finite, check_not_negative, check_positive
from marcir.labels.statistics import (
    ANCHOR_FREQUENCIES,
    PAIR_FREQUENCIES,
    AnchorFrequency,
    LabelStatistics,
    PairFrequency,
)
from marcir.losses.frequencies import Frequency, TrainingFrequencies
from marcir.losses.mulsupcon import mean_of_each_anchor
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, Pairs, labelwise_shares, valid_labels

TauMode = Literal["direct", "scale"]


class MARCLoss(PairLoss):
    """MARC: MulSupCon with pairs weighed by rarity (PLR) and temperatures set by overlap (DTS).

    L = mean over valid (i, k) of -1/|P_k(i)| sum_{p in P_k(i)} w_ip log softmax_a(s_ia / T_ia)_p
    w_ip = 1 / (log(1 + f(y_i, y_p)) + eps)                    PLR, Eq. 1
    T_ia = exp(-alpha J(y_i, y_a)) + beta / log(1 + h(y_i))    DTS, Eq. 2

    Args:
        statistics: Label statistics of the training split.
        tau: Temperature where DTS is off, and the factor of `tau_mode="scale"`.
        alpha: How fast the temperature falls with the overlap.
        beta: How much rare anchors raise it.
        eps: Guards the division in w.
        plr: Whether pairs are weighed; off: w = 1.
        dts: Whether the temperature varies; off: T = tau.
        tau_mode: `direct`: T is the temperature itself (Reading R8); `scale`: tau * T.
        pair_frequency: What f counts (Reading R4).
        anchor_frequency: What h is, the mean or minimum count of the anchor's labels (Reading R6).
        frequency: `count`, or `relative` to the number of training images (Reading R5).
        chunk_size: Anchors at a time, see `PairLoss`.
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        tau: float = 0.3,
        alpha: float = 1.5,
        beta: float = 0.1,
        eps: float = 1e-8,
        plr: bool = True,
        dts: bool = True,
        tau_mode: TauMode = "direct",
        pair_frequency: PairFrequency = "joint",
        anchor_frequency: AnchorFrequency = "mean",
        frequency: Frequency = "count",
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(chunk_size)
        self.frequencies = TrainingFrequencies(
            statistics,
            check_choice("pair_frequency", pair_frequency, PAIR_FREQUENCIES),
            check_choice("anchor_frequency", anchor_frequency, ANCHOR_FREQUENCIES),
            check_choice("frequency", frequency, get_args(Frequency)),
        )
        self.num_labels = statistics.num_labels
        self.tau = check_positive("tau", tau)
        self.alpha = check_finite("alpha", alpha)
        self.beta = check_not_negative("beta", beta)
        self.eps = check_not_negative("eps", eps)
        self.plr = check_bool("plr", plr)
        self.dts = check_bool("dts", dts)
        self.tau_mode = check_choice("tau_mode", tau_mode, get_args(TauMode))

    def pairs(self, sets: LabelSets) -> Pairs:
        """W = c * w, T, one count for each valid label."""
        T = self.temperatures(sets)  # (U, V)  Eq. 2
        w = self.weights(sets)  # (U, V)  Eq. 1
        c = labelwise_shares(sets)  # (U, V)  Eq. 3
        return Pairs(c * w, T, valid_labels(sets))  #  Eq. 4

    def temperatures(self, sets: LabelSets) -> Tensor | float:
        """T_ia of all pairs. (U, V)"""
        if not self.dts:
            return self.tau
        T = pair_temperatures(sets.J, self.frequencies.of_anchors(sets.y), self.alpha, self.beta)
        return T if self.tau_mode == "direct" else self.tau * T

    def weights(self, sets: LabelSets) -> Tensor | float:
        """w_ip, meant for positive pairs: elsewhere c is 0 and w finite, f being at least 1. (U, V)"""
        if not self.plr:
            return 1.0
        return sets.pairwise(lambda y, y_other: pair_weights(self.frequencies.of_pairs(y, y_other), self.eps))


class WgMARCLoss(MARCLoss):
    """Wg-MARC: the mean over an anchor's valid labels first, then over anchors."""

    def pairs(self, sets: LabelSets) -> Pairs:
        """W = c * w / valid labels, T, one count for each valid anchor."""
        return mean_of_each_anchor(super().pairs(sets))


def pair_weights(f: Tensor, eps: float = 1e-8) -> Tensor:
    """w_ip = 1 / (log(1 + f_ip) + eps)  (Eq. 1, Pairwise Label Reweighting).

    >>> pair_weights(torch.tensor([1.0, 100.0]))
    tensor([1.4427, 0.2167])
    """
    return (torch.log1p(f) + eps).reciprocal()


def pair_temperatures(J: Tensor, h: Tensor, alpha: float = 1.5, beta: float = 0.1) -> Tensor:
    """T_ia = exp(-alpha J_ia) + beta / log(1 + h_i)  (Eq. 2, Dynamic Temperature Scaling).

    Args:
        J: Jaccard overlaps. (U, V)
        h: Training frequency of each anchor's labels. (U,)
        alpha: How fast the temperature falls with the overlap.
        beta: How much rare anchors raise it.

    >>> pair_temperatures(torch.tensor([[0.0, 1.0]]), torch.tensor([99.0]))
    tensor([[1.0217, 0.2448]])
    """
    # In place: new memory takes longer than the exponentials.
    return torch.exp_(-alpha * J).add_(beta / torch.log1p(h)[:, None])
