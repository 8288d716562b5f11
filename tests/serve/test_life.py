"""A service from its start to its end, while the archive changes under it."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from marcir.cli import main
from serve.server_process import MARCIR, SECONDS, TOKEN, Reply, Server, serving, until

FIRST = "images/000000.png"
# The command, with images of TIFF embedded slowly, and with one upload that may wait.
SLOW_UPLOADS = """
import sys, time
from marcir.serve import service
service.WAITING_UPLOADS = 1
fast = service.embed_content
def slow(model, content, title):
    time.sleep(1.0 if content.startswith(b"II") else 0.0)
    return fast(model, content, title)
service.embed_content = slow
from marcir.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def growing(
    served_images: Path,
    served_model: Path,
    served_store: Path,
    served_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A process that asks for a token, on a store and a folder of its own; it embeds TIFF slowly."""
    folder = tmp_path_factory.mktemp("growing")
    images = shutil.copytree(served_images, folder / "images")
    store = shutil.copytree(served_store, folder / "store")
    with serving(
        store,
        images,
        served_model,
        served_cache,
        token=TOKEN,
        environment={"MARCIR_TOKEN": TOKEN},
        program=SLOW_UPLOADS,
    ) as running:
        yield running


@pytest.mark.slow
def test_neither_the_token_nor_the_query_of_a_stranger_is_logged(growing: Server) -> None:
    token = str(growing.token)
    growing.ask(f"/api/search?id=private-image&token={token}", headers={"Authorization": ""})
    growing.ask(f"/nowhere/{token}", headers={"Authorization": ""})
    body = json.dumps({"token": token}).encode()
    growing.ask("/api/session", method="POST", body=body, headers={"Content-Type": "application/json"})
    log = growing.log.read_text()
    assert token not in log
    assert "private" not in log
    assert "GET /api/search 401, " in log


@pytest.mark.slow
def test_rows_of_another_process_are_seen_without_a_restart(growing: Server) -> None:
    for place in range(20):
        shutil.copy(growing.images / FIRST, growing.images / f"new {place}.png")
    (growing.images / "images/000001.png").unlink()
    command = [
        MARCIR,
        "index",
        "--model",
        growing.model,
        "--images",
        growing.images,
        "--store",
        growing.store,
    ]
    environment = {**os.environ, "MARCIR_CACHE": str(growing.log.parent), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*map(str, command), "--prune", "--root-moved"], env=environment, stdout=subprocess.DEVNULL
    ) as indexing:
        seen = set()
        while indexing.poll() is None:
            with suppress(subprocess.TimeoutExpired):  # without a rest, indexing would hardly come to work
                indexing.wait(0.05)
            answer = growing.get("/api/search", id=FIRST, limit=200)
            assert len({hit["id"] for hit in answer["hits"]}) == len(answer["hits"]) == answer["total"]
            seen.add(growing.get("/health")["images"])
    assert indexing.returncode == 0
    assert seen <= {53, 73, 72}
    until(lambda: growing.get("/health")["images"] == 72, "72 images")
    hits = growing.get("/api/search", id=FIRST, limit=20, min_similarity=0.999)["hits"]
    assert {hit["id"] for hit in hits} == {f"new {place}.png" for place in range(20)}
    assert growing.ask("/api/image", {"id": "images/000001.png"}).status == 404
    assert growing.ask("/api/thumbnail", {"id": "new 3.png"}).status == 200


@pytest.mark.slow
def test_a_store_that_is_away_is_an_error_without_details_until_it_is_back(growing: Server) -> None:
    away = growing.store.rename(growing.store.with_name("away"))
    reply = until(
        lambda: (each := growing.ask("/api/thumbnail", {"id": FIRST})).status != 200 and each, "503"
    )
    assert reply.status == 503
    assert str(growing.store.parent) not in reply.body.decode()
    until(lambda: growing.ask("/health").status == 503, "a health of 503")
    assert "the store cannot be used" in growing.log.read_text()
    away.rename(growing.store)
    until(lambda: growing.ask("/health").status == 200, "a health of 200")
    assert growing.ask("/api/thumbnail", {"id": FIRST}).status == 200


@pytest.mark.slow
def test_a_request_in_flight_is_finished_when_the_service_is_stopped(growing: Server) -> None:
    content, slow = (growing.images / FIRST).read_bytes(), (growing.images / "bands.tif").read_bytes()
    until(lambda: growing.upload("/api/embed", content).status == 200, "a model")
    replies: list[Reply] = []
    asking = [
        threading.Thread(target=lambda: replies.append(growing.upload("/api/search", slow, limit=3)))
        for _ in range(2)
    ]
    for thread in asking:
        thread.start()
    idle = growing.connect()
    idle.request("GET", "/health")
    idle.getresponse().read()
    until(lambda: growing.upload("/api/embed", content).status == 503, "one at work and one waiting")
    assert growing.process is not None
    growing.process.terminate()
    for thread in asking:
        thread.join(timeout=SECONDS)
    assert growing.process.wait(timeout=SECONDS) == 0
    assert [reply.status for reply in replies] == [200, 200]
    assert replies[0].json()["hits"][0]["id"] == "bands.tif"
    assert "Traceback" not in growing.log.read_text()
    idle.close()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a service that cannot be started."""
    assert main(["serve", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str], server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(capsys, "--store", str(server.store), "--port", str(port))
    assert line.startswith(
        f"marcir: --host 127.0.0.1 --port {port}: cannot be used (Address already in use)."
    )
    assert line.endswith("Choose another --port.\n")


def test_an_address_that_is_not_ours_is_one_line(capsys: pytest.CaptureFixture[str], server: Server) -> None:
    common = ("--store", str(server.store), "--no-auth", "--port", "0")
    assert "--host no such name" in refusal(capsys, *common, "--host", "no such name")
    assert "cannot be used" in refusal(capsys, *common, "--host", "192.0.2.1")


def test_a_store_that_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refusal(capsys, "--store", str(tmp_path / "none"), "--port", "0")
    assert "there is no such store. Make one with: marcir index" in line


def test_a_folder_that_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], server: Server) -> None:
    line = refusal(capsys, "--store", str(server.store), "--images", "nowhere", "--port", "0")
    assert line == "marcir: --images nowhere: not a folder. Name the one that was indexed.\n"
