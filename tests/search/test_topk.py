"""The best of a matrix product, against sorting all of it."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marcir.search import topk as exact
from marcir.search.topk import best

EYE = np.eye(4, dtype=np.float32)


def normalized(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit.astype(np.float32)


def units(count: int, dim: int, seed: int = 0) -> np.ndarray:
    return normalized(np.random.default_rng(seed).normal(size=(count, dim)))


def grid(count: int, dim: int, seed: int = 0) -> np.ndarray:
    """Unit vectors of few directions: many duplicates, and many ties."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (count, 1)).astype(np.float32)
    return np.eye(dim, dtype=np.float32)[rng.integers(0, dim, count)] * signs


def sorted_all(
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    allowed: np.ndarray | None = None,
    least: float | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every product in double precision, sorted whole."""
    found = []
    for query in queries.astype(np.float64):
        values = (vectors.astype(np.float64) * query).sum(1).astype(np.float32)
        rows = np.arange(len(values))
        kept = np.ones(len(values), bool) if allowed is None else allowed.copy()
        if least is not None:
            kept &= values >= np.float32(least)
        rows, values = rows[kept], values[kept]
        order = np.lexsort((rows, -values))[:k]
        found.append((rows[order], values[order]))
    return found


def agree(
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    allowed: np.ndarray | None = None,
    least: float | None = None,
) -> None:
    expected = sorted_all(vectors, queries, k, allowed, least)
    found = best(vectors, queries, k, allowed, least)
    assert len(found) == len(expected)
    for (rows, values), (true_rows, true_values) in zip(found, expected, strict=True):
        assert np.allclose(values, true_values, atol=1e-6)
        # Products that differ in the last bit may change places; equal vectors may not.
        moved = rows != true_rows
        assert np.allclose(values[moved], true_values[moved], atol=2e-7)
        assert list(rows) == [row for _, row in sorted(zip(-values, rows, strict=True))]


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 64, 1000, 4097])
@pytest.mark.parametrize("k", [1, 2, 31, 33, 100, 5000])
def test_the_best_are_those_of_sorting(count: int, k: int) -> None:
    agree(units(count, 16), units(3, 16, 1), k)


@pytest.mark.parametrize("share", [0, 0.001, 0.05, 0.24, 0.25, 0.26, 0.5, 0.99, 1])
@pytest.mark.parametrize("vectors", [units(3000, 8), grid(3000, 8)], ids=["all different", "few directions"])
def test_masks_of_every_share_let_through_what_they_allow(share: float, vectors: np.ndarray) -> None:
    allowed = np.random.default_rng(0).random(len(vectors)) < share
    agree(vectors, units(4, 8, 1), 20, allowed)
    agree(vectors, units(4, 8, 1), 20, allowed, least=0.2)


@pytest.mark.parametrize("dim", [7, 16, 64, 128, 129, 384])
@pytest.mark.parametrize("queries", [1, 2, 64])
def test_equal_vectors_are_equally_similar_and_come_in_the_order_of_rows(dim: int, queries: int) -> None:
    vectors = units(1, dim).repeat(5003, 0)
    for rows, values in best(vectors, units(queries, dim, 1), 5003):
        assert np.array_equal(rows, np.arange(5003))
        assert len(set(values.tolist())) == 1
    for rows, _ in best(vectors, units(queries, dim, 1), 10):
        assert np.array_equal(rows, np.arange(10))


def test_an_answer_does_not_depend_on_the_other_queries() -> None:
    vectors, queries = units(2000, 128), units(64, 128, 1)
    together = best(vectors, queries, 50)
    for query, (rows, values) in zip(queries, together, strict=True):
        ((alone, alone_values),) = best(vectors, query[None], 50)
        assert np.array_equal(rows, alone)
        assert np.array_equal(values, alone_values)


@pytest.mark.parametrize("k", [1, 10, 500, 4000])
def test_ties_come_in_the_order_of_rows(k: int) -> None:
    agree(grid(4000, 4), EYE, k)


def test_nothing_is_found_in_nothing() -> None:
    none = np.zeros(0)
    for rows, values in [
        *best(units(0, 8), units(2, 8), 5),
        *best(units(9, 8), units(2, 8), 5, np.zeros(9, bool)),
        *best(units(9, 8), units(2, 8), 5, least=1.5),
    ]:
        assert np.array_equal(rows, none)
        assert np.array_equal(values, none)
    assert best(units(9, 8), units(0, 8), 5) == []


@pytest.mark.parametrize("least", [-1, 0, 0.35, 1, 1.5])
def test_the_least_similarity_is_kept_also_as_a_whole_number(least: float) -> None:
    agree(grid(500, 4), EYE, 300, least=least)
    agree(units(500, 4), EYE, 300, least=least)


@pytest.mark.parametrize("pairs", [1, 32, 100, 1024])
def test_blocks_of_any_size_find_the_same(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_PAIRS", pairs)
    monkeypatch.setattr(exact, "_ROWS", 7)
    for vectors in (units(1000, 8), grid(1000, 8)):
        for k in (1, 3, 40):
            agree(vectors, units(5, 8, 1), k)
            agree(vectors, units(5, 8, 1), k, np.arange(1000) % 3 > 0, least=0.1)


def test_not_all_products_of_many_queries_are_held_at_a_time() -> None:
    vectors, queries = units(100_000, 8), units(256, 8, 1)
    tracemalloc.start()
    try:
        best(vectors, queries, 10)
        best(vectors, queries, 10, np.arange(100_000) % 3 > 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(vectors) * len(queries) / 3


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any), min_size=1, max_size=80),
    st.integers(1, 90),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
)
def test_any_small_matrix_agrees_with_sorting(
    content: list[list[int]], k: int, seed: int, share: float
) -> None:
    vectors = normalized(np.array(content))
    allowed = np.random.default_rng(seed).random(len(content)) < share
    agree(vectors, np.concatenate([vectors[:1], np.eye(3, dtype=np.float32)]), k, allowed)
