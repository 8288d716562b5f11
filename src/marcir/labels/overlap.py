"""Overlap of label sets, as used by losses and metrics.

A label of an image is present (1), absent (0) or unknown (-1). y_i are the labels present, K_i the labels
known. An overlap counts what both images know (Reading R24).
"""

import torch
from torch import Tensor

from marcir.labels.sets import present_and_known


def shared_labels(y: Tensor, y_other: Tensor) -> Tensor:
    """Number of labels that two images share, r_ij = |y_i n y_j|.

    Args:
        y: Labels, 0, 1 or -1 (unknown). (B, L)
        y_other: Labels of the other side. (A, L)

    Returns:
        Whole numbers, in the floating dtype of `y` (float32 for other dtypes). (B, A)

    Raises:
        LabelError: For anything but matrices of 0, 1 and -1.

    >>> shared_labels(torch.tensor([[1, 1, 0]]), torch.tensor([[1, 0, 1], [0, -1, 1]]))
    tensor([[1., 0.]])
    """
    (present, _), (present_other, _) = present_and_known(y, "y"), present_and_known(y_other, "y_other")
    return intersection_sizes(present.to(y.dtype), present_other)


def jaccard(y: Tensor, y_other: Tensor) -> Tensor:
    """Jaccard overlap of label sets, J_ij = |y_i n y_j| / |y_i u y_j|, over the labels that both know.

    Two empty sets do not match: their overlap is 0 (Reading R3).

    Args:
        y: Labels, 0, 1 or -1 (unknown). (B, L)
        y_other: Labels of the other side. (A, L)

    Returns:
        Values in 0..1, exactly 1 for equal sets. (B, A)

    Raises:
        LabelError: For anything but matrices of 0, 1 and -1.

    >>> jaccard(torch.tensor([[1, 1, 0]]), torch.tensor([[1, 1, 0], [0, 1, 1], [-1, 1, 1], [0, 0, 0]]))
    tensor([[1.0000, 0.3333, 0.5000, 0.0000]])
    """
    shared = shared_labels(y, y_other)
    return shared / known_union_sizes(y > 0, y >= 0, y_other > 0, y_other >= 0).clamp_min(1)


def intersection_sizes(y: Tensor, y_other: Tensor) -> Tensor:
    """|y_i n y_j| of label sets given as 0 and 1. (B, L), (A, L) -> (B, A)

    >>> intersection_sizes(torch.tensor([[1, 1, 0]]), torch.tensor([[1, 0, 1]]))
    tensor([[1.]])
    """
    dtype = y.dtype if y.is_floating_point() else torch.float32
    with torch.autocast(y.device.type, enabled=False):  # counts are exact
        return y.to(dtype) @ y_other.to(dtype).T


def known_union_sizes(y: Tensor, known: Tensor, y_other: Tensor, known_other: Tensor) -> Tensor:
    """|(y_i u y_j) n K_i n K_j|: how many labels either has and both know.

    Args:
        y: Labels present, 0 or 1. (B, L)
        known: Labels known. (B, L)
        y_other: Labels present on the other side. (A, L)
        known_other: Labels known on the other side. (A, L)

    >>> y, known = torch.tensor([[1, 0, 0]]), torch.tensor([[1, 1, 0]])
    >>> known_union_sizes(y, known, torch.tensor([[0, 1, 1]]), torch.tensor([[0, 1, 1]]))
    tensor([[1.]])
    """
    known_absent = known ^ y if known.dtype == torch.bool else known - y
    return intersection_sizes(torch.cat([y, known_absent], 1), torch.cat([known_other, y_other], 1))


def may_share(y: Tensor, known: Tensor, y_other: Tensor, known_other: Tensor) -> Tensor:
    """Whether images without a shared label may share one: present in one of them, unknown in the other.

    Args:
        y: Labels present, 0 or 1. (B, L)
        known: Labels known. (B, L)
        y_other: Labels present on the other side. (A, L)
        known_other: Labels known on the other side. (A, L)

    >>> y, known = torch.tensor([[1, 0]]), torch.tensor([[1, 1]])
    >>> may_share(y, known, torch.tensor([[0, 1], [0, 1], [1, 0]]), torch.tensor([[0, 1], [1, 1], [1, 0]]))
    tensor([[ True, False, False]])
    """
    unknown, unknown_other = 1 - known.float(), 1 - known_other.float()
    # One product: a shared label counts as much as L that may be shared, and there are at most L of these.
    y = torch.cat([y.shape[1] * y - unknown, -y.float()], 1)
    return intersection_sizes(y, torch.cat([y_other.float(), unknown_other], 1)) < 0
