"""Processes that start quickly: each is forked from a server that has imported the large libraries."""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np

from marcir.search import Row

# All but lancedb itself: it starts threads when it is imported, and threads do not survive a fork.
_IMPORTED = ("marcir.search", "lance_namespace")


def start_process(
    target: Callable[..., None], *arguments: object, imported: Sequence[str] = ()
) -> tuple[BaseProcess, Connection]:
    """A process that calls `target(connection, *arguments)`, and our end of its connection.

    Args:
        target: A function of a module, not of a test file.
        arguments: What it is called with.
        imported: Further modules that the server imports, if this is the first process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_IMPORTED, *imported])
    ours, theirs = context.Pipe()
    process = context.Process(target=_call, args=(dict(os.environ), target, theirs, *arguments), daemon=True)
    process.start()
    theirs.close()  # else the end of the process would not be noticed
    return process, ours


def _call(environment: Mapping[str, str], target: Callable[..., None], *arguments: object) -> None:
    """Call a function in our environment; that of the server is the one of the first test."""
    os.environ.update(environment)
    target(*arguments)


def reading(connection: Connection, uri: str, last: int) -> None:
    """Search and read all rows, commits of 50, until there are `last`; sends how many states were seen."""
    from marcir.search.lance import LanceStore

    store = LanceStore(uri)
    connection.send("open")
    seen = [0]
    while seen[-1] < last:
        (hits,) = store.search(np.ones((1, 8)), 10_000)
        ids = [hit.id for hit in hits]
        assert len(set(ids)) == len(ids), "double"
        assert len(ids) % 50 == 0, f"half a commit: {len(ids)}"
        assert len(ids) >= seen[-1], "lost"
        assert [row.id for row in store.get(ids)] == ids
        seen.append(len(ids))
    connection.send(len(set(seen)))


def writing(connection: Connection, uri: str, commits: Sequence[Sequence[Row]]) -> None:
    """Add rows, one commit after another, as soon as a message comes."""
    from marcir.search.lance import LanceStore

    store = LanceStore(uri)
    connection.send("open")
    connection.recv()
    for rows in commits:
        store.add(rows)
    store.optimize()


def creating(connection: Connection, uri: str) -> None:
    """Open or create a store of the model that is received, add ten rows, and send how it went."""
    from marcir.errors import StoreError
    from marcir.search.lance import LanceStore
    from marcir.search.records import About

    connection.send("ready")
    model = connection.recv()
    try:
        store = LanceStore.create(uri, About(model * 64, 8, "/archive"), {"config.json": model.encode()})
        vector = np.eye(8, dtype=np.float32)[0]
        store.add([Row(f"{os.getpid()}-{place}", vector) for place in range(10)])
        connection.send("open")
    except StoreError as error:
        connection.send(str(error))
    connection.recv()
