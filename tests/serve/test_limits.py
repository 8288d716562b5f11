"""Clients that are slow, that break off, and that are many."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from marcir.model.model import Model
from marcir.serve import run, service, uploads
from marcir.serve.schemas import EmbedResponse
from marcir.serve.service import embed_content
from marcir.serve.settings import MAX_UPLOAD_BYTES
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread

FIRST = "images/000000.png"


def embed_slowly(model: Model, content: bytes, title: str) -> tuple[np.ndarray, EmbedResponse]:
    """Takes a second for a TIFF."""
    time.sleep(1.0 if content.startswith(b"II") else 0.0)
    return embed_content(model, content, title)


@pytest.fixture(scope="module")
def impatient(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path
) -> Iterator[Server]:
    """A service that waits half a second, embeds TIFF slowly and lets one upload wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uploads, "IDLE_SECONDS", 0.5)
        patch.setattr(run, "REQUEST_SECONDS", 0.5)
        patch.setattr(service, "WAITING_UPLOADS", 1)
        patch.setattr(service, "embed_content", embed_slowly)
        with serving_in_a_thread(served_store, served_images, served_model, served_cache) as running:
            yield running


def raw(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=60)


def head(length: int) -> bytes:
    lines = (
        "POST /api/embed HTTP/1.1",
        "Host: localhost",
        "Content-Type: image/png",
        f"Content-Length: {length}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def first_line(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n" not in received and (part := connection.recv(4096)):
        received += part
    return received.split(b"\r\n")[0]


def test_a_declared_length_above_the_limit_is_refused_before_anything_is_sent(server: Server) -> None:
    with raw(server) as connection:
        connection.sendall(head(MAX_UPLOAD_BYTES + 1))
        assert b"413" in first_line(connection)


def test_an_upload_that_does_not_come_is_refused_with_408_and_blocks_nobody(impatient: Server) -> None:
    content = (impatient.images / FIRST).read_bytes()
    slow = [raw(impatient) for _ in range(30)]
    for connection in slow:
        connection.sendall(head(len(content)) + content[:100])
    assert impatient.upload("/api/embed", content).status == 200
    for connection in slow:
        assert b"408" in first_line(connection)
        connection.close()
    assert impatient.upload("/api/embed", content).status == 200


def test_a_head_that_does_not_come_is_hung_up_on(impatient: Server) -> None:
    for begun in (b"", b"GET /health HTTP/1.1\r\nHost: loc"):
        with raw(impatient) as connection:
            connection.sendall(begun)
            assert connection.recv(100) == b""


def test_an_upload_that_breaks_off_leaves_the_service_well(impatient: Server) -> None:
    for _ in range(5):
        with raw(impatient) as connection:
            connection.sendall(head(10_000) + b"x")
    content = (impatient.images / FIRST).read_bytes()
    assert impatient.upload("/api/embed", content).status == 200
    assert "Traceback" not in impatient.log.read_text()


def test_more_uploads_than_may_wait_are_refused_with_retry_after(impatient: Server) -> None:
    slow, fast = (impatient.images / "bands.tif").read_bytes(), (impatient.images / FIRST).read_bytes()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: impatient.upload("/api/embed", slow), range(8)))
        searches = [impatient.ask("/api/search", {"id": FIRST}).status for _ in range(3)]
    assert {reply.status for reply in replies} == {200, 503}
    assert searches == [200] * 3
    for reply in replies:
        if reply.status == 503:
            assert int(reply.headers["retry-after"]) > 0
            assert "Try again" in reply.error
    assert impatient.upload("/api/embed", fast).status == 200


def test_searches_go_on_while_images_are_embedded(impatient: Server) -> None:
    slow = (impatient.images / "bands.tif").read_bytes()
    uploading = threading.Thread(target=impatient.upload, args=("/api/embed", slow))
    uploading.start()
    begun = time.monotonic()
    assert impatient.ask("/api/search", {"id": FIRST}).status == 200
    assert time.monotonic() - begun < 1 or not uploading.is_alive()
    uploading.join()


def test_a_session_that_does_not_come_is_refused_with_408(impatient: Server) -> None:
    begun = b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with raw(impatient) as connection:
        connection.sendall(begun + b"Content-Length: 100\r\n\r\n{")
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 408 ")
