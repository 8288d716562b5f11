"""Compare two models query by query: bootstrap interval and paired randomisation test."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from marcir.checks import check_seed
from marcir.errors import DataError
from marcir.metrics.scores import Scores

# Resampling is done here and not by scipy.stats: permutation_test draws other signs from the same seed, so
# that published p values would change; bootstrap refuses a single group; and the core install has no scipy.
RESAMPLES = 10_000
CONFIDENCE = 0.95
_DRAWN = 2**22  # query draws held at a time


@dataclass(frozen=True)
class Interval:
    """A bootstrap confidence interval of a mean over queries."""

    low: float
    high: float


@dataclass(frozen=True)
class ColumnComparison:
    """One column of two models: their means over the queries that neither leaves out.

    Attributes:
        difference: Second minus first.
        interval: 95 % bootstrap interval of the difference.
        p: Two-sided p of the paired randomisation test: how often a difference at least as large appears
            when the two values of every query are swapped at random; nan without queries.
    """

    column: str
    first: float
    second: float
    difference: float
    interval: Interval
    p: float
    queries: int


def bootstrap_intervals(scores: Scores, seed: int = 0) -> dict[str, Interval]:
    """95 % bootstrap intervals of every column: queries are resampled, the gallery is fixed."""
    known = {name: values[~np.isnan(values)] for name, values in scores.per_query.items()}
    return {name: _bootstrap(values, np.ones(len(values), np.int64), seed) for name, values in known.items()}


def compare_scores(
    first: Scores, second: Scores, seed: int = 0, groups: Sequence[Hashable] | None = None
) -> list[ColumnComparison]:
    """Compare two models query by query.

    Args:
        first: A model's scores.
        second: Another's, on the same queries.
        seed: Of the resampling.
        groups: A key for each query of the first; queries with equal keys are resampled and swapped
            together, because they are not independent. None: every query is its own group.

    Raises:
        DataError: Where they were not scored on the same queries, gallery and definitions.
    """
    if first.variants != second.variants:
        raise DataError(f"they use different variants: {first.variants} and {second.variants}.")
    if list(first) != list(second):
        raise DataError(f"they have different columns: {', '.join(first)} and {', '.join(second)}.")
    order = _matched(first.ids, second.ids)
    if first.gallery != second.gallery:
        raise DataError(f"their galleries differ: {first.gallery:,} and {second.gallery:,} images.")
    if first.pairs_left_out != second.pairs_left_out:
        raise DataError(
            f"they leave out {first.pairs_left_out:,} and {second.pairs_left_out:,} pairs: other labels are "
            "unknown. Score both with the same labels."
        )
    members = _numbered(range(len(order)) if groups is None else groups)
    return [
        _column(name, first.per_query[name], second.per_query[name][order], members, seed) for name in first
    ]


def _numbered(keys: Sequence[Hashable]) -> np.ndarray:
    """Number the distinct keys from 0 in order of appearance. (Q,)"""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _matched(first: tuple[str, ...], second: tuple[str, ...]) -> np.ndarray:
    """Position of each query of the first in the second. (Q,)"""
    where = {image: position for position, image in enumerate(second)}
    for ids, others, which in ((first, where.keys(), "first"), (second, set(first), "second")):
        only = next((image for image in ids if image not in others), None)
        if only is not None:
            raise DataError(f"the query '{only}' is in the {which} alone. Score both on the same queries.")
    return np.array([where[image] for image in first], dtype=np.int64)


def _column(
    name: str, first: np.ndarray, second: np.ndarray, members: np.ndarray, seed: int
) -> ColumnComparison:
    both = ~(np.isnan(first) | np.isnan(second))
    difference = second[both] - first[both]
    sums, counts = _by_group(difference, members[both])
    return ColumnComparison(
        name,
        _mean(first[both]),
        _mean(second[both]),
        _mean(difference),
        _bootstrap(sums, counts, seed),
        _randomisation_p(sums, seed),
        int(both.sum()),
    )


def _by_group(values: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each group. (G,), (G,)"""
    _, place = np.unique(members, return_inverse=True)
    return np.bincount(place, values), np.bincount(place)


def _bootstrap(sums: np.ndarray, counts: np.ndarray, seed: int) -> Interval:
    """Interval of the mean of all values; whole groups are resampled."""
    if not len(sums):
        return Interval(float("nan"), float("nan"))
    means = []
    for rng, draws in _draws(len(sums), seed):
        drawn = rng.integers(len(sums), size=(draws, len(sums)))
        means.append(sums[drawn].sum(1) / counts[drawn].sum(1))
    low, high = np.quantile(np.concatenate(means), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def _randomisation_p(sums: np.ndarray, seed: int) -> float:
    """How often the sum is as far from 0 when the signs of whole groups are flipped at random."""
    if not len(sums):
        return float("nan")
    reached = 0
    least = abs(sums.sum()) - 1e-9
    for rng, draws in _draws(len(sums), seed):
        signs = 2 * rng.integers(2, size=(draws, len(sums)), dtype=np.int8) - 1
        reached += int((np.abs(signs @ sums) >= least).sum())
    return (1 + reached) / (1 + RESAMPLES)


def _draws(groups: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """The generator and the number of resamples of each chunk; chunks bound memory."""
    rng = np.random.default_rng(check_seed(seed))
    step = max(1, _DRAWN // groups)
    for start in range(0, RESAMPLES, step):
        yield rng, min(step, RESAMPLES - start)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
