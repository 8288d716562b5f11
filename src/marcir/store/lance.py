"""LanceDB: one store from a laptop's folder to object storage that many readers share.

LanceDB is not fork-safe: open a store inside the process that uses it.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from marcir.checks import whole
from marcir.errors import StoreError, needs
from marcir.files import reason
from marcir.store.label_index import unknown_label
from marcir.store.memory import VectorMatrix, missing
from marcir.store.records import About, Filter, Hit, Row, check_queries, check_rows
from marcir.store.sql import labels_allow, one_of

with needs("store"):
    import lancedb
    import pyarrow as pa
    import pyarrow.compute as pc
    from lancedb.index import BTree, IvfSq

    from marcir.store.arrow import LabelColumn, schema, to_rows, to_table, vector_matrix

with needs("train"):
    from filelock import FileLock, Timeout

VERSION = 1
TABLES = ("model", "about", "images")  # in the order in which they are made
IN_MEMORY = 4 * 2**30  # bytes of vectors that are searched exactly, in memory
# An approximate index alone finds two of three neighbours; candidates are compared exactly again.
REFINE = 10
# Vectors of one part of the index, and the share of the parts that a search looks into. On 400,000 clustered
# vectors a third of the parts gave recall@10 0.98 at 20 times the speed of a scan, a tenth gave 0.94. The
# index was built in 15 s; one with HNSW graphs found no more and took minutes for half as many.
_PART = 1000
PROBED = 0.33
_LEAST_PROBED = 20
_KEPT_VERSIONS = timedelta(hours=1)  # a reader may still be at work on an older one
_IDS_AT_ONCE = 500
_REMOTE_SECONDS = 1.0  # between two looks whether a store on object storage has changed
_LOCK = ".lock"
_CONFLICTS = 10  # times that a commit which another writer preempted is tried again


class LanceStore:
    """A store in LanceDB.

    Args:
        uri: A folder, or `s3://bucket/path`.
        approximate: Use the approximate index even where the vectors fit into memory.

    Raises:
        StoreError: Where there is no such store, or it cannot be read.
    """

    def __init__(self, uri: str | Path, approximate: bool = False) -> None:
        self.uri = str(uri)
        self.approximate = approximate
        _refuse_missing(self.uri)
        with _told(self.uri):
            self._db = lancedb.connect(self.uri)
            names = _tables(self._db)
            if "about" not in names:
                raise StoreError(
                    f"{self.uri}: not a store of marcir. Make one with: marcir index --store {self.uri}"
                )
            if not {"images", "model"} <= names:
                raise StoreError(f"{self.uri}: half written. Finish it with the same marcir index command.")
            self.about = _about(self.uri, self._db)
            self._table = self._db.open_table("images")
        self._matrix: VectorMatrix | None = None
        self._matrix_version = -1
        self._labels: dict[str, int] = {}
        self._labels_version = -1
        self._looked = 0.0

    @classmethod
    def create(cls, uri: str | Path, about: About, model: Mapping[str, bytes]) -> "LanceStore":
        """Make an empty store, or go on with one of the same model that is there.

        Args:
            uri: A folder, or `s3://bucket/path`.
            about: What it will hold.
            model: The model's files by name, so that search needs nothing else.
        """
        uri = str(uri)
        _refuse_other_folder(uri)
        with _told(uri):
            db = lancedb.connect(uri)
            names = _tables(db)
            found = about
            if "about" in names:
                found = _about(uri, db)
                if (found.model, found.dim) != (about.model, about.dim):
                    raise StoreError(
                        f"{uri}: holds vectors of another model ({found.model[:12]}, not "
                        f"{about.model[:12]}). Use another --store, or the model that it was made with."
                    )
            if "model" not in names:
                content = {"name": list(model), "content": list(model.values())}
                columns = pa.schema([("name", pa.string()), ("content", pa.large_binary())])
                db.create_table("model", pa.table(content, schema=columns))
            if "about" not in names or found.root != about.root:
                told = json.dumps({"version": VERSION, **asdict(about)})
                mode = "overwrite" if "about" in names else "create"
                db.create_table("about", pa.table({"about": [told]}), mode=mode)
            if "images" not in names:
                db.create_table("images", schema=schema(about.dim))
        return cls(uri)

    def add(self, rows: Sequence[Row]) -> None:
        """Add images in one commit; one whose id is there already is replaced."""
        check_rows(rows, self.about.dim)
        if not rows:
            return
        with _told(self.uri):
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(to_table(rows, self.about.dim))

    def search(self, vectors: np.ndarray, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k most similar images to each vector, best first; ties in the order of ids. (Q, D)"""
        queries = check_queries(vectors, self.about.dim)
        matrix = self.matrix
        if matrix is not None:
            return matrix.search(queries, k, where)
        k = min(whole("k", k, 1), max(1, self.count()))
        self._check_labels(where)
        return [self._search_index(query, k, where) for query in queries]

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Images by id, in the order of the ids."""
        found: dict[str, Row] = {}
        self._latest()
        for part in _parts(ids):
            with _told(self.uri):
                table = self._table.search().where(one_of("id", part)).limit(len(part)).to_arrow()
            found |= {row.id: row for row in to_rows(table)}
        for image in ids:
            if image not in found:
                raise missing(image, self.ids())
        return [found[image] for image in ids]

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; how many there were."""
        removed = 0
        self._latest()
        for part in _parts(list(dict.fromkeys(ids))):
            with _told(self.uri):
                removed += int(self._table.count_rows(one_of("id", part)))
                self._table.delete(one_of("id", part))
        return removed

    def count(self, where: Filter | None = None) -> int:
        """Number of images."""
        self._latest()
        if where is not None and where.by_labels and (matrix := self.matrix) is not None:
            return matrix.count(where)
        self._check_labels(where)
        with _told(self.uri):
            return int(self._table.count_rows(labels_allow(where)))

    def optimize(self) -> None:
        """Join small files, remove old versions, and index the ids; LanceDB never does so by itself."""
        self._latest()
        for left in reversed(range(_CONFLICTS)):
            try:
                with _told(self.uri):
                    self._remove_doubles()
                    self._table.optimize(cleanup_older_than=_KEPT_VERSIONS)
                    if self.count() and not any(
                        "id" in index.columns for index in self._table.list_indices()
                    ):
                        self._table.create_index("id", config=BTree())
                return
            except StoreError as error:  # on object storage, where writers cannot lock each other out
                if "conflict" not in str(error) or not left:
                    raise
                self._latest()

    def build_index(self) -> None:
        """Make the approximate index anew.

        Raises:
            StoreError: For a store without images.
        """
        if not self.count():
            raise StoreError(f"{self.uri}: no images, so there is nothing to make an index of.")
        with _told(self.uri):
            config = IvfSq(distance_type="cosine", num_partitions=_partitions(self.count()))
            self._table.create_index("vector", config=config)

    @property
    def fits_memory(self) -> bool:
        """Whether the vectors are few enough to be searched exactly."""
        self._latest()
        with _told(self.uri):
            return 4 * self.about.dim * int(self._table.count_rows()) <= IN_MEMORY

    @property
    def has_index(self) -> bool:
        """Whether there is an approximate index."""
        return any("vector" in index.columns for index in self._table.list_indices())

    def ids(self) -> list[str]:
        """All ids, in order."""
        self._latest()
        with _told(self.uri):
            return sorted(self._scan(["id"])["id"].to_pylist())

    def contents(self) -> dict[str, str]:
        """Fingerprints of the files by id: what an indexing run compares with."""
        self._latest()
        with _told(self.uri):
            table = self._scan(["id", "content"])
        return dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True))

    def label_counts(self) -> dict[str, int]:
        """Images of each label."""
        if (matrix := self.matrix) is not None:
            return matrix.labels.counts()
        version = int(self._table.version)
        if version != self._labels_version:
            with _told(self.uri):
                column = self._scan(["labels"])["labels"]
            counts = pc.value_counts(pc.list_flatten(column)).to_pylist()
            self._labels = {each["values"]: each["counts"] for each in counts}
            self._labels_version = version
        return dict(sorted(self._labels.items()))

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that carry all of the labels. (D,)"""
        if (matrix := self.matrix) is not None:
            return matrix.centroid(labels)
        where = Filter(all=tuple(labels))
        self._check_labels(where)
        with _told(self.uri):
            table = self._scan(["vector"], labels_allow(where))
        if not table.num_rows:
            raise StoreError(f"no image of the store carries all of: {', '.join(labels)}.")
        mean: np.ndarray = vector_matrix(table["vector"]).mean(0)
        return mean

    def model_files(self) -> dict[str, bytes]:
        """The files of the model whose vectors these are."""
        with _told(self.uri):
            table = self._db.open_table("model").to_arrow()
        return dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))

    @property
    def matrix(self) -> VectorMatrix | None:
        """All vectors in memory, as of the newest version; None where they are too many."""
        if not self.fits_memory or self.approximate:
            return None
        version = int(self._table.version)
        if self._matrix is None or version != self._matrix_version:
            with _told(self.uri):
                table = self._scan(["id", "vector", "labels"])
            # Arrow takes ten times as long to move rows of vectors.
            order = pc.sort_indices(table["id"])
            ids, labels = table["id"].take(order).to_pylist(), LabelColumn(table["labels"].take(order))
            self._matrix = VectorMatrix(ids, vector_matrix(table["vector"])[order.to_numpy()], labels)
            self._matrix_version = version
        return self._matrix

    def _search_index(self, query: np.ndarray, k: int, where: Filter | None) -> list[Hit]:
        with _told(self.uri):
            search: Any = self._table.search(query, vector_column_name="vector")
            search = search.distance_type("cosine")
            condition = labels_allow(where)
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
        known = self.label_counts()
        for name in (*where.all, *where.any, *where.none):
            if name not in known:
                raise unknown_label(name, known)

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

    def _scan(self, columns: list[str], condition: str | None = None) -> pa.Table:
        query = self._table.search().select(columns).limit(max(1, self._table.count_rows()))
        return (query if condition is None else query.where(condition)).to_arrow()

    def _latest(self) -> None:
        """Look whether somebody else has changed the store."""
        if "://" in self.uri and time.monotonic() - self._looked < _REMOTE_SECONDS:
            return
        with _told(self.uri):
            self._table.checkout_latest()  # type: ignore[no-untyped-call]
        self._looked = time.monotonic()


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """Errors of the store's library in one line."""
    try:
        yield
    except (RuntimeError, ValueError, OSError, OverflowError) as error:
        if isinstance(error, StoreError):
            raise
        said = re.sub(r",? ?/\S+\.rs:\d+(:\d+)?", "", reason(error))[:300].rstrip(" .,")
        raise StoreError(f"{uri}: the store cannot be used ({said}).") from error


