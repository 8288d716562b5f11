"""Connections between the processes of a run: strangers who reach the first one change nothing."""

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from marcir.errors import TrainingError
from marcir.training import peer_connections
from marcir.training import peers as module
from marcir.training.peers import Peers

# Less than strangers could delay the start if the first process waited for each of them.
SOON = 4.0


def process(rank: int, size: int) -> "Future[Peers]":
    """Connect a process in a thread."""
    launcher = SimpleNamespace(launcher=None)
    fabric: Any = SimpleNamespace(
        global_rank=rank, local_rank=rank, world_size=size, device="cpu", strategy=launcher
    )
    future = Future[Peers]()

    def run() -> None:
        try:
            future.set_result(Peers(fabric))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class First:
    """The first process of a run, what it announces, and connections to it."""

    def __init__(self, sent: "queue.Queue[bytes]", size: int) -> None:
        self.connected = process(0, size)
        self.announced = sent.get(timeout=SOON)
        self.port, self.token = json.loads(self.announced)
        self._open = ExitStack()

    def connect(self, content: bytes = b"") -> socket.socket:
        """Connect and send something."""
        connection = self._open.enter_context(socket.create_connection(("127.0.0.1", self.port), SOON))
        connection.sendall(content)
        return connection

    def join(self, rank: int = 1) -> socket.socket:
        """Connect as another process of the run does."""
        return self.connect(json.dumps([self.token, rank, "host"]).encode() + b"\n")

    def close(self) -> None:
        if self.connected.exception(SOON):
            self._open.close()
            return
        peers = self.connected.result()
        peers.end()  # otherwise a connection that ends would end this process
        self._open.close()
        for thread in threading.enumerate():
            if thread.name.startswith("process-"):
                thread.join(SOON)
        for connection in peers._others.values():
            connection.close()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], First]]:
    """Start the first process of a run, without torch."""
    sent, started = queue.Queue[bytes](), list[First]()

    def broadcast(self: Peers, content: bytes) -> bytes:
        if not self.is_first:
            return started[0].announced
        sent.put(content)
        return content

    def start_first(size: int) -> First:
        started.append(First(sent, size))
        return started[0]

    monkeypatch.setattr(Peers, "_broadcast", broadcast)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    yield start_first
    for first in started:
        first.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes a connection without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:  # it did not read all
        return True


@pytest.mark.parametrize(
    "content",
    [
        b"5\n",
        b"null\n",
        b'{"a": 1}\n',
        b"[" * 999 + b"\n",
        b"\xff\xfe\n",
        b"\n",
        b'["\\ud800", 1, "host"]\n',
        b'["wrong", 1, "host"]\n',
        '["größer", 1, "host"]\n'.encode(),
        b'[5, 1, "host"]\n',
        b"a" * 100_000,
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_connection_without_the_token_is_closed_and_accepting_goes_on(
    content: bytes, start: Callable[[int], First]
) -> None:
    first = start(2)
    try:
        stranger = first.connect(content)
    except ConnectionError:  # closed while it still sends
        pass
    else:
        assert is_closed(stranger)
    assert not first.connected.done()
    first.join()
    assert list(first.connected.result(SOON)._others) == [1]


@pytest.mark.parametrize("said", ['2, "host"', '0, "host"', '"1", "host"', 'true, "host"', "1", "1, null"])
def test_a_connection_with_the_token_must_name_another_process_of_the_run(
    said: str, start: Callable[[int], First]
) -> None:
    first = start(2)
    assert is_closed(first.connect(f'["{first.token}", {said}]\n'.encode()))
    first.join()
    assert list(first.connected.result(SOON)._others) == [1]


def test_a_second_connection_of_a_process_is_closed(start: Callable[[int], First]) -> None:
    first = start(3)
    first.join(1)
    assert is_closed(first.join(1))
    first.join(2)
    assert sorted(first.connected.result(SOON)._others) == [1, 2]


def test_connections_that_send_nothing_or_a_part_delay_nothing_and_are_closed(
    start: Callable[[int], First],
) -> None:
    first = start(2)
    strangers = [first.connect(content) for content in (b"", b"[", b"", b'["', b"")]
    first.join()
    first.connected.result(SOON)
    assert all(is_closed(stranger) for stranger in strangers)


def test_too_many_silent_connections_do_not_use_up_all_files(
    start: Callable[[int], First], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STRANGERS", 3)
    first = start(2)
    strangers = [first.connect() for _ in range(7)]
    assert all(is_closed(stranger) for stranger in strangers[:2])
    assert not first.connected.done()
    first.join()
    assert list(first.connected.result(SOON)._others) == [1]


def test_silent_connections_do_not_extend_the_deadline(
    start: Callable[[int], First], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.3)
    first = start(3)
    strangers = [first.connect() for _ in range(3)]
    first.join(1)
    with pytest.raises(TrainingError, match="process 2 of 3 did not connect"):
        first.connected.result(SOON)
    assert all(is_closed(stranger) for stranger in strangers)


def test_a_hello_may_arrive_in_parts_and_together_with_the_next_message(
    start: Callable[[int], First],
) -> None:
    first = start(3)
    hello = json.dumps([first.token, 1, "host"]).encode() + b"\n"
    slow = first.connect(hello[:9])
    first.connect(json.dumps([first.token, 2, "host"]).encode() + b'\n{"ready": true}\n')
    assert is_closed(first.join(2))  # the first part of the slow one was read before
    slow.sendall(hello[9:] + b'{"ready": true}\n')
    first.connected.result(SOON).wait()


def test_processes_connect_on_an_address_of_one_machine_only(
    start: Callable[[int], First], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torchrun on one machine may give its name, which is an address that others reach."""
    monkeypatch.setenv("MASTER_ADDR", socket.gethostname())
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    first = start(2)
    with pytest.raises(OSError, match=r"refused|assign|timed out"):
        socket.create_connection(("127.0.0.2", first.port), SOON).close()
    other = process(1, 2).result(SOON)

    def finish() -> None:
        other.wait()
        other.end()

    ends = threading.Thread(target=finish)
    ends.start()
    first.connected.result(SOON).wait()
    first.connected.result().end()
    ends.join(SOON)
    assert not ends.is_alive()
    other._others[0].channel.shutdown(socket.SHUT_RDWR)
    first.close()
    other._others[0].close()


@pytest.mark.parametrize(
    ("master", "local", "expected"),
    [
        ("localhost", "1", "127.0.0.1"),
        ("node-a", "2", "127.0.0.1"),
        ("node-a", "1", "node-a"),
        ("10.0.0.7", "1", "10.0.0.7"),
    ],
)
def test_the_first_process_is_reached_over_loopback_if_all_are_on_one_machine(
    master: str, local: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", master)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    assert peer_connections.address_of_first(2) == expected


@pytest.mark.parametrize(
    ("address", "only_there"),
    [("127.0.0.1", True), ("localhost", False), ("192.0.2.1", False)],
    ids=["an address of this machine", "a name", "an address that is forwarded to this machine"],
)
def test_the_first_process_listens_on_its_address_only_if_the_others_see_the_same(
    address: str, only_there: bool
) -> None:
    with peer_connections.open_server(address) as server:
        listens = ip_address(server.getsockname()[0])
    assert listens == ip_address(address) if only_there else listens.is_unspecified
