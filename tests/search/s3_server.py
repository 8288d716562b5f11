"""A pretended S3, as a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDRESS = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


def moto_server() -> Path | None:
    """The program: `$MARCIR_MOTO_SERVER`, or the one beside this Python."""
    given = os.environ.get("MARCIR_MOTO_SERVER")
    found = Path(given) if given else Path(sys.executable).parent / "moto_server"
    return found if found.is_file() else None


@contextmanager
def serving(program: Path) -> Iterator[str]:
    """The address of a server on a port that the system chose; it ends with the block."""
    with subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            address = next((found[1] for line in server.stderr if (found := _ADDRESS.search(line))), None)
            assert address is not None, "the server ended without an address"
            # It prints every request: unread, it would come to a stop.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield address
        finally:
            server.terminate()
            server.wait(timeout=20)
