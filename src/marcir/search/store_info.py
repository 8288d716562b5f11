"""What a store holds, and how good its approximate index is."""

import time
from pathlib import Path

import numpy as np

from marcir.errors import StoreError
from marcir.search.lance import LanceStore
from marcir.search.store import Store

_NEIGHBOURS, _QUERIES = 10, 100  # of a check of the recall


def store_info(uri: str | Path) -> str:
    """A short text about a store: rows, labels with counts, model, size, index."""
    store: Store = LanceStore(uri)
    rows, about = store.count(), store.about
    present, unknown = store.read(lambda snapshot: (snapshot.label_counts(), snapshot.unknown_counts()))
    labels = ", ".join(f"{name} ({count:,})" for name, count in present.items()) or "none"
    unknown_labels = ", ".join(f"{name} ({count:,})" for name, count in unknown.items() if count)
    extent = store.extent()
    folder = Path(store.uri)
    size = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else None
    )
    return "\n".join(
        [
            f"{store.uri}: {rows:,} {'images' if about.windows is None else 'windows'} of {about.root}",
            *([] if about.windows is None else [f"cut: {about.windows}"]),
            f"vectors of {about.dim} numbers, model {about.model[:12]}",
            f"searched {store.search_method()}",
            *([] if size is None else [f"size: {size / 2**20:,.1f} MiB"]),
            f"labels: {labels}",
            *([f"unknown labels: {unknown_labels}"] if unknown_labels else []),
            *([] if extent.bbox is None else [f"extent: {','.join(f'{each:.5f}' for each in extent.bbox)}"]),
            *([] if extent.first is None else [f"dates: {extent.first} to {extent.last}"]),
        ]
    )


def check_recall(uri: str | Path) -> str:
    """Build the approximate index and compare it with exact search, for images of the store as queries.

    Returns:
        The share of the exact neighbours that it finds, the time per query and that of building, as a text.

    Raises:
        StoreError: For a store without images, and where the vectors are too many for exact search.
    """
    exact, approximate = LanceStore(uri), LanceStore(uri, approximate=True)
    if not exact.fits_memory:
        raise StoreError(f"{uri}: too many vectors to be searched exactly: recall cannot be measured here.")
    start = time.perf_counter()
    approximate.build_index()
    built = time.perf_counter() - start
    ids = exact.ids()
    chosen = np.random.default_rng(0).choice(len(ids), size=min(_QUERIES, len(ids)), replace=False)
    vectors = np.stack([row.vector for row in exact.get([ids[place] for place in chosen])])
    truth = exact.search(vectors, _NEIGHBOURS)
    start = time.perf_counter()
    found = approximate.search(vectors, _NEIGHBOURS)
    seconds = (time.perf_counter() - start) / len(chosen)
    shared = [
        len({hit.id for hit in a} & {hit.id for hit in b}) / len(a) for a, b in zip(truth, found, strict=True)
    ]
    return (
        f"approximate index: recall@{_NEIGHBOURS} {np.mean(shared):.3f} over {len(chosen)} queries, "
        f"{1000 * seconds:.1f} ms per query, built in {built:.1f} s"
    )
