"""A pretended S3, as a process of its own."""

import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

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


def put_object(address: str, content: bytes) -> None:
    """Write an object, `s3://bucket/key`, to the server of the environment."""
    _request("PUT", address.removeprefix("s3://"), content)


def put_folder(address: str, folder: Path) -> None:
    """Write all files of a folder below an address."""
    for file in folder.rglob("*"):
        if file.is_file():
            put_object(f"{address}/{file.relative_to(folder)}", file.read_bytes())


def delete_object(address: str) -> None:
    """Remove an object."""
    _request("DELETE", address.removeprefix("s3://"))


def forget_keys() -> None:
    """Let the server refuse all further requests: it knows no access key."""
    _request("POST", "moto-api/reset-auth", b"0")


def _request(method: str, path: str, content: bytes | None = None) -> None:
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{quote(path)}"
    # The server looks whether a request is signed, and by whom, but not at the signature.
    signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
    headers = {"Content-Type": "application/octet-stream", "Authorization": signed}
    made = urllib.request.Request(url, content, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(made, timeout=20) as answer:  # noqa: S310
        assert answer.status in (200, 204)
