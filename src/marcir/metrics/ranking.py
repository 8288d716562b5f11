"""Rank a gallery for every query, a block of queries at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marcir.errors import BatchError

# Query-gallery pairs of a block: it fits the cache of a CPU, and memory stays bounded.
PAIRS = 2**18
# Cosines are rounded to multiples of 2^-34 (6e-11), so that rounding errors are ties. The low bits of a
# 64-bit key are the gallery position, so that one sort of integers is stable and gives the order.
GRID = 2**34
POSITION = 2**28

Similarities = Callable[[slice], Tensor]


@dataclass(frozen=True, eq=False)
class RankedBlock:
    """A block of queries and their ranked gallery.

    Attributes:
        rows: Positions of the queries.
        similarity: Cosine to every gallery image, in gallery order. (Q, N)
        order: Gallery positions, the most similar first; without the query itself. (Q, N) or (Q, N - 1)
    """

    rows: slice
    similarity: Tensor
    order: Tensor


def unit_vectors(embeddings: Tensor | np.ndarray, where: str) -> Tensor:
    """Validate and normalise embeddings: unit length, float64, on the CPU. (N, D)

    Raises:
        BatchError: For anything but a matrix of finite values, and for a row of zeros.
    """
    try:
        if not isinstance(embeddings, Tensor):
            embeddings = torch.from_numpy(
                np.asarray(embeddings).astype(np.float64, order="C", casting="same_kind")  # a copy
            )
        z = embeddings.detach().to("cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise BatchError(f"{where}: expected vectors (N, D) of numbers: {error}") from error
    if z.ndim != 2 or not z.shape[1] or z.is_complex():
        raise BatchError(f"{where}: expected vectors (N, D), found {tuple(z.shape)}. Give one row per image.")
    z = z.double()
    bad = (~torch.isfinite(z).all(1)).nonzero()
    if len(bad):
        raise BatchError(
            f"{where}: row {int(bad[0])} has values that are not finite. Embed that image again."
        )
    largest = z.abs().amax(1, keepdim=True)
    zero = (largest[:, 0] == 0).nonzero()
    if len(zero):
        raise BatchError(f"{where}: row {int(zero[0])} is all zeros and has no direction. Leave it out.")
    z = z / largest  # squares of tiny or huge values stay finite
    unit: Tensor = z / torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return unit


def ranked_blocks(
    similarities: Similarities, queries: int, gallery: int, left_out: Tensor | None, pairs: int | None = None
) -> Iterator[RankedBlock]:
    """Rank the gallery for all queries, block by block; equal similarities keep gallery order.

    Args:
        similarities: Returns the similarities of some queries to the whole gallery, in -1..1. (Q, N)
        queries: Number of queries.
        gallery: Number of gallery images.
        left_out: Gallery position of each query itself, which is not ranked. (Q,)
        pairs: Pairs per block; `PAIRS` by default.
    """
    step = max(1, (pairs or PAIRS) // gallery)
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        similarity = similarities(rows)
        yield RankedBlock(rows, similarity, rank(similarity, None if left_out is None else left_out[rows]))


def rank(similarity: Tensor, left_out: Tensor | None = None) -> Tensor:
    """Gallery positions from the most to the least similar; ties keep gallery order. (Q, N) or (Q, N - 1)

    Args:
        similarity: In -1..1. (Q, N)
        left_out: Gallery position of each query itself, which is not ranked. (Q,)

    >>> rank(torch.tensor([[0.5, 0.9, 0.5]]))
    tensor([[1, 0, 2]])
    """
    keys = (similarity.double() * -GRID).round_().long().mul_(POSITION)  # (Q, N)
    keys += torch.arange(similarity.shape[1])
    if left_out is not None:
        keys[torch.arange(len(left_out)), left_out] = torch.iinfo(torch.int64).max
    keys.numpy().sort(axis=1)  # several times faster than torch's sort
    order = keys.bitwise_and_(POSITION - 1)
    return order[:, :-1] if left_out is not None else order