@contextmanager
def sole_writer(uri: str | Path) -> Iterator[None]:
    """Keep other writers out of a folder; readers go on reading. Object storage has no locks.

    Raises:
        StoreError: Where another process is writing, and for a folder that holds other things.
    """
    folder = Path(uri)
    if "://" in str(uri):
        yield
        return
    _refuse_other_folder(str(uri))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise StoreError(f"{uri}: another marcir index is at work on it. Wait until it is done.") from None
    except OSError as error:
        raise StoreError(f"{uri}: cannot be written ({reason(error)}). Use another --store.") from error
    try:
        yield
    finally:
        lock.release()


def _refuse_missing(uri: str) -> None:
    if "://" not in uri and not Path(uri).is_dir():
        raise StoreError(f"{uri}: there is no such store. Make one with: marcir index --store {uri}")


def _refuse_other_folder(uri: str) -> None:
    """A folder with other things in it is not written into."""
    folder = Path(uri)
    if "://" in uri or not folder.exists():
        return
    if not folder.is_dir():
        raise StoreError(f"{uri}: not a folder. Use another --store.")
    others = [path.name for path in folder.iterdir() if path.suffix != ".lance" and path.name != _LOCK]
    if others:
        raise StoreError(f"{uri}: the folder holds other things, such as '{others[0]}'. Use another --store.")


def _tables(db: Any) -> set[str]:
    """Tables that are whole: killed while making one, a process leaves a folder without any version."""
    return {name for name in db.list_tables(limit=100).tables if name in TABLES and _is_whole(db, name)}


def _is_whole(db: Any, name: str) -> bool:
    try:
        db.open_table(name)
    except ValueError as error:
        if "was not found" in str(error):
            return False
        raise
    return True


def _about(uri: str, db: Any) -> About:
    try:
        told = dict(json.loads(db.open_table("about").to_arrow()["about"][0].as_py()))
        version = told.pop("version")
        if version != VERSION:
            raise StoreError(f"{uri}: a store of version {version}; this marcir reads version {VERSION}.")
        return About(**told)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{uri}: what the store says of itself cannot be read ({reason(error)}).") from error


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[start : start + _IDS_AT_ONCE]


def _partitions(rows: int) -> int:
    return max(1, rows // _PART)
