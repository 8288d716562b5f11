"""The HTTP/1.1 protocol of uvicorn, with a time limit for request heads, and with errors as JSON."""

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from marcir.serve.middleware import SECURITY_HEADERS
from marcir.serve.settings import REQUEST_SECONDS

_HEADERS = [(b"content-type", b"application/json"), (b"connection", b"close"), *SECURITY_HEADERS]


class HttpProtocol(H11Protocol):
    """One connection."""

    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Wait until the head of a request is complete."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timeout is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        body = json.dumps(
            {"error": f"not a request of HTTP/1.1, or its head is too long ({msg.rstrip('.')})."}
        )
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            events = (
                h11.Response(status_code=400, headers=_HEADERS),
                h11.Data(data=body.encode()),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self) -> None:
        self._timeout = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
