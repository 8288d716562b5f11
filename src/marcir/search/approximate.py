"""Approximate search: in a LanceDB table, for more vectors than fit into memory."""
# ruff: noqa: D102  (documented in `Snapshot`)

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marcir.checks import check_int
from marcir.data.prefetch import in_batches
from marcir.search.area import enclosing_box
from marcir.search.arrow import (
    CORNERS,
    DETAILS,
    LABELS,
    PLACE,
    UNKNOWN,
    complete,
    optional_column,
    to_descriptions,
    to_rows,
    vector_matrix,
)
from marcir.search.conditions import IDS_PER_QUERY, condition_of, one_of, texts
from marcir.search.exact import random_rows
from marcir.search.lance_io import translate_errors
from marcir.search.lance_table import LanceTable
from marcir.search.listing_order import Listed, SortKey
from marcir.search.missing import missing, no_common_image, unknown_label
from marcir.search.places import PlaceIndex
from marcir.search.probes import REFINE, probes
from marcir.search.records import Extent, Filter, LabelStates, Neighbour, Row, check_queries
from marcir.search.relabelled import relabelled
from marcir.search.store import OptionalField, Snapshot
from marcir.search.table_rows import TableRows
from marcir.search.topk import best

# Rows that are read by their row ids at a time, where there may be many.
_TAKEN = 2**14
# How much deeper a search by place goes where too many of the nearest only have their boxes there.
_DEEPER = 4


# Number of images of each label: that have it, and where it is unknown.
_Counts = tuple[dict[str, int], dict[str, int]]


@dataclass
class _Held:
    """What was read of a table, for all copies of a snapshot.

    Attributes:
        ordered: All rows.
        passed: The last filter, and the rows that pass it.
        counts: All labels.
    """

    ordered: TableRows | None = None
    passed: tuple[Filter, np.ndarray] | None = None
    counts: _Counts | None = None


