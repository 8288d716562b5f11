"""`marcir serve` as a process of its own, and requests to a service."""

import http.client
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"
SECONDS = 60.0  # that anything may take
TOKEN = "a-token-of-tests-0123456789"  # noqa: S105


@dataclass(frozen=True)
class Reply:
    """A response: headers in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        assert self.headers["content-type"].startswith("application/json"), self.headers
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one sentence of a refusal."""
        content = self.json()
        assert list(content) == ["error"]
        assert "\n" not in content["error"]
        return str(content["error"])


@dataclass(frozen=True)
class Server:
    """A running service.

    Attributes:
        url: Such as http://127.0.0.1:34567, without a slash at the end.
        store: Its store.
        images: The folder that was indexed.
        model: The model that it was indexed with.
        log: What it writes to the terminal.
        token: What it was started with.
        process: The process; none where it is a thread of this one.
    """

    url: str
    store: Path
    images: Path
    model: Path
    log: Path
    token: str | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def open_files(self) -> list[Path]:
        """Files that its process has open."""
        found = []
        for each in Path(f"/proc/{self.process.pid if self.process else os.getpid()}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(each.readlink())
        return found

    def connect(self, timeout: float = SECONDS) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def ask(
        self,
        path: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own."""
        target = path if not parameters else f"{path}?{urlencode(parameters, doseq=True)}"
        given = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **(headers or {})}
        connection = self.connect()
        try:
            connection.request(method, target, body, given)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of a request that must succeed."""
        reply = self.ask(path, parameters)
        assert reply.status == 200, reply.body
        return reply.json()

    def refusal(self, path: str, **parameters: Any) -> tuple[int, str]:
        """Status and sentence of a request that must not."""
        reply = self.ask(path, parameters)
        assert reply.status >= 400
        return reply.status, reply.error

    def upload(self, path: str, content: bytes, **parameters: Any) -> Reply:
        """Send an image."""
        kind = {"Content-Type": "application/octet-stream"}
        return self.ask(path, parameters, method="POST", body=content, headers=kind)

    def post(self, path: str, content: Any, **headers: str) -> Reply:
        """Send JSON."""
        kind = {"Content-Type": "application/json", **headers}
        return self.ask(path, method="POST", body=json.dumps(content).encode(), headers=kind)

    def change(self, path: str, **content: Any) -> Any:
        """The JSON of a change that must succeed; None without one."""
        reply = self.post(path, content)
        assert reply.status < 300, reply.body
        return None if reply.status == 204 else reply.json()


@contextmanager
def serving(
    store: Path | str,
    images: Path,
    model: Path,
    cache: Path,
    *arguments: str,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
    program: str | None = None,
) -> Iterator[Server]:
    """A service on a port that the system chose; it is stopped at the end.

    Args:
        store: What is served.
        images: Where it was indexed.
        model: What it was indexed with.
        cache: Where it keeps its model.
        arguments: More options.
        token: What it asks for, for the requests of tests.
        environment: More variables.
        program: Python that calls the command line, instead of the command.
    """
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f"{time.monotonic_ns()}.log"
    begin = [str(MARCIR)] if program is None else [sys.executable, "-c", program]
    command = [*begin, "serve", "--store", str(store), "--port", "0", *arguments]
    with log.open("w") as err:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            env={**os.environ, "MARCIR_CACHE": str(cache), "OMP_NUM_THREADS": "1", **(environment or {})},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://"), line + log.read_text()
        yield Server(line.split()[0], Path(store), images, model, log, token, process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def until(happens: Callable[[], Any], what: str) -> Any:
    """Wait for something to be true, with a deadline."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if found := happens():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {SECONDS:.0f} s")
