"""LMsc: samples, a queue of past samples and prototypes as references, label by label."""

import math

import torch
from torch import Tensor

from marcir.checks import check_int, check_positive
from marcir.labels.overlap import shared_labels
from marcir.losses.inputs import Comparison
from marcir.losses.memory_bank import EmbeddingQueue
from marcir.losses.prototypes import PrototypeLoss, own_rows, similarities_of_others


class LMscLoss(PrototypeLoss):
    """LMsc: each label of an anchor pulls the samples that carry it, and its prototype.

    L = mean over labelled images of 1/n_i sum_{k in y_i} l_ik
    l_ik = -1/D_ik (log r_i,c_k + sum_{j: k in y_j} log r_ij / |y_i u y_j|)
    log r_ij = s_ij/tau - log(beta sum_{a in A(i) and queue} exp(s_ia/tau) + sum_l exp(z_i . c_l/tau))
    D_ik = 1 + sum_j [k in y_j] / |y_i u y_j|

    May be negative where beta < 1.

    Args:
        embedding_dim: Length of an embedding, D.
        num_labels: Number of labels, L.
        tau: Temperature.
        beta: Weight of the samples relative to the prototypes in the denominator.
        queue_size: Past embeddings that serve as samples too, 0 for none; filled in training mode, after
            the loss is taken.
        generator: Draws the first prototypes.
    """

    def __init__(
        self,
        embedding_dim: int,
        num_labels: int,
        tau: float = 0.3,
        beta: float = 0.1,
        queue_size: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(embedding_dim, num_labels, generator)
        self.tau = check_positive("tau", tau)
        self.beta = check_positive("beta", beta)
        self.queue = EmbeddingQueue(check_int("queue_size", queue_size, 0))

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """The sum over labelled images and their number."""
        z, y = comparison.z, comparison.y
        z_other, y_other = self.queue.append_to(comparison.z_other, comparison.y_other)
        is_own = own_rows(comparison.own, len(z_other))
        samples = similarities_of_others(z, z_other, is_own, self.tau)  # (B, A)
        prototypes = z @ self.unit_prototypes(z).T / self.tau  # (B, L)
        log_sum = torch.logsumexp(torch.cat([samples + math.log(self.beta), prototypes], 1), 1)  # (B,)

        n = y.sum(1).clamp_min(1)[:, None]  # (B, 1)
        inverse_union = 1 / (n + y_other.sum(1) - shared_labels(y, y_other)).clamp_min(1)  # (B, A)
        inverse_union = inverse_union.masked_fill(is_own, 0)
        per_label = y / (1 + inverse_union @ y_other) / n  # (B, L)  1 / (D_ik n_i)
        w = inverse_union * (per_label @ y_other.T)  # (B, A)

        wanted = (w * samples).sum(1) + (per_label * prototypes).sum(1)  # (B,)
        loss = (w.sum(1) + per_label.sum(1)) * log_sum - wanted  # (B,)
        if self.training:
            self.queue.add(comparison.z_other, comparison.y_other)
        return loss.sum()[None], (y.sum(1) > 0).sum()[None]