class ApproximateSearch(LanceTable, Snapshot):
    """A `Snapshot` that reads the LanceDB table for every question, with its approximate index if it has one.

    Neighbours are searched in multiples of a page. A deeper search may find others: pages of one search are
    the same as long as they are cut from the same depth.

    Args:
        uri: The store.
        table: Its table, opened for this snapshot alone, so that it stays at one version.
        dim: Length of the vectors.
        page: Neighbours are searched in multiples of it.
    """

    exact = False

    def __init__(self, uri: str, table: Any, dim: int, page: int = 1) -> None:
        super().__init__(uri, table)
        self._dim, self._page = dim, page
        self._version = str(table.version)
        self._held = _Held()
        self._relabelled: Callable[[Row], Row] | None = None  # where labels are not those of the table

    @property
    def version(self) -> str:
        return self._version

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        queries = check_queries(vectors, self._dim)
        end = check_int("offset", offset, 0) + check_int("k", k, 1)
        self._check_labels(where)
        if where is not None and _names_many(where):
            return [found[offset:] for found in self._best_of(queries, end, where)]
        total, condition = self.count_rows(), self._condition(where)
        passing = total if condition is None else self.count_rows(condition)
        wanted = math.ceil(end / self._page) * self._page
        return [self._best(query, wanted, where, condition, passing, total)[offset:end] for query in queries]

    def _best(
        self,
        query: np.ndarray,
        wanted: int,
        where: Filter | None,
        condition: str | None,
        passing: int,
        total: int,
    ) -> list[Neighbour]:
        """The nearest rows that pass a filter, as many as are wanted.

        Args:
            query: A unit vector. (D,)
            wanted: Number of neighbours.
            where: The filter.
            condition: The filter as a condition; of places it knows the boxes only.
            passing: Number of rows that fulfil the condition.
            total: Number of all rows.
        """
        least = None if where is None else where.min_similarity
        depth = min(wanted, passing)
        while depth:
            nearest = self._nearest(query, depth, condition, probes(passing, total, depth), least)
            found = self._in_place(nearest, where)
            if len(found) >= wanted or depth == passing or len(nearest) < depth:
                return found[:wanted]
            depth = min(_DEEPER * depth, passing)
        return []

    def _best_of(self, queries: np.ndarray, wanted: int, where: Filter) -> list[list[Neighbour]]:
        """The nearest of the rows that pass a filter, exactly. (Q, D)"""
        rows, parts = self.rows(where), list[list[tuple[np.ndarray, np.ndarray]]]()
        for start in range(0, len(rows), _TAKEN):
            part = rows[start : start + _TAKEN]
            found = best(self.vectors(part), queries, wanted, least=where.min_similarity)
            parts.append([(part[places], values) for places, values in found])
        return [self._ranked([part[query] for part in parts], wanted) for query in range(len(queries))]

    def _ranked(self, parts: Sequence[tuple[np.ndarray, np.ndarray]], wanted: int) -> list[Neighbour]:
        """The nearest of several parts of the rows, each with its similarities."""
        if not parts:
            return []
        rows, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((rows, -values))[:wanted]
        labels = self._taken(rows[order], ["labels"])["labels"].to_pylist()
        return [
            Neighbour(image, value, tuple(names or ()))
            for image, value, names in zip(
                self.ids_of(rows[order]), values[order].tolist(), labels, strict=True
            )
        ]

    def _in_place(self, nearest: list[Neighbour], where: Filter | None) -> list[Neighbour]:
        """Neighbours whose footprints, and not only boxes, pass a filter."""
        if where is None or not where.by_place:
            return nearest
        passed = set[str]()
        for part in in_batches((each.id for each in nearest), IDS_PER_QUERY):
            table = self.select(["id", *PLACE], one_of("id", part), len(part))
            passed.update(table.filter(PlaceIndex(table).mask(where))["id"].to_pylist())
        return [each for each in nearest if each.id in passed]

    def describe(self, ids: Sequence[str]) -> list[Row]:
        return self._by_id(ids, ["id", *LABELS, *DETAILS], to_descriptions)

    def get(self, ids: Sequence[str]) -> list[Row]:
        return self._by_id(ids, None, to_rows)

    def look_up(self, image: str) -> Row:
        return self.get([image])[0]

    def look_up_all(self, ids: Sequence[str]) -> list[Row]:
        return self.get(ids)

    def missing(self, ids: Sequence[str]) -> list[str]:
        there: set[str] = set()
        for part in in_batches(ids, IDS_PER_QUERY):
            there.update(self.select(["id"], one_of("id", part), len(part))["id"].to_pylist())
        return [image for image in ids if image not in there]

    def with_labels(self, labels: Mapping[str, LabelStates], unknown: Sequence[str]) -> "ApproximateSearch":
        other = copy(self)
        other._relabelled = partial(relabelled, labels, tuple(unknown))
        return other

    def thumbnail(self, image: str) -> bytes:
        found = self.select(["thumbnail"], one_of("id", [image]), 1)["thumbnail"].to_pylist()
        if not found:
            raise missing(image, self.ids())
        return found[0] or b""

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        where = Filter(all=tuple(labels))
        self._check_labels(where)
        table = self.select(["vector"], self._condition(where))
        if not table.num_rows:
            raise no_common_image(labels)
        mean: np.ndarray = vector_matrix(table["vector"]).mean(0, dtype=np.float64).astype(np.float32)
        return mean

    def ids(self, where: Filter | None = None) -> list[str]:
        self._check_labels(where)
        return sorted(self._passing(["id"], where)["id"].to_pylist())

    def count(self, where: Filter | None = None) -> int:
        self._check_labels(where)
        if where is not None and _names_many(where):
            return len(self.rows(where))
        if where is not None and where.by_place:
            return int(self._passing(["id"], where).num_rows)
        return self.count_rows(self._condition(where))

    def extent(self) -> Extent:
        parts = [PlaceIndex(complete(part, PLACE)) for _, part in self.scan([*CORNERS, "date"])]
        boxes = [box for box in (part.extent() for part in parts) if box is not None]
        dates = [date for part in parts for date in part.dates() if date is not None]
        return Extent(enclosing_box(boxes), min(dates, default=None), max(dates, default=None))

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self._counts(where)[0]

    def unknown_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self._counts(where)[1]

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        self._check_labels(where)
        ids = self._passing(["id"], where)["id"]
        order = pc.sort_indices(ids).to_numpy()
        return [str(image) for image in ids.take(random_rows(order, count, seed)).to_pylist()]

    def knows(self, what: OptionalField) -> bool:
        return bool(self.select(["id"], f"{optional_column(what)} IS NOT NULL", 1).num_rows)

    def page(
        self,
        offset: int,
        limit: int,
        where: Filter | None = None,
        sort: SortKey = "id",
        descending: bool = False,
    ) -> Listed:
        start, end = check_int("offset", offset, 0), offset + check_int("limit", limit, 1)
        ordered, allowed = self._table_rows(), None
        if not self._passes_all(where):
            allowed = np.zeros(len(ordered), bool)
            allowed[self.rows(where)] = True
        rows = ordered.listing.rows(allowed, sort, descending)
        return Listed(tuple(self.ids_of(rows[start:end])), len(rows))

    def rows(self, where: Filter | None = None) -> np.ndarray:
        self._check_labels(where)
        if where is None or self._passes_all(where):
            return np.arange(len(self._table_rows()))
        passed = self._held.passed
        if passed is None or passed[0] != where:  # the pages of one filter are asked for one after the other
            passed = self._held.passed = where, self._passing_rows(where)
        return passed[1]

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        return self._table_rows().find_ids(pa.array(ids, pa.string()))

    def ids_of(self, rows: np.ndarray) -> list[str]:
        ids: list[str] = self._table_rows().ids.take(pa.array(rows)).to_pylist()
        return ids

    def states(self, label: str) -> np.ndarray:
        ordered = self._table_rows()
        if label not in self._all_labels()[0]:
            return np.full(len(ordered), -1, np.int8)
        states = np.zeros(len(ordered), np.int8)
        for column, state in (("labels", 1), (UNKNOWN, -1)):
            if column == UNKNOWN and UNKNOWN not in self.optional:
                continue
            found = self.select(["id"], f"array_has_any({column}, [{texts([label])}])", row_ids=True)
            states[ordered.find(found["_rowid"])] = state
        states[ordered.find(self.select(["id"], "labels IS NULL", row_ids=True)["_rowid"])] = -1
        return states

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(rows), self._dim), np.float32)
        for start in range(0, len(rows), _TAKEN):
            part = slice(start, start + _TAKEN)
            found[part] = vector_matrix(self._taken(rows[part], ["vector"])["vector"])
        return found

    def products(self, weights: np.ndarray) -> np.ndarray:
        ordered = self._table_rows()
        products = np.zeros(len(ordered), np.float32)
        for keys, part in self.scan(["vector"]):  # they do not all fit into memory
            products[ordered.find(keys)] = vector_matrix(part["vector"]) @ weights.astype(np.float32)
        return products

    def _table_rows(self) -> TableRows:
        """All rows in the order of ids, read once."""
        ordered = self._held.ordered
        if ordered is None:
            ordered = self._held.ordered = TableRows(self.select(["id", "date"], row_ids=True))
        return ordered

    def _passing(self, columns: list[str], where: Filter | None, row_ids: bool = False) -> pa.Table:
        """Columns of the rows that pass a filter."""
        if where is not None and _names_many(where):
            return self._taken(self.rows(where), columns)
        if where is None or not where.by_place:
            return self.select(columns, self._condition(where), row_ids=row_ids)
        table = self.select([*columns, *PLACE], self._condition(where), row_ids=row_ids)
        kept = [*columns, "_rowid"] if row_ids else columns
        return table.filter(PlaceIndex(table).mask(where)).select(kept)

    def _passing_rows(self, where: Filter) -> np.ndarray:
        """Rows that pass a filter, sorted. (M,)"""
        if _names_many(where):
            named = self.rows_of(where.among or ())
            return np.intersect1d(named, self.rows(replace(where, among=None)))
        return np.sort(self._table_rows().find(self._passing(["id"], where, row_ids=True)["_rowid"]))

    def _taken(self, rows: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Columns of some rows, in their order."""
        return self.take(self._table_rows().row_ids[rows], columns)

    def _passes_all(self, where: Filter | None) -> bool:
        """Whether a filter lets all rows pass, whatever their similarity."""
        return where is None or (not _names_many(where) and self._condition(where) is None)

    def _condition(self, where: Filter | None) -> str | None:
        return condition_of(where, UNKNOWN in self.optional)

    def _nearest(
        self, query: np.ndarray, k: int, condition: str | None, probed: int | None, least: float | None
    ) -> list[Neighbour]:
        """The k nearest of the rows that fulfil a condition, which are at least k."""
        rows = self._candidates(query, k, condition, probed)
        if len(rows) < k and probed is not None:  # the partitions that were read have too few
            rows = self._candidates(query, k, condition, None)
        found = [Neighbour(row["id"], 1 - row["_distance"], tuple(row["labels"] or ())) for row in rows]
        if least is not None:
            found = [each for each in found if each.similarity >= least]
        return sorted(found, key=lambda each: (-each.similarity, each.id))

    def _candidates(
        self, query: np.ndarray, k: int, condition: str | None, probed: int | None
    ) -> list[dict[str, Any]]:
        """The k nearest rows in so many partitions of the index; without it, exactly, for None."""
        with translate_errors(self._uri):
            search = self._table.search(query, vector_column_name="vector").distance_type("cosine").limit(k)
            if condition is not None:
                search = search.where(condition, prefilter=True)
            if probed is None:
                search = search.bypass_vector_index()
            else:
                search = search.nprobes(probed).refine_factor(REFINE)
            rows: list[dict[str, Any]] = search.select(["id", "labels", "_distance"]).to_arrow().to_pylist()
        return rows

    def _by_id(
        self, ids: Sequence[str], columns: list[str] | None, convert: Callable[[pa.Table], list[Row]]
    ) -> list[Row]:
        found: dict[str, Row] = {}
        for part in in_batches(ids, IDS_PER_QUERY):
            found |= {row.id: row for row in convert(self.select(columns, one_of("id", part), len(part)))}
        for image in ids:
            if image not in found:
                raise missing(image, self.ids())
        rows = [found[image] for image in ids]
        return rows if self._relabelled is None else list(map(self._relabelled, rows))

    def _check_labels(self, where: Filter | None) -> None:
        """Refuse a label that no image has, as exact search does."""
        if where is None or not where.by_labels:
            return
        known, _ = self._all_labels()
        for name in where.label_names:
            if name not in known:
                raise unknown_label(name, known)

    def _counts(self, where: Filter | None) -> _Counts:
        if self._passes_all(where):
            return self._all_labels()
        self._check_labels(where)
        return self._count_labels(where, self._all_labels()[0])

    def _all_labels(self) -> _Counts:
        """All labels of the table, counted once."""
        if self._held.counts is None:
            self._held.counts = self._count_labels(None)
        present, unknown = self._held.counts
        return dict(present), dict(unknown)

    def _count_labels(self, where: Filter | None, names: Iterable[str] = ()) -> _Counts:
        """Counts of these names and of those in the table, in the order of names."""
        table = self._passing(list(LABELS), where)
        present, unknown = (
            {each["values"]: each["counts"] for each in pc.value_counts(pc.list_flatten(column)).to_pylist()}
            for column in (table["labels"], table[UNKNOWN])
        )
        every, unlabelled = sorted({*names, *present, *unknown}), table["labels"].null_count
        return (
            {name: present.get(name, 0) for name in every},
            {name: unknown.get(name, 0) + unlabelled for name in every},
        )


def _names_many(where: Filter) -> bool:
    """Whether a filter names more images than a condition should: LanceDB reads 100,000 ids in seconds.

    Such a filter is applied to the ids in memory, and the rows that pass are read by their row ids.
    """
    return where.among is not None and len(where.among) > IDS_PER_QUERY
