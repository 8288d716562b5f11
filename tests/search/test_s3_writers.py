"""Several writers, and readers that serve, on object storage: a pretended S3."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest

from marcir.search import Row
from marcir.search.index import index, model_files
from marcir.search.lance import LanceStore
from marcir.search.records import About
from marcir.search.stored_model import fingerprint_of_model
from search.index_process import announcing_index
from search.processes import creating, start_process
from serve.server_process import Server, serving, until
from serve.small_archive import DIM, write_model

WRITERS = 4

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


def started(target: Any, *arguments: object) -> list[tuple[BaseProcess, Connection]]:
    """Processes that have opened what they need, and wait."""
    processes = [start_process(target, *arguments, imported=["marcir.model.model"]) for _ in range(WRITERS)]
    for _, connection in processes:
        assert connection.recv() == "ready"
    return processes


def ended(processes: list[tuple[BaseProcess, Connection]]) -> list[int | None]:
    for process, connection in processes:
        process.join(120)
        connection.close()
    return [process.exitcode for process, _ in processes]


def all_ids(uri: str) -> list[str]:
    """The id of every row, doubles included."""
    return sorted(lancedb.connect(uri).open_table("images").to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("models", [1, 2])
def test_simultaneous_starts_all_end_with_one_store_of_one_model(bucket: str, models: int) -> None:
    processes = started(creating, f"{bucket}/store")
    for number, (_, connection) in enumerate(processes):
        connection.send("ab"[number % models])
    said = [connection.recv() for _, connection in processes]
    for _, connection in processes:
        connection.send("end")
    assert ended(processes) == [0] * WRITERS
    store = LanceStore(f"{bucket}/store")
    name = store.about.model[0]
    assert store.model_files() == {"config.json": name.encode()}
    for number, line in enumerate(said):
        if "ab"[number % models] == name:
            assert line == "open"
        else:
            assert "holds vectors of another model" in line
    assert len(all_ids(store.uri)) == len(set(all_ids(store.uri))) == 10 * said.count("open")


@pytest.mark.parametrize("shared", [True, False], ids=["the same images", "a shard each"])
def test_of_four_writers_one_is_killed_and_run_again_and_no_row_is_lost_or_double(
    bucket: str, shared: bool, model: Path, images: Path, tmp_path: Path
) -> None:
    labels = images / "labels.csv"
    uri = f"{bucket}/store"
    shards = [None if shared else (number, WRITERS) for number in range(WRITERS)]
    processes = started(announcing_index)
    for shard, (_, connection) in zip(shards, processes, strict=True):
        connection.send((model, images, uri, labels, shard))
    (killed, steps), *others = processes
    while steps.recv() != "add":
        pass
    killed.kill()
    for _, connection in others:
        while connection.recv() != "done":
            pass
        connection.send("end")
    assert ended(processes) == [-9, 0, 0, 0]
    done = index(images, uri, model=model, labels=labels, shard=shards[0])
    index(images, tmp_path / "whole", model=model, labels=labels)
    whole = LanceStore(tmp_path / "whole")
    assert done.rows == 40
    assert all_ids(uri) == whole.ids()
    for row, expected in zip(LanceStore(uri).get(whole.ids()), whole.get(whole.ids()), strict=True):
        assert (row.labels, row.content) == (expected.labels, expected.content)
        assert np.allclose(row.vector, expected.vector, atol=1e-5)  # other batches


def test_two_services_show_what_a_writer_commits_and_answer_while_it_optimizes(
    bucket: str, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model")
    files = model_files(model)
    uri = f"{bucket}/store"
    store = LanceStore.create(uri, About(fingerprint_of_model(files), DIM, str(tmp_path / "images")), files)
    rng = np.random.default_rng(0)

    def write(first: int) -> None:
        vectors = rng.normal(size=(20, DIM)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        store.add([Row(f"{first + place:04}", vector, ("l",)) for place, vector in enumerate(vectors)])

    ends = threading.Event()

    def ask(server: Server) -> list[int]:
        """Ask without a pause; every request must succeed. The totals that were seen."""
        totals = [0]
        while not ends.is_set():
            found = server.get("/api/search", id="0000", limit=5)
            assert len(found["hits"]) == 5
            totals.append(found["total"])
        return totals

    write(0)
    with ExitStack() as running, ThreadPoolExecutor(2) as pool:
        replicas = [
            running.enter_context(serving(uri, tmp_path / "images", model, tmp_path / f"cache {number}"))
            for number in range(2)
        ]
        asking = [pool.submit(ask, server) for server in replicas]
        try:
            for first in range(20, 200, 20):
                write(first)
                store.optimize()
            for server in replicas:
                until(lambda server=server: server.get("/health")["images"] == 200, "all images are shown")
        finally:
            ends.set()
        for answers in asking:
            totals = answers.result(timeout=60)
            assert totals == sorted(totals)
            assert len(totals) > 10
