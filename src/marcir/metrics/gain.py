"""Discounted cumulative gain of graded relevance."""

import numpy as np
import torch
from torch import Tensor

from marcir.metrics.sums import row_sums


def exponential_gain(grades: Tensor) -> Tensor:
    """2^grade - 1, float64. (Q, K)

    >>> exponential_gain(torch.tensor([[0, 1, 3]]))
    tensor([[0., 1., 7.]], dtype=torch.float64)
    """
    # numpy's powers do not depend on where in the array a value stands; torch's differ in the last bit.
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
    ranks = torch.arange(1, gains.shape[1] + 1, dtype=torch.float64)
    return row_sums(gains.double() / torch.log2(1 + ranks))


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
