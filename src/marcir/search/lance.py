"""LanceDB: one kind of store, from a folder on a laptop to object storage that many readers share.

LanceDB is not fork-safe: open a store inside the process that uses it.
"""
# ruff: noqa: D102  (documented in `Store`)

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from marcir.data.prefetch import in_batches
from marcir.errors import MissingImageError, StoreError, UnusableStoreError, needs
from marcir.search.embedding_map import EmbeddingMap
from marcir.search.lance_io import (
    TRIES,
    again_after_conflicts,
    back_off,
    file_is_gone,
    is_conflict,
    may_exist,
    read_about,
    refuse_other_folder,
    sole_optimizer,
    table_names,
    translate_errors,
    whole_tables,
)
from marcir.search.records import About, Filter, Row, check_rows
from marcir.search.store import RowTable, Snapshot, Store

with needs("store"):
    import lancedb
    import pyarrow as pa

    from marcir.search.approximate import ApproximateSearch
    from marcir.search.arrow import DETAILS, KEY, LABELS, PLACE, has_key, needed_columns, to_table
    from marcir.search.conditions import IDS_PER_QUERY, one_of
    from marcir.search.exact import ExactSearch
    from marcir.search.lance_create import (
        SKIPPED,
        SKIPPED_SCHEMA,
        add_column,
        create_table,
        create_tables,
    )
    from marcir.search.lance_optimize import build_index, count_small_files, has_index, optimize
    from marcir.search.lance_table import optional_columns
    from marcir.search.map_table import NAME as MAP
    from marcir.search.map_table import map_to_table, table_to_map

