"""Label sets packed into integers, to find distinct rows and intersections."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from marcir.errors import LabelError

# float32 holds the sum of 24 distinct powers of two exactly, so that one matrix product packs all words.
BITS = 24


def multi_hot(labels: Tensor, where: str) -> Tensor:
    """Validate a label matrix and convert it to bool: which labels are present. (N, L)

    Args:
        labels: 0 absent, 1 present, -1 unknown, of any dtype. Unknown labels are not present.
        where: What they are labels of, for errors.

    >>> multi_hot(torch.tensor([[1, 0, -1]]), "labels")
    tensor([[ True, False, False]])
    """
    return present_and_known(labels, where)[0]


def present_and_known(labels: Tensor, where: str) -> tuple[Tensor, Tensor | None]:
    """Validate a label matrix: which labels are present, and which are known; None where all are. (N, L)

    >>> present_and_known(torch.tensor([[1, 0, -1]]), "labels")
    (tensor([[ True, False, False]]), tensor([[ True,  True, False]]))
    >>> present_and_known(torch.tensor([[1, 0, 0]]), "labels")
    (tensor([[ True, False, False]]), None)
    """
    try:
        y = torch.as_tensor(labels)
    except (TypeError, ValueError) as error:
        raise LabelError(f"{where}: expected multi-hot labels (N, L) of 0, 1 and -1: {error}.") from error
    if y.ndim != 2:
        raise LabelError(
            f"{where}: expected multi-hot labels (N, L), found {tuple(y.shape)}. Give one row per image."
        )
    if ((y == 0) | (y == 1)).all():
        return y.bool(), None
    if (found := first_wrong_label(y)) is not None:
        raise LabelError(f"{where}: labels must be {found}.")
    return y == 1, y != -1


def first_wrong_label(y: Tensor) -> str | None:
    """What a label may be, and the first value of a matrix that is something else; for errors.

    >>> first_wrong_label(torch.tensor([[1, 2]]))
    '0, 1 or -1 (unknown), found 2 in row 0, column 1'
    """
    wrong = ((y != 0) & (y != 1) & (y != -1)).nonzero()
    if not len(wrong):
        return None
    row, column = wrong[0].tolist()
    return f"0, 1 or -1 (unknown), found {y[row, column].item():g} in row {row}, column {column}"


def exact_float(values: Tensor) -> Tensor:
    """Convert to float64, in which counts are exact; to float32 on MPS, which has no float64.

    >>> exact_float(torch.tensor([True, False]))
    tensor([1., 0.], dtype=torch.float64)
    """
    return values.float() if values.device.type == "mps" else values.double()


def label_words(y: Tensor) -> Tensor:
    """Pack multi-hot rows into words of 24 labels, so that `&` is the intersection of two sets. (B, W)

    >>> label_words(torch.tensor([[1, 0, 1], [0, 1, 0]]))
    tensor([[5],
            [2]])
    """
    with torch.autocast(y.device.type, enabled=False):  # words are exact
        return (y.float() @ _powers(y.shape[1], y.device)).long()


@lru_cache(maxsize=16)
def _powers(num_labels: int, device: torch.device) -> Tensor:
    """2^(k mod 24) in column k div 24. (L, W)"""
    k = torch.arange(num_labels, device=device)
    powers = torch.zeros(num_labels, max(1, -(-num_labels // BITS)), device=device)
    powers[k, k // BITS] = 2.0 ** (k % BITS)
    return powers


def equal_rows(words: Tensor) -> Tensor:
    """Number the distinct rows of a word matrix: equal rows get the same number, from 0 up. (B,)

    Successive one-column `unique` calls: much faster than `unique(dim=0)`.
    """
    first = words[:, 0] if words.shape[1] == 1 else words[:, 0] | (words[:, 1] << BITS)
    number: Tensor = torch.unique(first, return_inverse=True)[1]
    for column in words.T[2:]:
        number = torch.unique((number << BITS) | column, return_inverse=True)[1]
    return number


@dataclass(frozen=True, eq=False)
class DistinctSets:
    """The distinct label sets of a label matrix.

    Attributes:
        first: A row of the matrix that has each set. (U,)
        index: The set of every row. (B,)
        sizes: How many rows have each set. (U,)
    """

    first: Tensor
    index: Tensor
    sizes: Tensor


def distinct_sets(y: Tensor) -> DistinctSets:
    """Find the distinct rows of a multi-hot matrix.

    >>> found = distinct_sets(torch.tensor([[0, 1], [1, 0], [0, 1]]))
    >>> found.sizes[found.index]
    tensor([2, 1, 2])
    """
    index = equal_rows(label_words(y))
    sizes = torch.bincount(index)
    first = torch.empty_like(sizes)
    first[index] = torch.arange(len(index), device=y.device)
    return DistinctSets(first, index, sizes)
