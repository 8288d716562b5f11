"""LanceDB: one kind of store, from a folder on a laptop to object storage that many readers share.

LanceDB is not fork-safe: open a store inside the process that uses it.
"""
# ruff: noqa: D102  (documented in `Store`)

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from marcir.data.prefetch import in_batches
from marcir.errors import MissingImageError, StoreError, UnusableStoreError, needs
from marcir.schema import to_json
from marcir.search.lance_io import (
    file_is_gone,
    may_exist,
    read_about,
    refuse_other_folder,
    translate_errors,
    whole_tables,
)
from marcir.search.records import About, Filter, Row, check_rows
from marcir.search.store import Snapshot, Store

with needs("store"):
    import lancedb
    import pyarrow as pa
    import pyarrow.compute as pc
    from lancedb.index import BTree, IvfSq

    from marcir.search.approximate import IDS_PER_QUERY, ApproximateSearch, condition_of, one_of, partitions
    from marcir.search.arrow import DETAILS, LABELS, UNKNOWN_FIELD, schema, to_table
    from marcir.search.exact import ExactSearch

IN_MEMORY = 4 * 2**30  # bytes of vectors that are searched exactly, in memory
PAGED = 1000  # neighbours that a resident store searches the approximate index for, for every page
# Age at which old versions are removed: at once in a folder, after an hour on object storage, where writers
# cannot lock each other out. (For 0 LanceDB warns; it counts in milliseconds.)
_AT_ONCE, _KEPT_VERSIONS = timedelta(milliseconds=1), timedelta(hours=1)
# Between two checks whether a store on object storage, or a resident one, has changed.
_CHECK_SECONDS = 1.0
# Reading all rows again waits at least this many times as long as reading them took.
_REST = 10
_TRIES = 10  # of an operation that fails because another process changes the store meanwhile

T = TypeVar("T")


