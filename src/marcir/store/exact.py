"""Exact search of a matrix of vectors: one product, and the best of it without sorting it."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

# Similarities that are held at a time: they stay in the processor's cache.
_PAIRS = 2**21
# The best of so many neighbouring similarities is looked at first.
_GROUP = 32
# Below this share of the rows, the allowed ones are copied together instead of masked.
_FEW = 0.25
# A matrix product rounds equal vectors differently, by their place; what is so near is compared again.
_MARGIN = 1e-5
# Rows that are compared again at a time.
_ROWS = 2**16


def best(
    vectors: Tensor, queries: Tensor, k: int, allowed: np.ndarray | None = None, least: float | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows with the k largest products, largest first; equal ones in the order of rows.

    The k-th largest best-of-a-group is no larger than the k-th largest product, so that only groups which
    reach it can hold an answer: nothing is sorted but those few. Their products are taken anew, each in the
    same way: equal vectors are equally similar, and an answer does not depend on the other queries.

    Args:
        vectors: Unit length. (N, D)
        queries: Unit length. (Q, D)
        k: How many.
        allowed: Which rows may be found, bool. (N,)
        least: Products below it are left out.

    Returns:
        For each query the rows and their products.
    """
    rows = None
    if allowed is not None:
        rows = np.flatnonzero(allowed)
        if len(rows) < _FEW * len(vectors):
            vectors, allowed = vectors[torch.from_numpy(rows)], None
        else:
            rows = None
    found = _search(vectors, queries, k, allowed, -np.inf if least is None else least)
    return found if rows is None else [(rows[positions], values) for positions, values in found]


def _search(
    vectors: Tensor, queries: Tensor, k: int, allowed: np.ndarray | None, least: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    q = len(queries)
    k = min(k, len(vectors))
    if k < 1 or not q:
        return [(np.zeros(0, np.int64), np.zeros(0, np.float32)) for _ in range(q)]
    step = max(_GROUP * k, _PAIRS // q // _GROUP * _GROUP)
    bound = torch.full((q,), least, dtype=torch.float32)
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step]
        products = queries @ block.T  # (Q, B)
        if allowed is not None:
            products.masked_fill_(~torch.from_numpy(allowed[start : start + step]), -torch.inf)
        bound, candidates = _candidates(products, bound, k, start)
        kept.append(candidates)
    query, row, value = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    order = np.argsort(query, kind="stable")
    row, value = row[order], value[order]
    ends = np.searchsorted(query[order], np.arange(q + 1))
    return [
        _ranked(vectors, queries[place], row[first:last], value[first:last], k, least)
        for place, (first, last) in enumerate(pairwise(ends))
    ]


def _ranked(
    vectors: Tensor, query: Tensor, rows: np.ndarray, values: np.ndarray, k: int, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """The best k of the candidates, by products that do not depend on the place of a row."""
    if len(rows) > k:
        rows = rows[values >= np.partition(values, -k)[-k] - _MARGIN]
    products = np.concatenate(
        [
            (vectors[torch.from_numpy(rows[start : start + _ROWS])].double() * query.double()).sum(1).numpy()
            for start in range(0, max(1, len(rows)), _ROWS)
        ]
    ).astype(np.float32)
    order = np.lexsort((rows, -products))[:k]
    order = order[products[order] >= np.float32(least)]
    return rows[order], products[order]


def _candidates(
    products: Tensor, bound: Tensor, k: int, start: int
) -> tuple[Tensor, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Products that may be among the best, given that k of those before reach `bound`, and the new bound."""
    q, size = products.shape
    whole = size // _GROUP * _GROUP
    groups = products[:, :whole].view(q, -1, _GROUP)
    tops = groups.amax(2)  # (Q, G)
    if tops.shape[1] >= k:
        bound = torch.maximum(bound, tops.topk(k, dim=1, sorted=False).values.amin(1))
    floor = bound - _MARGIN
    reached = (tops >= floor[:, None]) & (tops > -torch.inf)
    query, group = reached.nonzero(as_tuple=True)
    values = groups[query, group]  # (P, GROUP)
    inside = (values >= floor[query][:, None]) & (values > -torch.inf)
    pair, offset = inside.nonzero(as_tuple=True)
    rows = start + group[pair] * _GROUP + offset
    rest = products[:, whole:]
    rest_query, rest_offset = ((rest >= floor[:, None]) & (rest > -torch.inf)).nonzero(as_tuple=True)
    return bound, (
        torch.cat([query[pair], rest_query]).numpy(),
        torch.cat([rows, start + whole + rest_offset]).numpy(),
        torch.cat([values[pair, offset], rest[rest_query, rest_offset]]).numpy(),
    )
