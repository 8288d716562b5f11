"""Pure functions of ranked relevance: (Q, K) -> (Q,), one value per query."""

import numpy as np
import torch
from torch import Tensor


def average_precision(relevant: Tensor, total: Tensor | None = None) -> Tensor:
    """AP = sum over ranks n of P@n * rel_n, divided by `total`: the relevant images found, by default.

    Args:
        relevant: Whether the hit at each rank is relevant, best hit first. (Q, K)
        total: What to divide by, such as the relevant images of the whole gallery. (Q,)

    Returns:
        Values in 0..1, float64; nan where `total` is 0. (Q,)

    >>> average_precision(torch.tensor([[True, False, True]]))
    tensor([0.8333], dtype=torch.float64)
    """
    relevant = relevant.bool()
    found = _found(relevant)
    if total is None:
        total = found[:, -1:].sum(1)
    return row_sums(found.mul_(relevant).double().mul_(1 / _ranks(relevant))) / total


def trapezoid_average_precision(relevant: Tensor) -> Tensor:
    """AP as the area under the recall-precision curve by the trapezoid rule, divided by the relevant found.

    Each relevant hit adds the mean of the precision at its rank and of the precision one rank before (1
    before the first rank).

    Args:
        relevant: Whether the hit at each rank is relevant, best hit first, over the whole gallery. (Q, N)

    Returns:
        Values in 0..1, float64; nan where nothing is relevant. (Q,)

    >>> trapezoid_average_precision(torch.tensor([[True, False, False, True]]))
    tensor([0.7083], dtype=torch.float64)
    """
    relevant = relevant.bool()
    precision = _found(relevant) / _ranks(relevant)
    before = torch.ones_like(precision)
    before[:, 1:] = precision[:, :-1]
    return row_sums(((precision + before) / 2).masked_fill_(~relevant, 0)) / relevant.sum(1)


def exponential_gain(grades: Tensor) -> Tensor:
    """2^grade - 1, float64. (Q, K)

    >>> exponential_gain(torch.tensor([[0, 1, 3]]))
    tensor([[0., 1., 7.]], dtype=torch.float64)
    """
    # numpy's powers do not depend on the position in the array; torch's differ in the last bit.
    return torch.from_numpy(np.exp2(grades.detach().double().numpy()) - 1)


def dcg(gains: Tensor) -> Tensor:
    """DCG = sum over ranks n of gain_n / log2(1 + n).

    Args:
        gains: Gain of the hit at each rank, such as 2^r - 1. (Q, K)

    Returns:
        float64. (Q,)

    >>> dcg(torch.tensor([[1.0, 1.0]]))
    tensor([1.6309], dtype=torch.float64)
    """
    return row_sums(gains.double() / torch.log2(1 + _ranks(gains)))


def ndcg(gains: Tensor, ideal: Tensor) -> Tensor:
    """NDCG = DCG of the ranking, divided by the DCG of the ideal one.

    Args:
        gains: Gain of the hit at each rank. (Q, K)
        ideal: The gains that the ideal ranking has. (Q, K)

    Returns:
        Values in 0..1, float64; nan where the ideal has no gain. (Q,)

    >>> ndcg(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([0.6309], dtype=torch.float64)
    """
    return dcg(gains) / dcg(ideal)


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
    mean_overlap = overlap.cumsum(1, dtype=torch.float64) / _ranks(overlap)  # (Q, K)
    counted = overlap > 0 if phi is None else phi
    number = counted.sum(1) if phi is None else overlap.shape[1]
    return row_sums(mean_overlap.masked_fill(~counted, 0)) / number


def row_sums(values: Tensor) -> Tensor:
    """Sum every row, to the last bit independent of the number of rows: numpy's order is fixed. (Q,)

    >>> row_sums(torch.tensor([[0.25, 0.5]]))
    tensor([0.7500])
    """
    return torch.from_numpy(values.detach().contiguous().numpy().sum(1))


def _found(relevant: Tensor) -> Tensor:
    """Relevant images among the first n. (Q, K)"""
    return relevant.cumsum(1, dtype=torch.int32)


def _ranks(ranked: Tensor) -> Tensor:
    """The ranks 1, 2 ... K. (K,)"""
    return torch.arange(1, ranked.shape[1] + 1, dtype=torch.float64, device=ranked.device)
