"""Approximate search: in a LanceDB table, for more vectors than fit into memory."""
# ruff: noqa: D102  (documented in `Snapshot`)

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marcir.checks import check_int
from marcir.data.prefetch import in_batches
from marcir.search.arrow import (
    DETAILS,
    LABELS,
    UNKNOWN,
    complete,
    optional_column,
    to_descriptions,
    to_rows,
    vector_matrix,
)
from marcir.search.exact import random_rows
from marcir.search.lance_io import translate_errors
from marcir.search.missing import missing, no_common_image, unknown_label
from marcir.search.records import Filter, Neighbour, Row, check_queries
from marcir.search.store import OptionalField, Snapshot

# An approximate index alone finds two of three neighbours; candidates are compared exactly again.
REFINE = 10
# Vectors per partition of the index, and the share of the partitions that a search without filter reads: half
# gave recall@10 0.988 on 200,000 clustered vectors, a third 0.973 in 0.94 of the time; at least 0.998 both
# on 1,000,000.
PARTITION_ROWS = 1000
PROBED = 0.5
_MIN_PROBED = 20
_ALL = 10**6  # partitions: more than any index has
# With a filter, the partitions near a query may hold none of the nearest rows that pass. Recall@10 on
# 1,000,000 clustered vectors, by the share of the partitions that is read; "own" labels belong to whole
# clusters, as those of images do, the others to random rows:
#
#     rows that pass    100 %   90 %   10 %   10 % own   2 %    2 % own   0.1 %   0.1 % own
#     a third           1.000   0.996  0.996  0.708      0.958  0.767     0.725   0.562
#     half              1.000   1.000  1.000  0.921      0.992  0.904     0.892   0.596
#     70 %              1.000   1.000  1.000  1.000      1.000  1.000     0.983   0.596
#     all               1.000   1.000  1.000  1.000      1.000  1.000     1.000   1.000
#
# So the share grows until as many passing rows are read as without a filter; all partitions where half of the
# rows or fewer pass. Reading all took up to twice as long as reading a third.
# Rows that pass and are compared exactly instead: on a busy machine about 1,000 of 1,000,000 took 130 to 290
# ms where all partitions took 120 to 180 ms, on a less busy one 44 ms and 93 ms. Both should grow with their
# rows, hence a share for larger tables, which was not measured.
_FEW = 1000
_FEW_SHARE = 0.001
IDS_PER_QUERY = 500


# Number of images of each label: that have it, and where it is unknown.
_Counts = tuple[dict[str, int], dict[str, int]]


