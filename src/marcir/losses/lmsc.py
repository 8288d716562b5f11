"""LMsc: samples, a queue of past samples and prototypes as references, label by label."""

import math

import torch
from torch import Tensor

from marcir.checks import check_int, check_positive
from marcir.losses.inputs import Comparison
from marcir.losses.memory_bank import EmbeddingQueue
from marcir.losses.pairs import LabelSets, no_comparison
from marcir.losses.prototypes import PrototypeLoss, masked


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
        references = self.queue.append_to(comparison)
        z, z_other = references.z, references.z_other
        sets = LabelSets.from_rows(references.y, references.y_other, references.own, references.unknowns)
        none = no_comparison(sets)  # (B, A)
        samples = masked(z @ z_other.T / self.tau, none, self.tau)  # (B, A)
        prototypes = self.prototype_logits(references, self.unit_prototypes(z), self.tau)  # (B, L)
        log_sum = torch.logsumexp(torch.cat([samples + math.log(self.beta), prototypes], 1), 1)  # (B,)

        y, y_other, n = sets.y, sets.y_other, sets.n.clamp_min(1)[:, None]  # (B, L), (A, L), (B, 1)
        inverse_union = torch.where(none, 0, 1 / sets.union.clamp_min(1))  # (B, A)
        per_label = y / (1 + inverse_union @ y_other) / n  # (B, L)  1 / (D_ik n_i)
        w = inverse_union * (per_label @ y_other.T)  # (B, A)

        wanted = (w * samples).sum(1) + (per_label * prototypes).sum(1)  # (B,)
        loss = (w.sum(1) + per_label.sum(1)) * log_sum - wanted  # (B,)
        if self.training:
            self.queue.add(comparison.z_other, comparison.y_other)
        return loss.sum()[None], (sets.n > 0).sum()[None]
