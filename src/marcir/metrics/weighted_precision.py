"""Precision weighted by how much labels overlap."""

import torch
from torch import Tensor

from marcir.metrics.sums import row_sums


def weighted_average_precision(overlap: Tensor, phi: Tensor | None = None) -> Tensor:
    """WAP = sum over ranks i of phi_i * (mean J of the first i), divided by the sum of phi, or by K.

    Args:
        overlap: Jaccard overlap J of the hit at each rank. (Q, K)
        phi: Which ranks count; then the sum is divided by K. By default those with J > 0 count, and the
            sum is divided by their number (Readings R21 and R23). (Q, K)

    Returns:
        Values in 0..1, float64; nan where no rank counts by default. (Q,)

    >>> weighted_average_precision(torch.tensor([[1.0, 0.0, 0.5]]))
    tensor([0.7500], dtype=torch.float64)
    """
    ranks = torch.arange(1, overlap.shape[1] + 1, dtype=torch.float64)
    mean_overlap = overlap.cumsum(1, dtype=torch.float64) / ranks  # (Q, K)
    counted = overlap > 0 if phi is None else phi
    number = counted.sum(1) if phi is None else overlap.shape[1]
    return row_sums(mean_overlap.masked_fill(~counted, 0)) / number