class ApproximateSearch(Snapshot):
    """A `Snapshot` that reads the LanceDB table for every question, with its approximate index if it has one.

    Neighbours are searched in multiples of a page. A deeper search may find others: pages of one search are
    the same as long as they are cut from the same depth.
    """

    exact = False

    def __init__(self, uri: str, table: Any, dim: int, page: int = 1) -> None:
        self._uri, self._table, self._dim, self._page = uri, table, dim, page
        self._counted: tuple[int, _Counts] = (-1, ({}, {}))  # version of the table, its labels

    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Neighbour]]:
        queries = check_queries(vectors, self._dim)
        end = check_int("offset", offset, 0) + check_int("k", k, 1)
        self._check_labels(where)
        total, condition = self._count(None), self._condition(where)
        passing = total if condition is None else self._count(condition)
        depth = min(math.ceil(end / self._page) * self._page, passing)
        if not depth:
            return [[] for _ in queries]
        probed = probes(passing, total, depth)
        least = None if where is None else where.min_similarity
        return [self._nearest(query, depth, condition, probed, least)[offset:end] for query in queries]

    def describe(self, ids: Sequence[str]) -> list[Row]:
        return self._by_id(ids, ["id", *LABELS, *DETAILS], to_descriptions)

    def get(self, ids: Sequence[str]) -> list[Row]:
        return self._by_id(ids, None, to_rows)

    def look_up(self, image: str) -> Row:
        return self.get([image])[0]

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

    def ids(self) -> list[str]:
        return sorted(self.select(["id"])["id"].to_pylist())

    def count(self, where: Filter | None = None) -> int:
        self._check_labels(where)
        return self._count(self._condition(where))

    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self._counts(where)[0]

    def unknown_counts(self, where: Filter | None = None) -> dict[str, int]:
        return self._counts(where)[1]

    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        self._check_labels(where)
        ids = self.select(["id"], self._condition(where))["id"]
        order = pc.sort_indices(ids).to_numpy()
        return [str(image) for image in ids.take(random_rows(order, count, seed)).to_pylist()]

    def knows(self, what: OptionalField) -> bool:
        return bool(self.select(["id"], f"{optional_column(what)} IS NOT NULL", 1).num_rows)

    def select(
        self, columns: list[str] | None, condition: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Columns of the rows that fulfil a condition; all columns and rows by default."""
        with translate_errors(self._uri):
            query = self._table.search()
            if columns is not None:
                there = columns if self.has_unknown else [name for name in columns if name != UNKNOWN]
                query = query.select(there)
            query = query if condition is None else query.where(condition)
            found = query.limit(limit or max(1, self._table.count_rows())).to_arrow()
        return complete(found) if columns is None or UNKNOWN in columns else found

    @property
    def has_unknown(self) -> bool:
        """Whether the table has the column of unknown labels; one without them need not."""
        return UNKNOWN in self._table.schema.names

    def _condition(self, where: Filter | None) -> str | None:
        return condition_of(where, self.has_unknown)

    def _count(self, condition: str | None) -> int:
        with translate_errors(self._uri):
            return int(self._table.count_rows(condition))

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
        return [found[image] for image in ids]

    def _check_labels(self, where: Filter | None) -> None:
        """Refuse a label that no image has, as exact search does."""
        if where is None or not where.by_labels:
            return
        known, _ = self._all_labels()
        for name in where.label_names:
            if name not in known:
                raise unknown_label(name, known)

    def _counts(self, where: Filter | None) -> _Counts:
        condition = self._condition(where)
        if condition is None:
            return self._all_labels()
        self._check_labels(where)
        return self._count_labels(condition, self._all_labels()[0])

    def _all_labels(self) -> _Counts:
        """All labels of the table, counted once per version."""
        version = int(self._table.version)
        counted, counts = self._counted
        if version != counted:
            counts = self._count_labels(None)
            self._counted = version, counts
        present, unknown = counts
        return dict(present), dict(unknown)

    def _count_labels(self, condition: str | None, names: Iterable[str] = ()) -> _Counts:
        """Counts of these names and of those in the table, in the order of names."""
        table = self.select(list(LABELS), condition)
        present, unknown = (
            {each["values"]: each["counts"] for each in pc.value_counts(pc.list_flatten(column)).to_pylist()}
            for column in (table["labels"], table[UNKNOWN])
        )
        every = sorted({*names, *present, *unknown})
        return {name: present.get(name, 0) for name in every}, {name: unknown.get(name, 0) for name in every}


def probes(passing: int, total: int, k: int) -> int | None:
    """Number of partitions of the index that a search reads; None where it is exact instead.

    Args:
        passing: Number of rows that pass the filter.
        total: Number of all rows.
        k: Number of neighbours.

    >>> probes(1_000_000, 1_000_000, 10), probes(800_000, 1_000_000, 10), probes(900, 1_000_000, 10)
    (500, 625, None)
    """
    if passing <= max(_FEW, k, _FEW_SHARE * total):
        return None
    share = PROBED * total / passing
    return _ALL if share >= 1 else max(_MIN_PROBED, math.ceil(share * total / PARTITION_ROWS))


def one_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column has one of some values."""
    return f"{column} IN ({_texts(values)})"


def condition_of(where: Filter | None, has_unknown: bool = False) -> str | None:
    """The condition of a filter on labels and ids; None where it has none.

    Args:
        where: The filter.
        has_unknown: Whether the table has the column of unknown labels.

    >>> condition_of(Filter(all=("ship", "dock")))
    "array_has_all(labels, ['ship', 'dock'])"
    >>> condition_of(Filter(without=("it's.png",)))
    "NOT id IN ('it''s.png')"
    >>> condition_of(Filter(none=("ship",)), has_unknown=True)
    "NOT array_has_any(labels, ['ship']) AND (unknown IS NULL OR NOT array_has_any(unknown, ['ship']))"
    """
    if where is None:
        return None
    parts = []
    if where.any:
        parts.append(f"array_has_any(labels, [{_texts(where.any)}])")
    if where.all:
        parts.append(f"array_has_all(labels, [{_texts(where.all)}])")
    if where.none:
        parts.append(f"NOT array_has_any(labels, [{_texts(where.none)}])")
        if has_unknown and not where.none_unknown_ok:
            unknown = f"array_has_any({UNKNOWN}, [{_texts(where.none)}])"
            parts.append(f"({UNKNOWN} IS NULL OR NOT {unknown})")
    if where.without:
        parts.append(f"NOT {one_of('id', where.without)}")
    return " AND ".join(parts) or None


def _texts(values: Iterable[str]) -> str:
    """Values as string literals of SQL, quoted whatever they contain."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
