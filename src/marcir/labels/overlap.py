"""Overlap of label sets, as used by losses and metrics."""

import torch
from torch import Tensor


def shared_labels(y: Tensor, y_other: Tensor) -> Tensor:
    """Number of labels that two images share, r_ij = |y_i n y_j|.

    Args:
        y: Multi-hot labels. (B, L)
        y_other: Multi-hot labels of the other side. (A, L)

    Returns:
        Whole numbers, in the floating dtype of `y` (float32 for other dtypes). (B, A)

    >>> shared_labels(torch.tensor([[1, 1, 0]]), torch.tensor([[1, 0, 1], [0, 0, 1]]))
    tensor([[1., 0.]])
    """
    dtype = y.dtype if y.is_floating_point() else torch.float32
    with torch.autocast(y.device.type, enabled=False):  # counts are exact
        return y.to(dtype) @ y_other.to(dtype).T


def jaccard(y: Tensor, y_other: Tensor) -> Tensor:
    """Jaccard overlap of label sets, J_ij = |y_i n y_j| / |y_i u y_j|.

    Two empty sets do not match: their overlap is 0 (Reading R3).

    Args:
        y: Multi-hot labels. (B, L)
        y_other: Multi-hot labels of the other side. (A, L)

    Returns:
        Values in 0..1, exactly 1 for equal sets. (B, A)

    >>> jaccard(torch.tensor([[1, 1, 0]]), torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]]))
    tensor([[1.0000, 0.3333, 0.0000]])
    """
    return jaccard_of_counts(shared_labels(y, y_other), y.sum(1), y_other.sum(1))


def jaccard_of_counts(r: Tensor, n: Tensor, n_other: Tensor) -> Tensor:
    """Jaccard overlap from r_ij shared labels and label sets of n_i and n_j labels.

    >>> jaccard_of_counts(torch.tensor([[1.0]]), torch.tensor([2]), torch.tensor([3]))
    tensor([[0.2500]])
    """
    union = n[:, None] + n_other - r  # (B, A)
    return r / union.clamp_min(1)
