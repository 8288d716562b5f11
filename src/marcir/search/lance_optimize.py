"""What LanceDB never does by itself: join small files, remove old versions, make indices.

These functions change the newest version of a table, and fail where another process changes it meanwhile.
"""

from datetime import timedelta
from typing import Any

import pyarrow.compute as pc
from lancedb.index import BTree, IvfSq, LabelList

from marcir.data.prefetch import in_batches
from marcir.errors import StoreError
from marcir.search.conditions import IDS_PER_QUERY
from marcir.search.lance_io import translate_errors
from marcir.search.probes import PARTITION_ROWS


def optimize(uri: str, table: Any, keep: timedelta, indexed: bool) -> None:
    """Join small files, make missing indices, and remove old versions.

    Args:
        uri: The store.
        table: Its images.
        keep: Versions that are older are removed.
        indexed: Whether the vectors need an approximate index.
    """
    with translate_errors(uri):
        _remove_duplicates(table)
        _join_files(table, keep)
        if table.count_rows() and not has_index(uri, table, "id"):
            table.create_index("id", config=BTree())
        _join_files(table, keep)  # removes what the indices of ids and vectors were before
        if indexed and not has_index(uri, table, "vector"):
            build_index(uri, table, keep)


def build_index(uri: str, table: Any, keep: timedelta) -> None:
    """Build the approximate index, or replace it.

    Args:
        uri: The store.
        table: Its images.
        keep: Versions that are older are removed.

    Raises:
        StoreError: For a store without images.
    """
    with translate_errors(uri):
        if not table.count_rows():
            raise StoreError(f"{uri}: no images, so there is nothing to make an index of.")
        # By their size: `optimize` would join a given number of partitions to ones of 32,768 rows.
        config = IvfSq(distance_type="cosine", target_partition_size=PARTITION_ROWS)
        table.create_index("vector", config=config)
        # Filtered searches count the rows that pass: 0.5 ms of 1,000,000 rows, 200 ms without it.
        table.create_index("labels", config=LabelList())
        _join_files(table, keep)


def has_index(uri: str, table: Any, column: str) -> bool:
    """Whether a column has an index."""
    with translate_errors(uri):
        return any(column in index.columns for index in table.list_indices())


def count_small_files(uri: str, table: Any) -> int:
    """Number of files that joining would make fewer."""
    with translate_errors(uri):
        return int(table.stats()["fragment_stats"]["num_small_fragments"])


def _remove_duplicates(table: Any) -> None:
    """Two writers of early versions, at the same moment, may both have added an image."""
    found = table.search().select(["id"]).with_row_id(True).limit(max(1, table.count_rows())).to_arrow()
    if pc.count_distinct(found["id"]).as_py() == found.num_rows:
        return
    first: dict[str, int] = {}
    for image, row in zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True):
        first.setdefault(image, row)
    others = sorted(set(found["_rowid"].to_pylist()) - set(first.values()))
    for part in in_batches(map(str, others), IDS_PER_QUERY):
        # By their row ids, so that two processes that do this do not remove both.
        table.delete(f"_rowid IN ({', '.join(part)})")


def _join_files(table: Any, keep: timedelta) -> None:
    """Join small files, remove versions older than `keep`, and bring the indices up to date."""
    table.optimize(cleanup_older_than=keep)
