"""Exact search: all vectors in one matrix, in memory."""
# ruff: noqa: D102  (documented in `Snapshot`)

import secrets
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from marcir.checks import check_int
from marcir.errors import needs
from marcir.search.listing_order import Listed, ListingOrder, SortKey
from marcir.search.missing import missing, no_common_image, unknown_label
from marcir.search.records import Extent, Filter, LabelStates, Neighbour, Row, check_queries
from marcir.search.relabelled import ChangedLabels, LabelRows, relabelled
from marcir.search.store import OptionalField, Snapshot
from marcir.search.topk import best

with needs("store"):
    import pyarrow as pa
    import pyarrow.compute as pc

    from marcir.search.arrow import UNKNOWN, optional_column, to_descriptions, vector_matrix
    from marcir.search.places import PlaceIndex

# Vectors that are summed at a time: most images of a large store may have one label.
_ROWS = 2**16


class ExactSearch(Snapshot):
    """A snapshot whose vectors are in memory; never changed, so that threads may share it.

    Its table has ids, vectors, labels, places and dates, in any order, and all other columns but thumbnails;
    `details` is where these are read instead, if the table does not have them.
    """

    exact = True

    def __init__(self, table: pa.Table, details: Snapshot | None = None) -> None:
        order = pc.sort_indices(table["id"])
        self._table = table.drop(["vector"]).take(order).combine_chunks()
        self._vectors = vector_matrix(table["vector"])[order.to_numpy()]  # Arrow would take ten times as long
        self._ids: list[str] = self._table["id"].to_pylist()
        self._labels: LabelRows = LabelIndex(self._table["labels"])
        self._unknown: LabelRows = LabelIndex(self._table[UNKNOWN])
        self._unlabelled: np.ndarray = self._table["labels"].is_null().to_numpy()  # (N,)
        self._relabelled: Callable[[Row], Row] | None = None  # where labels are not those of the table
        self._everywhere: tuple[str, ...] = ()  # unknown for all rows that are not relabelled
        self._places = PlaceIndex(self._table)
        self._listing, self._version = ListingOrder(self._places.days), secrets.token_hex(8)
        self._details = details

    @property
    def version(self) -> str:
        return self._version

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        queries = check_queries(vectors, self._vectors.shape[1])
        end = check_int("offset", offset, 0) + check_int("k", k, 1)
        least = None if where is None else where.min_similarity
        return [
            [
                Neighbour(self._ids[row], value, self._labels[row])
                for row, value in zip(rows[offset:].tolist(), values[offset:].tolist(), strict=True)
            ]
            for rows, values in best(self._vectors, queries, end, self._allowed(where), least)
        ]

    def describe(self, ids: Sequence[str]) -> list[Row]:
        if self._details is not None:
            rows = self._details.describe(ids)
        else:
            rows = to_descriptions(self._table.take(np.array([self._row(image) for image in ids], np.int64)))
        return rows if self._relabelled is None else list(map(self._relabelled, rows))

    def knows(self, what: OptionalField) -> bool:
        if self._details is not None:
            return self._details.knows(what)
        values = self._table[optional_column(what)]
        return bool(len(values) > values.null_count)

    def look_up(self, image: str) -> Row:
        row = self._row(image)
        labelled = not self._unlabelled[row]
        return Row(
            image, self._vectors[row], self._labels[row], unknown=self._unknown[row], labelled=labelled
        )

    def look_up_all(self, ids: Sequence[str]) -> list[Row]:
        return [self.look_up(image) for image in ids]

    def missing(self, ids: Sequence[str]) -> list[str]:
        return [image for image in ids if self._find(image) is None]

    def with_labels(self, labels: Mapping[str, LabelStates], unknown: Sequence[str]) -> "ExactSearch":
        other = copy(self)
        other.__dict__.pop("_names", None)  # cached
        changed = {self._row(image): states for image, states in labels.items()}
        rows, everywhere = len(self._ids), tuple(unknown)
        present = {row: states.present for row, states in changed.items()}
        may_be = {row: states.unknown for row, states in changed.items()}
        other._labels = ChangedLabels(self._labels, rows, present)
        other._unknown = ChangedLabels(self._unknown, rows, may_be, everywhere)
        other._relabelled, other._everywhere = partial(relabelled, labels, everywhere), everywhere
        other._unlabelled = self._unlabelled.copy()
        other._unlabelled[list(changed)] = False
        return other

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        allowed = self._allowed(Filter(all=tuple(labels)))
        rows = np.arange(len(self._ids)) if allowed is None else np.flatnonzero(allowed)
        if not len(rows):
            raise no_common_image(labels)
        parts = [
            self._vectors[rows[start : start + _ROWS]].sum(0, dtype=np.float64)
            for start in range(0, len(rows), _ROWS)
        ]
        mean: np.ndarray = np.sum(parts, axis=0) / len(rows)
        return mean.astype(np.float32)

    def ids(self, where: Filter | None = None) -> list[str]:
        allowed = self._allowed(where)
        if allowed is None:
            return list(self._ids)
        return [self._ids[row] for row in np.flatnonzero(allowed).tolist()]

    def extent(self) -> Extent:
        return Extent(self._places.extent(), *self._places.dates())

    def count(self, where: Filter | None = None) -> int:
        allowed = self._allowed(where)
        return len(self._ids) if allowed is None else int(np.count_nonzero(allowed))

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self._counts(self._labels, self._allowed(where))

    def unknown_counts(self, where: Filter | None = None) -> dict[str, int]:
        allowed = self._allowed(where)
        unlabelled = self._unlabelled if allowed is None else self._unlabelled & allowed
        more = int(np.count_nonzero(unlabelled))
        return {
            name: count if name in self._everywhere else count + more
            for name, count in self._counts(self._unknown, allowed).items()
        }

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        allowed = self._allowed(where)
        rows = np.arange(len(self._ids)) if allowed is None else np.flatnonzero(allowed)
        return [self._ids[row] for row in random_rows(rows, count, seed).tolist()]

    def page(
        self,
        offset: int,
        limit: int,
        where: Filter | None = None,
        sort: SortKey = "id",
        descending: bool = False,
    ) -> Listed:
        rows = self._listing.rows(self._allowed(where), sort, descending)
        start, end = check_int("offset", offset, 0), offset + check_int("limit", limit, 1)
        return Listed(tuple(self.ids_of(rows[start:end])), len(rows))

    def rows(self, where: Filter | None = None) -> np.ndarray:
        return self._listing.rows(self._allowed(where), "id")

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        found = map(self._find, ids)
        return np.array([-1 if row is None else row for row in found], np.int64)

    def ids_of(self, rows: np.ndarray) -> list[str]:
        return [self._ids[row] for row in rows.tolist()]

    def states(self, label: str) -> np.ndarray:
        if label not in self._names:
            return np.full(len(self._ids), -1, np.int8)
        states = self._labels.mask([label]).astype(np.int8)
        states[self._unknown.mask([label]) | self._unlabelled] = -1
        return states

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        chosen: np.ndarray = self._vectors[rows]
        return chosen

    def products(self, weights: np.ndarray) -> np.ndarray:
        products: np.ndarray = self._vectors @ weights.astype(np.float32)
        return products

    def _counts(self, index: LabelRows, allowed: np.ndarray | None) -> dict[str, int]:
        return {**dict.fromkeys(self._names, 0), **index.counts(allowed)}

    @cached_property
    def _names(self) -> list[str]:
        """All labels, also those that are unknown wherever they are mentioned; sorted."""
        return sorted({*self._labels.names, *self._unknown.names})

    def _allowed(self, where: Filter | None) -> np.ndarray | None:
        """Rows that pass a filter, bool; None where all do. (N,)"""
        if where is None or not (
            where.by_labels or where.without or where.by_place_or_date or where.among is not None
        ):
            return None
        for name in where.label_names:
            if name not in self._labels.names and name not in self._unknown.names:
                raise unknown_label(name, self._names)
        mask = np.ones(len(self._ids), dtype=bool)
        for name in where.all:
            mask &= self._labels.mask([name])
        if where.any:
            mask &= self._labels.mask(where.any)
        if where.none:
            mask &= ~self._labels.mask(where.none)
            if not where.none_unknown_ok:
                mask &= ~(self._unknown.mask(where.none) | self._unlabelled)
        if where.by_place_or_date:
            mask &= self._places.mask(where)
        if where.among is not None:
            chosen = np.zeros(len(self._ids), dtype=bool)
            chosen[self._rows(where.among)] = True
            mask &= chosen
        mask[self._rows(where.without)] = False
        return mask

    def _rows(self, ids: Iterable[str]) -> list[int]:
        """Rows of those of some ids that are there."""
        return [row for row in map(self._find, ids) if row is not None]

    def _row(self, image: str) -> int:
        row = self._find(image)
        if row is None:
            raise missing(image, self._ids)
        return row

    def _find(self, image: str) -> int | None:
        row = bisect_left(self._ids, image)
        return row if row < len(self._ids) and self._ids[row] == image else None