IN_MEMORY = 4 * 2**30  # bytes of vectors that are searched exactly, in memory
PAGED = 1000  # neighbours that a resident store searches the approximate index for, for every page
# Age at which old versions are removed: at once in a folder with one writer; after an hour where there may be
# others, which compare their commits with the versions since they began. (For 0 LanceDB warns; it counts in
# milliseconds.)
_AT_ONCE, _KEPT_VERSIONS = timedelta(milliseconds=1), timedelta(hours=1)
# Between two checks whether a store on object storage, or a resident one, has changed.
_CHECK_SECONDS = 1.0
# Reading all rows again waits at least this many times as long as reading them took.
_REST = 10
# Small files that one of several writers leaves: joining them after every shard would write all rows again
# each time, and so few do not slow down reading.
_FEW_FILES = 100

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
                f"{uri}: there is no such store. Make one with: marcir index --images DIR (or --scenes DIR) "
                f"--store {uri}"
            )
        with translate_errors(self.uri):
            self._db = lancedb.connect(self.uri)
            names = whole_tables(self._db)
            if "about" not in names:
                raise StoreError(
                    f"{self.uri}: not a store of marcir. Make one with: marcir index --images DIR (or "
                    f"--scenes DIR) --store {self.uri}"
                )
            if not {"images", "model"} <= names:
                raise StoreError(f"{self.uri}: half written. Finish it with the same marcir index command.")
            self.about = read_about(self.uri, self._db)
            self._table = self._db.open_table("images")
        # The version of `_table` when the newest table was opened to be read, and that one.
        self._read: tuple[int, ApproximateSearch] | None = None
        self._opening = threading.Lock()
        self._loaded: tuple[int, ExactSearch] | None = None  # the version that was read, and its vectors
        self._loading = threading.Lock()
        self._map: tuple[int, EmbeddingMap] | None = None  # the version of its table that was read
        self._check_at, self._seen = 0.0, -1  # time of the next check, and the version that was seen last

    @classmethod
    def create(
        cls, uri: str | Path, about: About, model: Mapping[str, bytes], root_moved: bool = False
    ) -> "LanceStore":
        """Create an empty store, or open an existing one of the same model, to write into it.

        Of several processes that do so at once, all end with the same store.

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
        again_after_conflicts(lambda: create_tables(uri, about, model, root_moved))
        store = cls(uri)
        store._retry(store._mark_key)
        return store

    def read(self, work: Callable[[Snapshot], T]) -> T:
        return self._retry(lambda: work(self._snapshot()))

    def read_table(self, work: Callable[[RowTable], T]) -> T:
        return self._retry(lambda: work(self._rows()))  # without loading the vectors

    def get(self, ids: Sequence[str]) -> list[Row]:
        return self._retry(lambda: self._rows().get(ids))

    def thumbnail(self, image: str) -> bytes:
        return self._retry(lambda: self._rows().thumbnail(image))

    def count(self, where: Filter | None = None) -> int:
        if self.resident or where not in (None, Filter()):
            return super().count(where)
        return self._retry(lambda: self._rows().count())  # without reading the vectors

    def contents(self) -> dict[str, str]:
        table = self._retry(lambda: self._rows().select(["id", "content"]))
        return dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True))

    def skipped(self) -> dict[str, str]:
        """Fingerprints of windows that were left out because too many of their pixels are missing, by id."""
        with translate_errors(self.uri):
            if SKIPPED not in table_names(self._db):
                return {}
            table = self._db.open_table(SKIPPED).to_arrow()
        return dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True))

    def model_files(self) -> dict[str, bytes]:
        with translate_errors(self.uri):
            table = self._db.open_table("model").to_arrow()
        return dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))

    def read_map(self) -> EmbeddingMap | None:
        return self._retry(self._read_map)

    def write_map(self, found: EmbeddingMap) -> None:
        with translate_errors(self.uri):
            content = map_to_table(found)
            table: Any = create_table(self._db, MAP, content)
            if table is None:
                table = self._db.create_table(MAP, content, mode="overwrite")
            table.optimize(cleanup_older_than=_KEPT_VERSIONS)

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
        return self._retry(lambda: has_index(self.uri, self._table, "vector"))

    def add(self, rows: Sequence[Row]) -> None:
        check_rows(rows, self.about.dim)
        if rows:
            self._retry(lambda: self._merge(rows))

    def add_skipped(self, windows: Mapping[str, str]) -> None:
        """Record windows that were left out: fingerprints by id."""
        if windows:
            self._retry(lambda: self._merge_skipped(windows))

    def delete(self, ids: Sequence[str]) -> int:
        parts = in_batches(dict.fromkeys(ids), IDS_PER_QUERY)
        return sum(self._retry(partial(self._delete, part)) for part in parts)

    def optimize(self, shared: bool = False) -> None:
        """Join small files, make missing indices, and remove old versions; LanceDB never does so by itself.

        A process that reads an old version meanwhile continues with the newest. Where the commits of others
        leave no moment for it, it is left to the next one.

        Args:
            shared: Others write into the store, too: only one of them optimizes at a time, only where there
                are many small files, and old versions are kept for an hour.
        """
        if not shared:
            self._optimize_or_leave(self._kept_versions())
            return
        with sole_optimizer(self.uri) as sole:
            if sole and self._retry(lambda: count_small_files(self.uri, self._table)) >= _FEW_FILES:
                self._optimize_or_leave(_KEPT_VERSIONS)

    def build_index(self) -> None:
        """Build the approximate index, or replace it.

        Raises:
            StoreError: For a store without images.
        """
        self._retry(lambda: build_index(self.uri, self._table, self._kept_versions()))

    def _read_map(self) -> EmbeddingMap | None:
        with translate_errors(self.uri):
            if MAP not in table_names(self._db):
                return None
            table: Any = self._db.open_table(MAP)
            version = int(table.version)
            if self._map is None or self._map[0] != version:
                self._map = version, table_to_map(table.to_arrow())
            return self._map[1]

    def _merge(self, rows: Sequence[Row]) -> None:
        self._mark_key()
        with translate_errors(self.uri):
            for name in sorted(needed_columns(rows) - optional_columns(self._table)):
                self.about = add_column(self._db, self._table, self.about, name)
            table = to_table(rows, self.about.dim, sorted(optional_columns(self._table)))
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            # With the index of ids, LanceDB does not compare the new keys of two commits: both would add an
            # image. It would also read all columns of the rows that are not in the index yet.
            merge.use_index(False).execute(table)

    def _merge_skipped(self, windows: Mapping[str, str]) -> None:
        content = pa.table({"id": list(windows), "content": list(windows.values())}, schema=SKIPPED_SCHEMA)
        with translate_errors(self.uri):
            merge = self._db.open_table(SKIPPED).merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().use_index(False).execute(content)

    def _mark_key(self) -> None:
        """Mark the id as the key in a store of an early version."""
        with translate_errors(self.uri):
            if not has_key(self._table.schema):
                self._table.update_field_metadata({"path": "id", "metadata": KEY})

    def _delete(self, ids: Sequence[str]) -> int:
        with translate_errors(self.uri):
            removed = int(self._table.count_rows(one_of("id", ids)))
            self._table.delete(one_of("id", ids))
        return removed

    def _optimize_or_leave(self, keep: timedelta) -> None:
        try:
            self._retry(lambda: optimize(self.uri, self._table, keep, not self._fits_memory()))
        except UnusableStoreError as error:
            if not is_conflict(error):
                raise

    def _kept_versions(self) -> timedelta:
        return _KEPT_VERSIONS if "://" in self.uri else _AT_ONCE

    def _retry(self, work: Callable[[], T]) -> T:
        """The result of `work` on the newest version; again where another process changes it meanwhile."""
        left = TRIES
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
                self._check_at, self._read = 0.0, None
                if not left or not (is_conflict(error) or file_is_gone(error)):
                    raise
                if is_conflict(error):
                    back_off(TRIES - left)

    def _check_version(self) -> None:
        """Go to the newest version; on object storage and in a resident store at most once a second."""
        now = time.monotonic()
        if now < self._check_at and (self.resident or "://" in self.uri):
            return
        for left in reversed(range(TRIES)):
            try:
                self._go_to_newest()
                break
            except UnusableStoreError as error:  # removed between finding and reading it?
                if not left or not file_is_gone(error):
                    raise
        self._check_at = now + _CHECK_SECONDS

    def _go_to_newest(self) -> None:
        with translate_errors(self.uri):
            self._table.checkout_latest()  # type: ignore[no-untyped-call]
            self._seen = int(self._table.version)

    def _rows(self) -> ApproximateSearch:
        """The table as it is now: opened once per version, as other threads move `_table` to newer ones."""
        with self._opening, translate_errors(self.uri):
            version = int(self._table.version)
            if self._read is None or self._read[0] != version:
                table = self._db.open_table("images")
                page = PAGED if self.resident else 1
                self._read = version, ApproximateSearch(self.uri, table, self.about.dim, page)
            return self._read[1]

    def _snapshot(self) -> Snapshot:
        """The vectors in memory, read again where they have changed; the table, where they are too many."""
        if self.approximate:
            return self._rows()
        loaded = self._loaded
        if loaded is not None and loaded[0] == (self._seen if self.resident else int(self._table.version)):
            return loaded[1]
        if not self._fits_memory():
            return self._rows()
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
        with translate_errors(self.uri):
            return 4 * self.about.dim * int(self._table.count_rows()) <= IN_MEMORY

    def _load(self) -> ExactSearch:
        rows, columns = self._rows(), ["id", "vector", *LABELS]
        if not self.resident:
            return ExactSearch(rows.select([*columns, *PLACE]), rows)
        start = time.monotonic()
        loaded = ExactSearch(rows.select([*columns, *DETAILS]))
        now = time.monotonic()
        self._check_at = now + max(_CHECK_SECONDS, _REST * (now - start))
        return loaded
