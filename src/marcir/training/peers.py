"""The processes of a run: what the first one decides reaches the others, and one that fails ends all.

Each process has a connection to the first one, beside those of torch. Threads listen there: they receive
the message of a process that fails or ends while this one computes or waits for it in a collective. Nothing
is sent while all processes run, so training steps cost nothing more.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from marcir.errors import MarcirError, TrainingError
from marcir.processes import describe_exit
from marcir.training.peer_connections import address_of_first, first_lines, open_server, read_hello

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Seconds for all processes to connect, once torch has connected them.
_CONNECT_SECONDS = 60.0
# Connections without a hello that may be open, beside those of the run: more could use up all files.
_STRANGERS = 64
# Seconds that a process waits for the message about another one, or for the first one to print its own.
_MESSAGE_SECONDS = 5.0
# Seconds in which the first process may end with a message of its own, when another one reports a failure.
_OWN_SECONDS = 1.0
# A machine that does not answer is lost after 10 + 4 * 5 seconds.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_RESUME = "The same command resumes from the last checkpoint."


@dataclass(frozen=True, eq=False)
class _Connection:
    """A connection to another process; messages are lines of JSON."""

    channel: socket.socket
    lines: IO[str]
    host: str = ""

    @classmethod
    def over(cls, connected: socket.socket, host: str = "") -> "_Connection":
        """Use a connected socket, and find out when the other machine is lost."""
        with suppress(OSError):  # macOS: it has ended already, which its listener finds
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connected.settimeout(None)
        return cls(connected, connected.makefile("r", encoding="utf-8"), host)

    def send(self, **message: Any) -> None:
        """Send a message; a process that has ended is found by its listener."""
        with suppress(OSError):
            self.channel.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the socket and what reads it."""
        self.lines.close()
        self.channel.close()


