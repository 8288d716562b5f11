"""HTTP/1.1 as uvicorn speaks it, with a limit on slow requests, and with refusals that look like ours."""

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from marcir.serve.middleware import SECURITY
from marcir.serve.settings import REQUEST_SECONDS

_HEADERS = [(b"content-type", b"application/json"), (b"connection", b"close"), *SECURITY]


class Protocol(H11Protocol):
    """One connection."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on, as long as the head of a request is not whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._slow is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
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

    def _wait(self) -> None:
        self._slow = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
