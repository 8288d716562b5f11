"""Sums that do not depend on how many queries are summed at a time."""

import torch
from torch import Tensor


def row_sums(values: Tensor) -> Tensor:
    """Sum of every row, to the last bit the same however many rows there are: numpy's order is fixed. (Q,)

    >>> row_sums(torch.tensor([[0.25, 0.5]]))
    tensor([0.7500])
    """
    return torch.from_numpy(values.detach().contiguous().numpy().sum(1))
