"""Average precision of ranked relevance, with its denominator named."""

import torch
from torch import Tensor

from marcir.metrics.sums import row_sums


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


def _found(relevant: Tensor) -> Tensor:
    """Relevant images among the first n. (Q, K)"""
    return relevant.cumsum(1, dtype=torch.int32)


def _ranks(relevant: Tensor) -> Tensor:
    """The ranks 1, 2 ... K. (K,)"""
    return torch.arange(1, relevant.shape[1] + 1, dtype=torch.float64)