class LanceStore(Store):
    """A store in LanceDB; threads may share it.

    Args:
        uri: A folder, or `s3://bucket/path`.
        approximate: Use the approximate index even where the vectors fit into memory.
        resident: For a process that answers many searches: everything but thumbnails is kept in memory, the
            store is checked for changes once a second, and while one thread reads them, the others continue
            with the state before.

    Raises:
        StoreError: Where there is no such store, or it cannot be read.
    """

    def __init__(self, uri: str | Path, approximate: bool = False, resident: bool = False) -> None:
        self.uri = str(uri)
        self.approximate, self.resident = approximate, resident
        if not may_exist(self.uri):
            raise StoreError(
                f"{uri}: there is no such store. Make one with: marcir index --images DIR --store {uri}"
            )
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
        self._rows = ApproximateSearch(self.uri, self._table, self.about.dim, PAGED if resident else 1)
        self._loaded: tuple[int, ExactSearch] | None = None  # the version that was read, and its vectors
        self._loading = threading.Lock()
        self._check_at, self._seen = 0.0, -1  # time of the next check, and the version that was seen last

    @classmethod
    def create(
        cls, uri: str | Path, about: About, model: Mapping[str, bytes], root_moved: bool = False
    ) -> "LanceStore":
        """Create an empty store, or open an existing one of the same model.

        Args:
            uri: A folder, or `s3://bucket/path`.
            about: What it will hold.
            model: The files of the model by name, so that search needs nothing else.
            root_moved: Whether the images may lie in another folder than before.

        Raises:
            StoreError: Where the store is of another model, or of images in another folder.
        """
        uri = str(uri)
        refuse_other_folder(uri)
        with translate_errors(uri):
            db = lancedb.connect(uri)
            names = whole_tables(db)
            found = read_about(uri, db) if "about" in names else about
            _check_same(uri, found, about, root_moved)
            if "model" not in names:
                content = {"name": list(model), "content": list(model.values())}
                columns = pa.schema([("name", pa.string()), ("content", pa.large_binary())])
                db.create_table("model", pa.table(content, schema=columns))
            if "about" not in names or found.root != about.root:
                _write_about(
                    db, replace(found, root=about.root), "overwrite" if "about" in names else "create"
                )
            if "images" not in names:
                db.create_table("images", schema=schema(about.dim))
        return cls(uri)

    def read(self, work: Callable[[Snapshot], T]) -> T:
        return self._retry(lambda: work(self._snapshot()))

    def get(self, ids: Sequence[str]) -> list[Row]:
        return self._retry(lambda: self._rows.get(ids))

    def thumbnail(self, image: str) -> bytes:
        return self._retry(lambda: self._rows.thumbnail(image))

    def count(self, where: Filter | None = None) -> int:
        if self.resident or condition_of(where) is not None:
            return super().count(where)
        return self._retry(self._rows.count)  # without reading the vectors

    def contents(self) -> dict[str, str]:
        table = self._retry(lambda: self._rows.select(["id", "content"]))
        return dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True))

    def model_files(self) -> dict[str, bytes]:
        with translate_errors(self.uri):
            table = self._db.open_table("model").to_arrow()
        return dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))

    def search_method(self) -> str:
        method = "exactly, in memory" if self.fits_memory else "with an approximate index"
        return method if self.has_index else f"{method} (no approximate index)"

    @property
    def fits_memory(self) -> bool:
        """Whether the vectors are few enough to be searched exactly."""
        return self._retry(self._fits_memory)

    @property
    def has_index(self) -> bool:
        """Whether there is an approximate index."""
        return self._retry(lambda: self._has_index("vector"))

    def add(self, rows: Sequence[Row]) -> None:
        check_rows(rows, self.about.dim)
        if rows:
            self._retry(lambda: self._merge(rows))

    def delete(self, ids: Sequence[str]) -> int:
        parts = in_batches(dict.fromkeys(ids), IDS_PER_QUERY)
        return sum(self._retry(partial(self._delete, part)) for part in parts)

    def optimize(self) -> None:
        """Join small files, make missing indices, and remove old versions; LanceDB never does so by itself.

        A process that reads an old version meanwhile continues with the newest.
        """
        self._retry(self._optimize)

    def build_index(self) -> None:
        """Build the approximate index, or replace it.

        Raises:
            StoreError: For a store without images.
        """
        self._retry(self._build_index)

    def _merge(self, rows: Sequence[Row]) -> None:
        with translate_errors(self.uri):
            if any(row.unknown for row in rows) and not self._rows.has_unknown:
                self._add_unknown()
            table = to_table(rows, self.about.dim, self._rows.has_unknown)
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(table)

    def _add_unknown(self) -> None:
        """Add the column of unknown labels.

        A marcir that reads version 1 only would take them for absent: the header refuses it first.
        """
        if self.about.version == 1:
            self.about = replace(self.about, version=2)
            _write_about(self._db, self.about, "overwrite")
        self._table.add_columns(UNKNOWN_FIELD)

    def _delete(self, ids: Sequence[str]) -> int:
        with translate_errors(self.uri):
            removed = int(self._table.count_rows(one_of("id", ids)))
            self._table.delete(one_of("id", ids))
        return removed

    def _optimize(self) -> None:
        with translate_errors(self.uri):
            self._remove_duplicates()
            self._join_files()
            if self._rows.count() and not self._has_index("id"):
                self._table.create_index("id", config=BTree())
            self._join_files()  # removes what the indices of ids and vectors were before
            if not self._fits_memory() and not self._has_index("vector"):
                self._build_index()

    def _build_index(self) -> None:
        rows = self._rows.count()
        if not rows:
            raise StoreError(f"{self.uri}: no images, so there is nothing to make an index of.")
        with translate_errors(self.uri):
            config = IvfSq(distance_type="cosine", num_partitions=partitions(rows))
            self._table.create_index("vector", config=config)
            self._join_files()

    def _remove_duplicates(self) -> None:
        """Two writers on object storage, at the same moment, may both have added an image."""
        rows = max(1, self._table.count_rows())
        table = self._table.search().select(["id"]).with_row_id(True).limit(rows).to_arrow()
        if pc.count_distinct(table["id"]).as_py() == table.num_rows:
            return
        first: dict[str, int] = {}
        for image, row in zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True):
            first.setdefault(image, row)
        others = sorted(set(table["_rowid"].to_pylist()) - set(first.values()))
        for part in in_batches(map(str, others), IDS_PER_QUERY):
            # By their row ids, so that two processes that do this do not remove both.
            self._table.delete(f"_rowid IN ({', '.join(part)})")

    def _join_files(self) -> None:
        """Join small files, remove old versions, and bring the indices up to date, in this order."""
        self._table.optimize(cleanup_older_than=_KEPT_VERSIONS if "://" in self.uri else _AT_ONCE)

    def _has_index(self, column: str) -> bool:
        with translate_errors(self.uri):
            return any(column in index.columns for index in self._table.list_indices())

    def _retry(self, work: Callable[[], T]) -> T:
        """The result of `work` on the newest version; again where another process changes it meanwhile."""
        left = _TRIES
        while True:
            self._check_version()
            seen, left = self._seen, left - 1
            try:
                return work()
            except MissingImageError:  # removed meanwhile?
                self._check_version()
                if not left or self._seen == seen:
                    raise
            except UnusableStoreError as error:
                self._check_at = 0.0
                if not left or not ("conflict" in str(error) or file_is_gone(error)):
                    raise

    def _check_version(self) -> None:
        """Go to the newest version; on object storage and in a resident store at most once a second."""
        now = time.monotonic()
        if now < self._check_at and (self.resident or "://" in self.uri):
            return
        with translate_errors(self.uri):
            self._table.checkout_latest()  # type: ignore[no-untyped-call]
            self._seen = int(self._table.version)
        self._check_at = now + _CHECK_SECONDS

    def _snapshot(self) -> Snapshot:
        """The vectors in memory, read again where they have changed; the table, where they are too many."""
        if self.approximate:
            return self._rows
        loaded = self._loaded
        if loaded is not None and loaded[0] == (self._seen if self.resident else int(self._table.version)):
            return loaded[1]
        if not self._fits_memory():
            return self._rows
        if not self._loading.acquire(blocking=loaded is None or not self.resident):
            assert loaded is not None  # noqa: S101
            return loaded[1]
        try:
            version = int(self._table.version)
            if self._loaded is None or self._loaded[0] != version:
                self._loaded = version, self._load()
            return self._loaded[1]
        finally:
            self._loading.release()

    def _fits_memory(self) -> bool:
        return 4 * self.about.dim * self._rows.count() <= IN_MEMORY

    def _load(self) -> ExactSearch:
        columns = ["id", "vector", *LABELS]
        if not self.resident:
            return ExactSearch(self._rows.select(columns), self._rows)
        start = time.monotonic()
        loaded = ExactSearch(self._rows.select([*columns, *DETAILS]))
        now = time.monotonic()
        self._check_at = now + max(_CHECK_SECONDS, _REST * (now - start))
        return loaded


def _write_about(db: Any, about: About, mode: str) -> None:
    db.create_table("about", pa.table({"about": [to_json(about)]}), mode=mode)


def _check_same(uri: str, found: About, about: About, root_moved: bool) -> None:
    if (found.model, found.dim) != (about.model, about.dim):
        raise StoreError(
            f"{uri}: holds vectors of another model ({found.model[:12]}, not {about.model[:12]}). "
            "Use another --store, or the model that it was made with."
        )
    if found.root != about.root and not root_moved:
        raise StoreError(
            f"{uri}: holds the images of {found.root}, not of {about.root}. Use another --store; "
            "if the same images have moved there, add --root-moved."
        )
