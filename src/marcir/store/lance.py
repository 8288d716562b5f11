"""LanceDB: one store from a laptop's folder to object storage that many readers share.

LanceDB is not fork-safe: open a store inside the process that uses it.
"""

import json
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
from marcir.store.memory import VectorMatrix, missing
from marcir.store.records import About, Filter, Hit, Row, check_queries, check_rows
from marcir.store.sql import labels_allow, one_of

with needs("store"):
    import lancedb
    import pyarrow as pa
    from lancedb.index import BTree, IvfHnswSq

    from marcir.store.arrow import schema, to_rows, to_table, vector_matrix

VERSION = 1
IN_MEMORY = 4 * 2**30  # bytes of vectors that are searched exactly, in memory
# An approximate index alone finds two of three neighbours; candidates are compared exactly again.
REFINE = 10
_KEPT_VERSIONS = timedelta(hours=1)  # a reader may still be at work on an older one
_IDS_AT_ONCE = 500
_REMOTE_SECONDS = 1.0  # between two looks whether a store on object storage has changed


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
            if "images" not in names:
                raise StoreError(f"{self.uri}: half written. Finish it with the same marcir index command.")
            self.about = _about(self.uri, self._db)
            self._table = self._db.open_table("images")
        self._matrix: VectorMatrix | None = None
        self._matrix_version = -1
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
            if "about" not in names:
                told = json.dumps({"version": VERSION, **asdict(about)})
                db.create_table("about", pa.table({"about": [told]}))
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
        whole("k", k, 1)
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
        before = self.count()
        for part in _parts(ids):
            with _told(self.uri):
                self._table.delete(one_of("id", part))
        return before - self.count()

    def count(self, where: Filter | None = None) -> int:
        """Number of images."""
        self._latest()
        if where is not None and where.by_labels and (matrix := self.matrix) is not None:
            return matrix.count(where)
        with _told(self.uri):
            return int(self._table.count_rows(labels_allow(where)))

    def optimize(self) -> None:
        """Join small files, remove old versions, and index the ids; LanceDB never does so by itself."""
        with _told(self.uri):
            self._latest()
            self._table.optimize(cleanup_older_than=_KEPT_VERSIONS)
            if self.count() and not any("id" in index.columns for index in self._table.list_indices()):
                self._table.create_index("id", config=BTree())

    def build_index(self) -> None:
        """Make the approximate index anew."""
        with _told(self.uri):
            self._table.create_index("vector", config=IvfHnswSq(distance_type="cosine"))

    @property
    def has_index(self) -> bool:
        """Whether there is an approximate index."""
        return any("vector" in index.columns for index in self._table.list_indices())

    def ids(self) -> list[str]:
        """All ids, in order."""
        return sorted(self.contents())

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
        counts: dict[str, int] = {}
        for names in self._scan(["labels"])["labels"].to_pylist():
            for name in names or ():
                counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items()))

    def centroid(self, labels: Sequence[str]) -> np.ndarray:
        """Mean vector of the images that carry all of the labels. (D,)"""
        if (matrix := self.matrix) is not None:
            return matrix.centroid(labels)
        table = self._scan(["vector"], labels_allow(Filter(all=tuple(labels))))
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
        self._latest()
        version = int(self._table.version)
        if self.approximate or 4 * self.about.dim * self._table.count_rows() > IN_MEMORY:
            return None
        if self._matrix is None or version != self._matrix_version:
            with _told(self.uri):
                table = self._scan(["id", "vector", "labels"]).sort_by("id")
            labels = [tuple(names or ()) for names in table["labels"].to_pylist()]
            self._matrix = VectorMatrix(table["id"].to_pylist(), vector_matrix(table["vector"]), labels)
            self._matrix_version = version
        return self._matrix

    def _search_index(self, query: np.ndarray, k: int, where: Filter | None) -> list[Hit]:
        with _told(self.uri):
            search: Any = self._table.search(query, vector_column_name="vector")
            search = search.distance_type("cosine")
            condition = labels_allow(where)
            if condition is not None:
                search = search.where(condition, prefilter=True)
            found = search.limit(k).refine_factor(REFINE).select(["id", "labels", "_distance"]).to_arrow()
        hits = [Hit(row["id"], 1 - row["_distance"], tuple(row["labels"] or ())) for row in found.to_pylist()]
        least = -np.inf if where is None or where.min_similarity is None else where.min_similarity
        kept = [hit for hit in hits if hit.similarity >= least]
        return sorted(kept, key=lambda hit: (-hit.similarity, hit.id))

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
    except (RuntimeError, ValueError, OSError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{uri}: the store cannot be used ({reason(error)[:300]}).") from error


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
    others = [path.name for path in folder.iterdir() if path.suffix != ".lance"]
    if others:
        raise StoreError(f"{uri}: the folder holds other things, such as '{others[0]}'. Use another --store.")


def _tables(db: Any) -> set[str]:
    return set(db.list_tables(limit=100).tables)


def _about(uri: str, db: Any) -> About:
    try:
        told = json.loads(db.open_table("about").to_arrow()["about"][0].as_py())
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
