"""Exact search of a matrix of vectors: one product, and the best of it without sorting it."""

from itertools import pairwise

import numpy as np

# Similarities that are held at a time: they stay in the processor's cache.
_PAIRS = 2**21
# The best of so many similarities is looked at first.
_GROUP = 32
# Below this share of the rows, the allowed ones are copied together instead of masked.
_FEW = 0.25
# A matrix product rounds equal vectors differently, by their place; what is so near is compared again.
_MARGIN = np.float32(1e-5)
# The largest product of a row that is not allowed, and of one that is. Taken from a table: a conditional copy
# takes six times as long where about half of the rows are allowed.
_LIMITS = np.array([-np.inf, np.inf], np.float32)
# Rows that are compared again at a time.
_ROWS = 2**16

# Query, row and product of pairs that may be among the best. (P,)
_Candidates = tuple[np.ndarray, np.ndarray, np.ndarray]


def best(
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    allowed: np.ndarray | None = None,
    least: float | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows with the k largest products, largest first; equal ones in the order of rows.

    The k-th largest best-of-a-group is no larger than the k-th largest product, so that only groups which
    reach it can hold an answer: nothing is sorted but those few. Their products are taken anew, each in the
    same way: equal vectors are equally similar, and an answer does not depend on the other queries.

    Args:
        vectors: Unit length, float32. (N, D)
        queries: Unit length, float32. (Q, D)
        k: How many.
        allowed: Which rows may be found, bool. (N,)
        least: Products below it are left out.

    Returns:
        For each query the rows and their products.
    """
    rows = None
    if allowed is not None and np.count_nonzero(allowed) < _FEW * len(vectors):
        rows = np.flatnonzero(allowed)
        vectors, allowed = vectors[rows], None
    found = _search(vectors, queries, k, allowed, -np.inf if least is None else least)
    return found if rows is None else [(rows[positions], values) for positions, values in found]


def _search(
    vectors: np.ndarray, queries: np.ndarray, k: int, allowed: np.ndarray | None, least: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    q = len(queries)
    k = min(k, len(vectors))
    if k < 1 or not q:
        return [(np.zeros(0, np.int64), np.zeros(0, np.float32)) for _ in range(q)]
    step = max(_GROUP * k, _PAIRS // q // _GROUP * _GROUP)
    bound = np.full(q, least, dtype=np.float32)
    kept: list[_Candidates] = []
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step]
        products = queries @ block.T  # (Q, B)
        if allowed is not None:
            limits = _LIMITS.take(allowed[start : start + step].view(np.uint8), mode="clip")
            np.minimum(products, limits, out=products)
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
    vectors: np.ndarray, query: np.ndarray, rows: np.ndarray, values: np.ndarray, k: int, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """The best k of the candidates, by products that do not depend on the place of a row."""
    if len(rows) > k:
        rows = rows[values >= np.partition(values, -k)[-k] - _MARGIN]
    doubled = query.astype(np.float64)
    products = np.concatenate(
        [
            (vectors[rows[start : start + _ROWS]] * doubled).sum(1)
            for start in range(0, max(1, len(rows)), _ROWS)
        ]
    ).astype(np.float32)
    order = np.lexsort((rows, -products))[:k]
    order = order[products[order] >= np.float32(least)]
    return rows[order], products[order]


def _candidates(
    products: np.ndarray, bound: np.ndarray, k: int, start: int
) -> tuple[np.ndarray, _Candidates]:
    """Products that may be among the best, given that k of those before reach `bound`, and the new bound."""
    q, size = products.shape
    count = size // _GROUP
    whole = count * _GROUP
    # A group is every count-th product, so that the largest of all groups are taken side by side.
    groups = products[:, :whole].reshape(q, _GROUP, count)
    tops = groups.max(1)  # (Q, G)
    if count >= k:
        bound = np.maximum(bound, np.partition(tops, count - k, axis=1)[:, count - k])
    floor = bound - _MARGIN
    query, group = _reached(tops, floor)
    values = groups[query, :, group]  # (P, GROUP)
    pair, offset = _reached(values, floor[query])
    rest_query, rest_offset = _reached(products[:, whole:], floor)
    return bound, (
        np.concatenate([query[pair], rest_query]),
        np.concatenate([start + group[pair] + offset * count, start + whole + rest_offset]),
        np.concatenate([values[pair, offset], products[rest_query, whole + rest_offset]]),
    )


def _reached(values: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the values that reach the floor of their row; -inf is no value. (R, C), (R,)"""
    row, column = np.nonzero((values >= floor[:, None]) & (values > -np.inf))
    return row, column
