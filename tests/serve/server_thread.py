"""The service in a thread of this process: the application and the protocol of `marcir serve`.

A process of its own takes seconds to start. Requests still go through a socket: a test client that calls the
application would normalise the addresses and headers that some tests send.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from marcir.serve.app import create_app
from marcir.serve.basemap import Basemap
from marcir.serve.request_log import LineFormatter
from marcir.serve.run import HttpProtocol, _address, _listen
from marcir.serve.service import Service
from marcir.serve.settings import Settings
from serve.server_process import SECONDS, Server, until

_LOGGERS = ("uvicorn.error", "marcir.serve")


@contextmanager
def serving_in_a_thread(
    store: Path,
    images: Path,
    model: Path,
    cache: Path,
    *,
    originals: bool = False,
    token: str | None = None,
    scenes: str | None = None,
    basemap: str | None = None,
    edits: Path | None = None,
) -> Iterator[Server]:
    """A service on a port that the system chose; it is stopped at the end.

    Args:
        store: What is served.
        images: Where it was indexed.
        model: What it was indexed with.
        cache: Where it keeps its model.
        originals: Whether files of `images` are shown.
        token: What it asks for.
        scenes: The scenes whose windows are shown.
        basemap: Tiles under its map.
        edits: File of collections and labels, which may be changed; without it, the one beside the store is
            read.
    """
    settings = Settings(
        str(store),
        images if originals else None,
        port=0,
        token=token,
        scenes=scenes,
        basemap=None if basemap is None else Basemap.parse(basemap),
        allow_edits=edits is not None,
        annotations=edits,
    )
    service = Service(settings)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MARCIR_CACHE", str(cache))
        service.archive.archive.model  # noqa: B018  (loaded here, where it finds this cache)
    config = uvicorn.Config(
        create_app(service),
        http=HttpProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    running = uvicorn.Server(config)
    listening = _listen(settings)
    url = _address(settings, listening)
    log = cache / f"{listening.getsockname()[1]}.log"
    with listening, _logged(log, token):
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        try:
            until(lambda: running.started or not thread.is_alive(), "the service answers")
            yield Server(url, store, images, model, log, token)
        finally:
            running.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive(), f"the service does not stop: {_stack_of(thread)}"


def _stack_of(thread: threading.Thread) -> str:
    """Where a thread hangs."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "it has ended meanwhile"


@contextmanager
def _logged(path: Path, token: str | None) -> Iterator[None]:
    """What `marcir serve` would log, of all services of this process, in a file."""
    handler = logging.FileHandler(path)
    handler.setFormatter(LineFormatter(token))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        handler.close()
