"""LanceDB: one store from a laptop's folder to object storage that many readers share.

LanceDB is not fork-safe: open a store inside the process that uses it.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from marcir.checks import check_int
from marcir.errors import StoreError, UnusableStoreError, needs
from marcir.schema import to_json
from marcir.search.label_index import unknown_label
from marcir.search.lance_io import (
    file_is_gone,
    read_about,
    refuse_missing,
    refuse_other_folder,
    translate_errors,
    whole_tables,
)
from marcir.search.memory import VectorMatrix, drawn
from marcir.search.missing import missing
from marcir.search.records import About, Filter, Hit, Row, check_queries, check_rows
from marcir.search.sql import condition_of, one_of

with needs("store"):
    import lancedb
    import pyarrow as pa
    import pyarrow.compute as pc
    from lancedb.index import BTree, IvfSq

    from marcir.search.arrow import DETAILS, described, schema, to_rows, to_table, vector_matrix
    from marcir.search.snapshot import Loaded

IN_MEMORY = 4 * 2**30  # bytes of vectors that are searched exactly, in memory
# An approximate index alone finds two of three neighbours; candidates are compared exactly again.
REFINE = 10
# Vectors of one part of the index, and the share of the parts that a search looks into. On 400,000 clustered
# vectors a third of the parts gave recall@10 0.98 at 20 times the speed of a scan, a tenth gave 0.94. The
# index was built in 15 s; one with HNSW graphs found no more and took minutes for half as many.
_PART = 1000
PROBED = 0.33
_LEAST_PROBED = 20
PAGED = 1000  # places that a resident store searches the index for, whichever page is asked for
# Age at which old versions are removed: at once in a folder, after an hour on object storage, where writers
# cannot lock each other out. (Of 0 LanceDB warns; it counts in milliseconds.)
_AT_ONCE, _KEPT_VERSIONS = timedelta(milliseconds=1), timedelta(hours=1)
_IDS_AT_ONCE = 500
# Between two looks whether a store on object storage, or one that answers many questions, has changed.
_LOOK_SECONDS = 1.0
# As many times as long as reading all rows took, the next reading waits at least.
_REST = 10
_CONFLICTS = 10  # times that a commit which another writer preempted is tried again
_READINGS = 5  # times that a reading is tried while a writer removes the files that it needs

P = ParamSpec("P")
Read = TypeVar("Read")


def _of_newest(
    method: Callable[Concatenate["LanceStore", P], Read],
) -> Callable[Concatenate["LanceStore", P], Read]:
    """A method that reads the newest version instead where a file of the opened version is gone."""

    @wraps(method)
    def reading(store: "LanceStore", /, *args: P.args, **kwargs: P.kwargs) -> Read:
        for _ in range(_READINGS - 1):
            try:
                return method(store, *args, **kwargs)
            except UnusableStoreError as error:
                if not file_is_gone(error):
                    raise
                store._to_newest()
        return method(store, *args, **kwargs)

    return reading


class LanceStore:
    """A store in LanceDB; threads may share it.

    Args:
        uri: A folder, or `s3://bucket/path`.
        approximate: Use the approximate index even where the vectors fit into memory.
        resident: For a process that answers many questions: besides vectors, everything but thumbnails is
            kept in memory, changes are looked for once a second, and while one thread reads them, the others
            go on with what was there before.

    Raises:
        StoreError: Where there is no such store, or it cannot be read.
    """

    def __init__(self, uri: str | Path, approximate: bool = False, resident: bool = False) -> None:
        self.uri = str(uri)
        self.approximate, self.resident = approximate, resident
        refuse_missing(self.uri)
        with translate_errors(self.uri):
            self._db = lancedb.connect(self.uri)
            names = whole_tables(self._db)
            if "about" not in names:
                raise StoreError(
                    f"{self.uri}: not a store of marcir. Make one with: marcir index --images DIR "
                    f"--store {self.uri}"
                )
            if not {"images", "model"} <= names:
                raise StoreError(f"{self.uri}: half written. Finish it with the same marcir index command.")
            self.about = read_about(self.uri, self._db)
            self._table = self._db.open_table("images")
        self._loaded: Loaded | None = None
        self._loading = threading.Lock()
        self._labels: tuple[int, dict[str, int]] = (-1, {})
        self._look_at, self._seen = 0.0, -1  # when to look next, and the version that was seen last

    @classmethod
    def create(
        cls, uri: str | Path, about: About, model: Mapping[str, bytes], root_moved: bool = False
    ) -> "LanceStore":
        """Make an empty store, or go on with one of the same model that is there.

        Args:
            uri: A folder, or `s3://bucket/path`.
            about: What it will hold.
            model: The model's files by name, so that search needs nothing else.
            root_moved: Whether the images may lie in another folder than before.

        Raises:
            StoreError: Where the store is of another model, or of images in another folder.
        """
        uri = str(uri)
        refuse_other_folder(uri)
        with translate_errors(uri):
            db = lancedb.connect(uri)
            names = whole_tables(db)
            found = about
            if "about" in names:
                found = read_about(uri, db)
                if (found.model, found.dim) != (about.model, about.dim):
                    raise StoreError(
                        f"{uri}: holds vectors of another model ({found.model[:12]}, not "
                        f"{about.model[:12]}). Use another --store, or the model that it was made with."
                    )
                if found.root != about.root and not root_moved:
                    raise StoreError(
                        f"{uri}: holds the images of {found.root}, not of {about.root}. Use another --store; "
                        "if the same images have moved there, add --root-moved."
                    )
            if "model" not in names:
                content = {"name": list(model), "content": list(model.values())}
                columns = pa.schema([("name", pa.string()), ("content", pa.large_binary())])
                db.create_table("model", pa.table(content, schema=columns))
            if "about" not in names or found.root != about.root:
                says = to_json(about)
                mode = "overwrite" if "about" in names else "create"
                db.create_table("about", pa.table({"about": [says]}), mode=mode)
            if "images" not in names:
                db.create_table("images", schema=schema(about.dim))
        return cls(uri)

    @_of_newest
    def add(self, rows: Sequence[Row]) -> None:
        """Add images in one commit; one whose id is there already is replaced."""
        check_rows(rows, self.about.dim)
        if not rows:
            return
        with translate_errors(self.uri):
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(to_table(rows, self.about.dim))

    @_of_newest
    def search(
        self, vectors: np.ndarray, k: int, where: Filter | None = None, offset: int = 0
    ) -> list[list[Hit]]:
        """The k most similar images to each vector, best first; ties in the order of ids. (Q, D)"""
        queries = check_queries(vectors, self.about.dim)
        matrix = self.matrix
        if matrix is not None:
            return matrix.search(queries, k, where, offset)
        most = end = check_int("offset", offset, 0) + check_int("k", k, 1)
        if self.resident:  # a deeper search may find others: pages of one answer are cut from equal ones
            most = math.ceil(end / PAGED) * PAGED
        most = min(most, max(1, self.count()))
        self._check_labels(where)
        return [self._search_index(query, most, where)[offset:end] for query in queries]

    @_of_newest
    def get(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, in the order of the ids."""
        found: dict[str, Row] = {}
        self._latest()
        for part in _parts(ids):
            with translate_errors(self.uri):
                table = self._table.search().where(one_of("id", part)).limit(len(part)).to_arrow()
            found |= {row.id: row for row in to_rows(table)}
        return self._in_order(ids, found)

    @_of_newest
    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, with neither vector nor thumbnail."""
        if self.resident and (loaded := self._load()) is not None:
            rows = loaded.describe(ids)
            if rows is not None:
                return rows
        found: dict[str, Row] = {}
        self._latest()
        for part in _parts(ids):
            with translate_errors(self.uri):
                search = self._table.search().where(one_of("id", part)).limit(len(part))
                table = search.select(["id", "labels", *DETAILS]).to_arrow()
            found |= {row.id: row for row in described(table)}
        return self._in_order(ids, found)

    def look_up(self, image: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of one image."""
        if (matrix := self.matrix) is not None:
            return matrix.look_up(image)
        (row,) = self.get([image])
        return row.vector, row.labels

    @_of_newest
    def thumbnail(self, image: str) -> bytes:
        """The JPEG of one image."""
        self._latest()
        with translate_errors(self.uri):
            search = self._table.search().where(one_of("id", [image])).limit(1)
            found = search.select(["thumbnail"]).to_arrow()["thumbnail"].to_pylist()
        if not found:
            raise missing(image, self.ids())
        return found[0] or b""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; how many there were."""
        removed = 0
        self._latest()
        for part in _parts(list(dict.fromkeys(ids))):
            removed += self._delete(part)
        return removed

    @_of_newest
    def count(self, where: Filter | None = None) -> int:
        """Number of images."""
        self._latest()
        if (self.resident or condition_of(where) is not None) and (matrix := self.matrix) is not None:
            return matrix.count(where)
        self._check_labels(where)
        with translate_errors(self.uri):
            return int(self._table.count_rows(condition_of(where)))

    def optimize(self) -> None:
        """Join small files, index the ids, and remove old versions; LanceDB never does so by itself.

        Whoever reads an old version meanwhile goes on with the newest.
        """
        self._latest()
        for left in reversed(range(_CONFLICTS)):
            try:
                with translate_errors(self.uri):
                    self._remove_doubles()
                    self._join_files()
                    if self.count() and not any(
                        "id" in index.columns for index in self._table.list_indices()
                    ):
                        self._table.create_index("id", config=BTree())
                    self._join_files()  # removes what the indices of ids and vectors were before
                return
            except UnusableStoreError as error:  # two writers, where nothing locks them out
                if not left or not ("conflict" in str(error) or file_is_gone(error)):
                    raise
                self._to_newest()

    def build_index(self) -> None:
        """Make the approximate index anew.

        Raises:
            StoreError: For a store without images.
        """
        if not self.count():
            raise StoreError(f"{self.uri}: no images, so there is nothing to make an index of.")
        with translate_errors(self.uri):
            config = IvfSq(distance_type="cosine", num_partitions=_partitions(self.count()))
            self._table.create_index("vector", config=config)
            self._join_files()

    @property
    @_of_newest
    def fits_memory(self) -> bool:
        """Whether the vectors are few enough to be searched exactly."""
        self._latest()
        with translate_errors(self.uri):
            return 4 * self.about.dim * int(self._table.count_rows()) <= IN_MEMORY

    @property
    @_of_newest
    def has_index(self) -> bool:
        """Whether there is an approximate index."""
        return any("vector" in index.columns for index in self._table.list_indices())

    @_of_newest
    def ids(self) -> list[str]:
        """All ids, in order."""
        if self.resident and (matrix := self.matrix) is not None:
            return list(matrix.ids)
        self._latest()
        with translate_errors(self.uri):
            return sorted(self._scan(["id"])["id"].to_pylist())

    @_of_newest
    def contents(self) -> dict[str, str]:
        """Fingerprints of the files by id: what an indexing run compares with."""
        self._latest()
        with translate_errors(self.uri):
            table = self._scan(["id", "content"])
        return dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True))

    @_of_newest
    def label_counts(self, where: Filter | None = None) -> dict[str, int]:
        """Of the images that a filter lets through, how many carry each label of the store."""
        if (matrix := self.matrix) is not None:
            return matrix.labels.counts(matrix.allowed(where))
        known = self._all_labels()
        condition = condition_of(where)
        if condition is None:
            return known
        self._check_labels(where)
        return {**dict.fromkeys(known, 0), **self._count_labels(condition)}

    @_of_newest
    def sample(self, count: int, seed: int = 0, where: Filter | None = None) -> list[str]:
        """Ids of some images, drawn at random; the same for the same seed."""
        if (matrix := self.matrix) is not None:
            return matrix.sample(count, seed, where)
        self._check_labels(where)
        with translate_errors(self.uri):
            ids = self._scan(["id"], condition_of(where))["id"]
            order = pc.sort_indices(ids).to_numpy()
            return [str(image) for image in ids.take(drawn(order, count, seed)).to_pylist()]

    @_of_newest
    def knows(self, what: str) -> bool:
        """Whether any image has a bounding box (`bbox`) or a `date`."""
        column = {"bbox": "west"}.get(what, what)
        if self.resident and (loaded := self._load()) is not None:
            known = loaded.knows(column)
            if known is not None:
                return known
        with translate_errors(self.uri):
            search = self._table.search().where(f"{column} IS NOT NULL").select(["id"]).limit(1)
            return bool(search.to_arrow().num_rows)

    @_of_newest
    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that carry all of the labels. (D,)"""
        if (matrix := self.matrix) is not None:
            return matrix.centroid(labels)
        where = Filter(all=tuple(labels))
        self._check_labels(where)
        with translate_errors(self.uri):
            table = self._scan(["vector"], condition_of(where))
        if not table.num_rows:
            raise StoreError(f"no image of the store carries all of: {', '.join(labels)}.")
        mean: np.ndarray = vector_matrix(table["vector"]).mean(0, dtype=np.float64).astype(np.float32)
        return mean

    def model_files(self) -> dict[str, bytes]:
        """The files of the model whose vectors these are."""
        with translate_errors(self.uri):
            table = self._db.open_table("model").to_arrow()
        return dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))

    @property
    def matrix(self) -> VectorMatrix | None:
        """All vectors in memory, as of the newest version; None where they are too many."""
        loaded = self._load()
        return None if loaded is None else loaded.matrix

    def refresh(self) -> None:
        """See at once what others have written, also where changes are looked for once a second."""
        self._look_at = 0.0
        self._load(wait=True)

    @_of_newest
    def _load(self, wait: bool = False) -> Loaded | None:
        """The rows in memory, read anew where they have changed; None where they are too many."""
        if self.approximate:
            return None
        self._latest()
        before = self._loaded
        if self.resident and before is not None and before.version == self._seen:
            return before
        if not self.fits_memory:
            return None
        if before is not None and before.version == int(self._table.version):
            return before
        if not self._loading.acquire(blocking=wait or before is None or not self.resident):
            return before
        try:
            version = int(self._table.version)
            if self._loaded is None or self._loaded.version != version:
                self._loaded = self._read(version)
            return self._loaded
        finally:
            self._loading.release()

    def _read(self, version: int) -> Loaded:
        start = time.monotonic()
        with translate_errors(self.uri):
            loaded = Loaded(
                version, self._scan(["id", "vector", "labels", *(DETAILS if self.resident else ())])
            )
        if self.resident:
            now = time.monotonic()
            self._look_at = now + max(_LOOK_SECONDS, _REST * (now - start))
        return loaded

    def _search_index(self, query: np.ndarray, k: int, where: Filter | None) -> list[Hit]:
        with translate_errors(self.uri):
            search: Any = self._table.search(query, vector_column_name="vector")
            search = search.distance_type("cosine")
            condition = condition_of(where)
            if condition is not None:
                search = search.where(condition, prefilter=True)
            probed = max(_LEAST_PROBED, math.ceil(PROBED * _partitions(int(self._table.count_rows()))))
            search = search.limit(k).nprobes(probed).refine_factor(REFINE)
            found = search.select(["id", "labels", "_distance"]).to_arrow()
        hits = [Hit(row["id"], 1 - row["_distance"], tuple(row["labels"] or ())) for row in found.to_pylist()]
        least = -np.inf if where is None or where.min_similarity is None else where.min_similarity
        kept = [hit for hit in hits if hit.similarity >= least]
        return sorted(kept, key=lambda hit: (-hit.similarity, hit.id))

    def _check_labels(self, where: Filter | None) -> None:
        """Refuse a label that no image has, as exact search does."""
        if where is None or not where.by_labels:
            return
        known = self._all_labels()
        for name in (*where.all, *where.any, *where.none):
            if name not in known:
                raise unknown_label(name, known)

    def _all_labels(self) -> dict[str, int]:
        """Images of each label, without a matrix; counted once a version."""
        version = int(self._table.version)
        counted, labels = self._labels
        if version != counted:
            labels = self._count_labels(None)
            self._labels = version, labels
        return dict(labels)

    def _count_labels(self, condition: str | None) -> dict[str, int]:
        with translate_errors(self.uri):
            column = self._scan(["labels"], condition)["labels"]
        counts = pc.value_counts(pc.list_flatten(column)).to_pylist()
        return dict(sorted((each["values"], each["counts"]) for each in counts))

    def _in_order(self, ids: Sequence[str], found: Mapping[str, Row]) -> list[Row]:
        for image in ids:
            if image not in found:
                raise missing(image, self.ids())
        return [found[image] for image in ids]

    @_of_newest
    def _delete(self, ids: Sequence[str]) -> int:
        with translate_errors(self.uri):
            removed = int(self._table.count_rows(one_of("id", ids)))
            self._table.delete(one_of("id", ids))
        return removed

    def _remove_doubles(self) -> None:
        """Two writers on object storage, at the same moment, may both have added an image."""
        rows = max(1, self._table.count_rows())
        table = self._table.search().select(["id"]).with_row_id(True).limit(rows).to_arrow()
        if pc.count_distinct(table["id"]).as_py() == table.num_rows:
            return
        first: dict[str, int] = {}
        for image, row in zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True):
            first.setdefault(image, row)
        more = sorted(set(table["_rowid"].to_pylist()) - set(first.values()))
        for start in range(0, len(more), _IDS_AT_ONCE):
            # By their places, so that two processes that tidy up do not remove both.
            self._table.delete(f"_rowid IN ({', '.join(map(str, more[start : start + _IDS_AT_ONCE]))})")

    def _join_files(self) -> None:
        """Join small files, remove old versions, and bring the indices up to date, in this order."""
        self._table.optimize(cleanup_older_than=_KEPT_VERSIONS if "://" in self.uri else _AT_ONCE)

    def _scan(self, columns: list[str], condition: str | None = None) -> pa.Table:
        query = self._table.search().select(columns).limit(max(1, self._table.count_rows()))
        return (query if condition is None else query.where(condition)).to_arrow()

    def _to_newest(self) -> None:
        """See at once what others have written."""
        self._look_at = 0.0
        self._latest()

    def _latest(self) -> None:
        """Look whether somebody else has changed the store."""
        now = time.monotonic()
        if now < self._look_at and (self.resident or "://" in self.uri):
            return
        with translate_errors(self.uri):
            self._table.checkout_latest()  # type: ignore[no-untyped-call]
            self._seen = int(self._table.version)
        self._look_at = now + _LOOK_SECONDS


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[start : start + _IDS_AT_ONCE]


def _partitions(rows: int) -> int:
    return max(1, rows // _PART)
