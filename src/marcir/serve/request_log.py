"""Notes on a request, and the log: one line per search, upload and error.

Files, the page and health checks are not logged.

Texts of a request are shortened and escaped before they are logged, and the token is replaced by `***`: one
event is one line, whatever a request contains.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("marcir.serve")

_QUERY = (
    "id",
    "vector",
    "like",
    "unlike",
    "label",
    "at",
    "any",
    "all",
    "none",
    "bbox",
    "within",
    "from",
    "to",
    "collection",
)
_PAGE = ("none_unknown_ok", "min_similarity", "offset", "limit", "format")
_MAX_VALUES = 3  # of one parameter
_MAX_VALUE = 80  # characters of one value
_MAX_PATH = 200
_MAX_REASON = 400


@dataclass
class RequestNotes:
    """What is logged of one request besides method, path, status and time, and how long its parts took."""

    token: str | None = None  # of the service, which is never logged
    asked: list[str] = field(default_factory=list)  # in short, ready to be logged
    hits: int | None = None  # number of hits of the response
    reason: str = ""  # why the request was refused, as it was raised
    times: dict[str, float] = field(default_factory=dict)  # seconds per part, for the header Server-Timing

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Measure a part of the request."""
        start = time.perf_counter()
        yield
        self.times[part] = time.perf_counter() - start

    def server_timing(self, total: float) -> bytes:
        """The value of the header Server-Timing, in milliseconds.

        >>> RequestNotes(times={"search": 0.0123}).server_timing(0.02)
        b'search;dur=12.30, total;dur=20.00'
        """
        times = {**self.times, "total": total}
        return ", ".join(f"{part};dur={1000 * seconds:.2f}" for part, seconds in times.items()).encode()

    def add_parameters(self, given: Mapping[str, Any]) -> None:
        """Note the parameters of a search that were given."""
        parts = [part for name in _QUERY if name in given for part in self._values(name, given[name])]
        parts += [f"{name}={given[name]}" for name in _PAGE if name in given]
        if parts:
            self.asked.append(" ".join(parts))

    def add_upload(self, size: int, width: int, height: int, name: str = "") -> None:
        """Note an uploaded image: bytes, pixels and, where the request has one, the name of the file."""
        named = f" {self._quoted(name)}" if name else ""
        self.asked.append(f"upload{named} of {size:,} bytes, {width} x {height} pixels")

    def add_edit(self, text: str) -> None:
        """Note a change of collections or labels."""
        self.asked.append(redacted(text, self.token))

    def line(self, scope: Scope, status: int, seconds: float) -> str:
        """The line of a request."""
        client = quote(shortened(str((scope.get("client") or ("-",))[0]), _MAX_VALUE), safe=":[]%")
        path = quote(shortened(redacted(scope["path"], self.token), _MAX_PATH), safe="/*")
        hits = "" if self.hits is None else f", {self.hits} hit{'' if self.hits == 1 else 's'}"
        text = shortened(redacted(self.reason, self.token), _MAX_REASON) or ", ".join(self.asked)
        method = shortened(scope["method"], 20)
        end = f": {escaped(text)}" if text else ""
        return f"{client} {method} {path} {status}, {1000 * seconds:.0f} ms{hits}{end}"

    def _values(self, name: str, values: str | list[str]) -> list[str]:
        every = [values] if isinstance(values, str) else values
        if name == "vector":
            return [name]
        parts = []
        for value in every[:_MAX_VALUES]:
            is_vector = "like" in name and value.startswith("vector:")
            parts.append(f"{name}=vector" if is_vector else f"{name}={self._quoted(value)}")
        return [*parts, f"({len(every) - _MAX_VALUES} more)"] if len(every) > _MAX_VALUES else parts

    def _quoted(self, text: str) -> str:
        return repr(shortened(redacted(text, self.token), _MAX_VALUE))


_NOTES: ContextVar[RequestNotes | None] = ContextVar("notes", default=None)


def current_notes() -> RequestNotes:
    """The notes of this request. Worker threads do not see them and get them as an argument."""
    return _NOTES.get() or RequestNotes()


class RequestLogMiddleware:
    """Logs searches, uploads and errors, one line each, without the token."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, then log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        notes = RequestNotes(self._token)
        _NOTES.set(notes)

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            if status >= 400 or (status and notes.asked):
                level = logging.INFO if status < 400 else logging.WARNING if status < 500 else logging.ERROR
                log.log(level, "%s", notes.line(scope, status, time.perf_counter() - start))


class LineFormatter(logging.Formatter):
    """Time and message on one line; a traceback follows, indented, so that none of it looks like an entry."""

    def __init__(self, token: str | None = None) -> None:
        super().__init__("%(asctime)s %(message)s")
        self._token = token

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever the message contains."""
        return escaped(redacted(super().formatMessage(record), self._token))

    def formatException(self, ei: Any) -> str:
        """The traceback, indented."""
        lines = redacted(super().formatException(ei), self._token).split("\n")
        return "\n".join(f"    {escaped(line)}" for line in lines)


def escaped(text: str) -> str:
    r"""A text whose control characters, line breaks and other invisible characters are escaped.

    >>> print(escaped("a\nb\x1b[31m \u00fc"))
    a\nb\x1b[31m ü
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def redacted(text: str, token: str | None) -> str:
    """A text without the token.

    >>> redacted("id=secret-token", "secret-token")
    'id=***'
    """
    return text.replace(token, "***") if token else text


def shortened(text: str, most: int) -> str:
    """The beginning of a long text.

    >>> shortened("abcdefgh", 6), shortened("abc", 6)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