class Peers:
    """This process's connections to the other ones of a run.

    Attributes:
        rank: Number of this process; 0 is the first.
        size: Number of processes.
    """

    def __init__(self, fabric: "Fabric") -> None:
        self.rank, self.size = fabric.global_rank, fabric.world_size
        self._device = fabric.device
        # If the first process is lost, one process of each machine prints it.
        self._reports_first = fabric.local_rank == 0 or self.rank == 1
        self._children: list[subprocess.Popen[bytes]] = getattr(fabric.strategy.launcher, "procs", [])
        self._changed, self._printing = threading.Condition(), threading.Lock()
        self._over, self._closed = threading.Event(), threading.Event()
        self._waits, self._ready, self._gone = 0, Counter[int](), set[int]()
        self._others: dict[int, _Connection] = {}
        if not self.alone:
            self._others = self._accept() if self.rank == 0 else self._connect()
        for rank in self._others:
            threading.Thread(target=self._listen, args=(rank,), daemon=True, name=f"process-{rank}").start()

    @property
    def alone(self) -> bool:
        """Whether the run has one process only."""
        return self.size == 1

    @property
    def is_first(self) -> bool:
        """Whether this process decides, and writes the run's folder."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes are here, however long one of them packs images or computes features."""
        self._waits += 1
        if not self.is_first:
            self._send(ready=True)
        with self._changed:
            self._changed.wait_for(lambda: all(self._ready[rank] >= self._waits for rank in self._others))
        if self.is_first:
            self._send(ready=True)

    def from_first(self, make: Callable[[], bytes]) -> bytes:
        """Call a function on the first process; return its result on all of them."""
        if self.alone:
            return make()
        self.wait()
        return self._broadcast(make() if self.is_first else b"")

    def end(self) -> None:
        """End without an error: the others wait for the first process, which may still score the model.

        Otherwise torchrun could not start them again if the first one is killed.
        """
        if not self.is_first:
            self._send(ended=True)
            self._closed.wait()
        self._over.set()
        if self.is_first:
            self._send(ended=True)

    def fail(self, error: BaseException) -> None:
        """End all processes because of an error of this one; the first process prints it.

        Raises:
            SystemExit: On other processes than the first, which prints the error.
        """
        if self.alone:
            return
        if isinstance(error, RuntimeError) and not isinstance(error, MarcirError):
            # Probably a collective without a process that has ended: the listener then ends this one, too.
            time.sleep(_MESSAGE_SECONDS)
        with self._printing:
            self._over.set()
        code, message = outcome(error)
        if self.is_first:
            self._send(stop=code)
            return
        self._send(failed=message, code=code)
        self._closed.wait(_MESSAGE_SECONDS)
        if code != 1:
            raise SystemExit(code) from error

    def _broadcast(self, content: bytes) -> bytes:
        length = torch.tensor([len(content)], device=self._device)
        dist.broadcast(length, 0)
        if not length:
            return b""
        sent = torch.frombuffer(bytearray(content or int(length)), dtype=torch.uint8).to(self._device)
        dist.broadcast(sent, 0)
        return sent.cpu().numpy().tobytes()

    def _accept(self) -> dict[int, _Connection]:
        """Accept a connection of every other process; anyone may connect, but only they know the token."""
        token, connections = secrets.token_hex(16), dict[int, _Connection]()
        with (
            open_server(address_of_first(self.size)) as server,
            closing(first_lines(server, self.size + _STRANGERS, _CONNECT_SECONDS)) as lines,
        ):
            self._broadcast(json.dumps([server.getsockname()[1], token]).encode())
            for connected, line in lines:
                rank, host = read_hello(line, token)
                if rank not in range(1, self.size) or rank in connections:
                    connected.close()
                    continue
                connections[rank] = _Connection.over(connected, host)
                if len(connections) == self.size - 1:
                    return connections
        for connection in connections.values():
            connection.close()
        missing = next(rank for rank in range(1, self.size) if rank not in connections)
        raise TrainingError(
            f"process {missing} of {self.size} did not connect to the first one within "
            f"{_CONNECT_SECONDS:.0f} s. Processes must reach each other on all ports."
        )

    def _connect(self) -> dict[int, _Connection]:
        """Connect to the first process."""
        port, token = json.loads(self._broadcast(b""))
        address = address_of_first(self.size), port
        try:
            connected = socket.create_connection(address, _CONNECT_SECONDS)
            hello = json.dumps([token, self.rank, socket.gethostname()])
            connected.sendall(hello.encode() + b"\n")
            connection = _Connection.over(connected)
        except OSError as error:
            raise TrainingError(
                f"process {self.rank} of {self.size} cannot connect to the first one at {address[0]}, port "
                f"{port} ({error}). Processes must reach each other on all ports."
            ) from error
        return {0: connection}

    def _send(self, **message: Any) -> None:
        for connection in self._others.values():
            connection.send(**message)

    def _listen(self, rank: int) -> None:
        """Receive the messages of a process until its connection ends; runs in a thread."""
        with suppress(OSError, ValueError, KeyError, TypeError):  # what is no message ends the connection
            for line in self._others[rank].lines:
                self._receive(rank, json.loads(line))
        if rank not in self._gone:
            self._lost(rank)
        self._closed.set()

    def _receive(self, rank: int, message: dict[str, Any]) -> None:
        if "ready" in message:
            with self._changed:
                self._ready[rank] += 1
                self._changed.notify_all()
        elif "ended" in message:
            self._gone.add(rank)
            if not self.is_first:
                self._closed.set()
        elif "failed" in message:
            if not self._over.wait(_OWN_SECONDS):
                self._exit(f"process {self._name(rank)}: {message['failed']}", message["code"])
            self._gone.add(rank)
        elif "stop" in message:
            self._gone.add(rank)
            self._exit("", message["stop"])
            self._closed.set()

    def _lost(self, rank: int) -> None:
        """A process has ended without a message."""
        how = "it was killed, or its machine or the network was lost"
        with suppress(IndexError, subprocess.TimeoutExpired):
            child = self._children[rank - 1] if rank else None
            if child is not None:
                how = describe_exit(child.wait(_MESSAGE_SECONDS))
        shown = self.is_first or self._reports_first
        self._exit(f"process {self._name(rank)}: {how}. {_RESUME}" if shown else "", 2)

    def _name(self, rank: int) -> str:
        host = self._others[rank].host
        return f"{rank} of {self.size}" + (f" on {host}" if host and not self._children else "")

    def _exit(self, message: str, code: int) -> None:
        """Print a message and end this process at once, unless it is ending with a message of its own.

        Its main thread may be in a collective, which no exception ends. Files are written atomically.
        """
        with self._printing:
            if self._over.is_set():
                return
            if message:
                print(f"marcir: {message}", file=sys.stderr, flush=True)
            if self.is_first:
                self._send(stop=code)
            os._exit(code)


@contextmanager
def connected_processes(fabric: "Fabric") -> Iterator[Peers]:
    """Connect the processes of a run: if one of them raises or is killed, all end, with one message.

    The first process raises its own errors. An error of another one is printed by the first process, and
    ends them with its exit code, as `marcir` would: 2 for a mistake of the user.
    """
    peers = Peers(fabric)
    try:
        yield peers
    except BaseException as error:
        peers.fail(error)
        raise
    peers.end()


def outcome(error: BaseException) -> tuple[int, str]:
    """Exit code and text of an error of a process."""
    if isinstance(error, MarcirError):
        return 2, str(error)
    if isinstance(error, OSError):
        return 2, f"{error.filename or 'a file'}: {error.strerror or error}."
    if isinstance(error, KeyboardInterrupt):
        return 130, "stopped."
    return 1, f"{type(error).__name__}: {error}"
