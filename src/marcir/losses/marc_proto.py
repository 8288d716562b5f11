"""Prototype MARC, ours: calibrated pairs of images and prototypes, targets weighted by rarity."""

import math

import torch
from torch import Tensor

from marcir.checks import check_bool, check_fraction, check_positive, check_within
from marcir.labels.statistics import LabelStatistics
from marcir.losses.calibrated import CalibratedMARCLoss
from marcir.losses.contrast import MASKED
from marcir.losses.frequencies import TrainingFrequencies
from marcir.losses.inputs import Comparison
from marcir.losses.pair_loss import LEAST_T
from marcir.losses.prototypes import PrototypeLoss

_MOST_RARITY = 100.0


class PrototypeMARCLoss(PrototypeLoss):
    """Prototype MARC: calibrated MARC over batch and prototypes, plus a cross-entropy over prototypes.

    L = (1 - lam) L_pair + lam L_proto
    L_pair = calibrated MARC over V = batch + prototypes (prototype k: label set {k}, an anchor too):
        mean over anchors of V with a positive of -sum_p W_ip log q_ip
        q_ia = beta_a exp(s_ia / T_ia) / sum_b beta_b exp(s_ib / T_ib)
        beta_a = beta for images, 1 for prototypes
    L_proto = mean over labelled images of -sum_k t_ik log softmax_l(z_i . c_l / tau_proto)_k
        t_ik = [k in y_i] n_k^-rarity / sum_{l in y_i} n_l^-rarity,  n_k = training images with label k
        the softmax runs over the labels known for i

    It contains LProto (lam = 1, rarity = 0) and L-W/O-Reg (delta = gamma = mix = lam = 0).

    Args:
        statistics: Label statistics of the training split.
        embedding_dim: Length of an embedding, D.
        tau: Temperature of a full match.
        delta: How much lower the temperature of a disjoint pair is.
        gamma: Exponent of the overlap in the pair weights.
        mix: Share of the number of shared labels in the pair weights.
        lam: Share of L_proto.
        tau_proto: Temperature of L_proto.
        rarity: How far the targets of L_proto lean towards an image's rare labels; 0: not at all; below 0:
            towards its frequent ones.
        beta: Weight of an image relative to a prototype in the softmax of L_pair.
        prototype_anchors: Whether prototypes are anchors of L_pair, too.
        chunk_size: Anchors at a time, see `PairLoss`.
        generator: Draws the first prototypes.

    >>> statistics = LabelStatistics.from_labels(torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 1]]))
    >>> loss = PrototypeMARCLoss(statistics, embedding_dim=4)
    >>> loss(torch.eye(4)[:3], torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]])).shape
    torch.Size([])
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        embedding_dim: int,
        tau: float = 0.3,
        delta: float = 0.5,
        gamma: float = 1.0,
        mix: float = 0.5,
        lam: float = 0.6,
        tau_proto: float = 0.4,
        rarity: float = 0.25,
        beta: float = 1.0,
        prototype_anchors: bool = True,
        chunk_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        frequencies = TrainingFrequencies(statistics, "joint", "mean", "count")  # for n_k
        super().__init__(embedding_dim, statistics.num_labels, generator)
        self.frequencies = frequencies
        self.pair_loss = CalibratedMARCLoss(None, tau, delta, gamma, mix, chunk_size=chunk_size)
        self.lam = check_fraction("lam", lam)
        self.tau_proto = check_positive("tau_proto", tau_proto)
        self.rarity = check_within("rarity", rarity, -_MOST_RARITY, _MOST_RARITY)
        self.beta = check_positive("beta", beta)
        self.prototype_anchors = check_bool("prototype_anchors", prototype_anchors)

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """The sums and counts of L_pair and L_proto."""
        points = self.with_prototypes(comparison, self.prototype_anchors)
        pair_total, pair_count = self.pair_loss.terms(points, self.log_beta(points))
        y = comparison.present
        c = points.z_other[-len(self.prototypes) :]  # (L, D)
        log_q = torch.log_softmax(
            self.prototype_logits(comparison, c, max(self.tau_proto, LEAST_T)), 1
        )  # (B, L)
        t = rare_label_targets(y, self.frequencies.of_labels(), self.rarity)  # (B, L)
        labelled = (y.sum(1) > 0).sum().to(pair_count.dtype)
        total = torch.cat([pair_total, -(t * log_q).sum()[None]])
        return total, torch.cat([pair_count, labelled[None]])

    def reduce(self, total: Tensor, count: Tensor) -> Tensor:
        """(1 - lam) L_pair + lam L_proto."""
        means = total / count.clamp_min(1)  # L_pair, L_proto
        return (1 - self.lam) * means[0] + self.lam * means[1]

    def log_beta(self, points: Comparison) -> Tensor | None:
        """Log of beta_a: beta for images, 1 for the prototypes, which come last. (A,)"""
        if self.beta == 1:
            return None
        log_beta = points.z_other.new_full((len(points.z_other),), math.log(self.beta))
        log_beta[-len(self.prototypes) :] = 0
        return log_beta


def rare_label_targets(y: Tensor, n: Tensor, rarity: float) -> Tensor:
    """t_ik = [k in y_i] n_k^-rarity / sum_{l in y_i} n_l^-rarity; zero for an image without labels.

    Args:
        y: Multi-hot labels. (B, L)
        n: Training images with each label, at least 1. (L,)
        rarity: The exponent.

    >>> rare_label_targets(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([81, 1]), rarity=0.25)
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000]])
    """
    logits = -rarity * n.to(y.dtype).log()  # (L,)
    return y * torch.softmax(torch.where(y > 0, logits, MASKED), 1)