class LabelIndex:
    """Rows by label, of a column with one list of label names per row."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __getitem__(self, row: int) -> tuple[str, ...]:
        """The labels of a row.

        >>> LabelIndex(pa.chunked_array([[["a", "b"], None], [["a"]]]))[2]
        ('a',)
        """
        return tuple(self._column[row].as_py() or ())

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """The rows of each label; built when one is first used: most searches do not wait for it."""
        lengths = pc.fill_null(pc.list_value_length(self._column), 0).to_numpy()
        rows, labels = np.repeat(np.arange(len(lengths)), lengths), pc.list_flatten(self._column)
        names = pc.unique(labels).sort().to_pylist()
        codes = pc.index_in(labels, pa.array(names, pa.string())).to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
        return {
            name: _distinct(rows[order[start:end]])
            for name, (start, end) in zip(names, pairwise(ends), strict=True)
        }

    @property
    def names(self) -> Collection[str]:
        """All labels."""
        return self.rows.keys()

    def counts(self, allowed: np.ndarray | None = None) -> dict[str, int]:
        """Number of rows of each label; with a mask, only of the rows that it allows. (N,)"""
        if allowed is None:
            return {name: len(rows) for name, rows in self.rows.items()}
        return {name: int(np.count_nonzero(allowed[rows])) for name, rows in self.rows.items()}

    def mask(self, names: Iterable[str]) -> np.ndarray:
        """Rows that have at least one of the labels, bool. (N,)"""
        mask = np.zeros(len(self._column), dtype=bool)
        for name in names:
            mask[self.rows.get(name, [])] = True
        return mask


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Sorted rows, each once; `np.unique` would take ten times as long.

    >>> _distinct(np.array([0, 0, 3, 7, 7]))
    array([0, 3, 7])
    """
    return rows[np.flatnonzero(np.diff(rows, prepend=-1))]


def random_rows(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random rows, each once; all of them where they are fewer than `count`.

    >>> random_rows(np.array([3, 5, 7]), 2, seed=0)
    array([7, 3])
    """
    check_int("count", count, 1)
    order = np.random.default_rng(check_int("seed", seed, 0)).permutation(len(rows))
    chosen: np.ndarray = rows[order[:count]]
    return chosen
