"""How the processes of a run connect to the first one: its address, its server, and their first messages."""

import hmac
import json
import os
import selectors
import socket
import time
from collections.abc import Generator
from contextlib import suppress
from ipaddress import ip_address

# The first message of a process has its token, number and host: about 60 bytes, and never more than this.
_HELLO_BYTES = 1000


def first_lines(
    server: socket.socket, limit: int, seconds: float
) -> Generator[tuple[socket.socket, bytes], None, None]:
    """Accept connections for some seconds, and yield each with its first line, or with what it sent instead.

    All are read at the same time. Those that have sent no line are closed at the end, or before if there are
    more than `limit`, the oldest first.
    """
    deadline = time.monotonic() + seconds
    received: dict[socket.socket, bytes] = {}
    server.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ, server)
        try:
            while (left := deadline - time.monotonic()) > 0:
                for connected in [key.data for key, _ in selector.select(left)]:
                    if connected is server:
                        with suppress(OSError):  # it has ended before it was accepted
                            connected = server.accept()[0]
                            received[connected] = b""
                            connected.setblocking(False)
                            selector.register(connected, selectors.EVENT_READ, connected)
                        continue
                    received[connected], complete = _read_more(connected, received[connected])
                    if complete:
                        selector.unregister(connected)
                        yield connected, received.pop(connected)
                if len(received) > limit:
                    oldest = next(iter(received))
                    selector.unregister(oldest)
                    del received[oldest]
                    oldest.close()
        finally:
            for connected in received:
                connected.close()


def _read_more(connected: socket.socket, before: bytes) -> tuple[bytes, bool]:
    """Read what has arrived of a line; return all of it, and whether nothing is to follow.

    Nothing is read after the end of the line: the next message is for the listener.
    """
    try:
        arrived = connected.recv(_HELLO_BYTES - len(before), socket.MSG_PEEK)
        part = connected.recv(arrived.find(b"\n") + 1 or len(arrived))
    except BlockingIOError:
        return before, False
    except OSError:
        return before, True
    line = before + part
    return line, not part or line.endswith(b"\n") or len(line) == _HELLO_BYTES


def read_hello(line: bytes, token: str) -> tuple[int, str]:
    """Read number and host of a process from its first line; the number is -1 if it is not of this run."""
    with suppress(ValueError, RecursionError):
        match json.loads(line):
            case [str(sent_token), int(rank), str(host)] if not isinstance(rank, bool):
                if hmac.compare_digest(sent_token.encode(), token.encode()):
                    return rank, host
    return -1, ""


def address_of_first(size: int) -> str:
    """Address at which all processes reach the first one; torch has it in the environment.

    On one machine it is loopback, which other machines cannot reach.
    """
    address = os.environ["MASTER_ADDR"]
    one_machine = address == "localhost" or os.environ.get("LOCAL_WORLD_SIZE") == str(size)
    return "127.0.0.1" if one_machine else address


def open_server(address: str) -> socket.socket:
    """Listen on a free port of an address of this machine, or of all its addresses.

    All are needed for a name, which may be another address here than on the other machines (Debian maps a
    machine's own name to 127.0.1.1), and for an address that a network forwards to this machine.
    """
    with suppress(ValueError, OSError):
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        return socket.create_server((address, 0), family=family, backlog=1024)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", 0), backlog=1024)
