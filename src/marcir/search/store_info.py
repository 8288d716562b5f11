"""What a store holds, and how good its approximate index is."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marcir.checks import check_int
from marcir.errors import StoreError
from marcir.search.lance import LanceStore
from marcir.search.store import Store


def store_info(uri: str | Path) -> str:
    """A short text about a store: rows, labels with counts, model, size, index."""
    store: Store = LanceStore(uri)
    rows, about = store.count(), store.about
    labels = ", ".join(f"{name} ({count:,})" for name, count in store.label_counts().items()) or "none"
    folder = Path(store.uri)
    size = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else None
    )
    return "\n".join(
        [
            f"{store.uri}: {rows:,} images of {about.root}",
            f"vectors of {about.dim} numbers, model {about.model[:12]}",
            f"searched {store.search_method()}",
            *([] if size is None else [f"size: {size / 2**20:,.1f} MiB"]),
            f"labels: {labels}",
        ]
    )


@dataclass(frozen=True)
class Recall:
    """How many of the true neighbours an approximate index finds.

    Attributes:
        recall: Share of the exact first k that it finds.
        k: Number of neighbours.
        queries: Number of queries.
        seconds: Time of one approximate query.
        built: Seconds to build the index.
    """

    recall: float
    k: int
    queries: int
    seconds: float
    built: float

    def __str__(self) -> str:
        return (
            f"approximate index: recall@{self.k} {self.recall:.3f} over {self.queries} queries, "
            f"{1000 * self.seconds:.1f} ms per query, built in {self.built:.1f} s"
        )


def check_recall(uri: str | Path, k: int = 10, queries: int = 100, seed: int = 0) -> Recall:
    """Build the approximate index and compare it with exact search, for images of the store as queries.

    Raises:
        StoreError: For a store without images, and where the vectors are too many for exact search.
    """
    check_int("k", k, 1)
    exact, approximate = LanceStore(uri), LanceStore(uri, approximate=True)
    if not exact.fits_memory:
        raise StoreError(f"{uri}: too many vectors to be searched exactly: recall cannot be measured here.")
    start = time.perf_counter()
    approximate.build_index()
    built = time.perf_counter() - start
    ids = exact.ids()
    chosen = np.random.default_rng(seed).choice(len(ids), size=min(queries, len(ids)), replace=False)
    vectors = np.stack([row.vector for row in exact.get([ids[place] for place in chosen])])
    truth = exact.search(vectors, k)
    start = time.perf_counter()
    found = approximate.search(vectors, k)
    seconds = (time.perf_counter() - start) / len(chosen)
    shared = [
        len({hit.id for hit in a} & {hit.id for hit in b}) / len(a) for a, b in zip(truth, found, strict=True)
    ]
    return Recall(float(np.mean(shared)), k, len(chosen), seconds, built)
