"""Indexing in a process of its own that announces each step, for the test that kills it."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

STEPS = ("create", "embed", "add", "optimize")
BATCH = 4


def announcing_index(connection: Connection) -> None:
    """Send "ready" after the imports; then index what is received, announcing each step before it begins."""
    from marcir.model.encoder import Encoder
    from marcir.search import index_run
    from marcir.search.index import index
    from marcir.search.lance import LanceStore

    def announced(step: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def announce_and_run(*arguments: Any) -> Any:
            connection.send(step)
            return run(*arguments)

        return announce_and_run

    create, embed, add, optimize = STEPS
    LanceStore.create = staticmethod(announced(create, LanceStore.create))  # type: ignore[method-assign]
    LanceStore.add = announced(add, LanceStore.add)  # type: ignore[method-assign]
    LanceStore.optimize = announced(optimize, LanceStore.optimize)  # type: ignore[method-assign]
    Encoder.embed = announced(embed, Encoder.embed)  # type: ignore[method-assign]
    index_run._COMMIT = BATCH  # small commits, so that a kill meets one
    connection.send("ready")
    model, images, store, labels, *shard = connection.recv()
    index(images, store, model=model, labels=labels, batch_size=BATCH, shard=shard[0] if shard else None)
    connection.send("done")
    connection.recv()  # until killed, or let go
