"""Start the service, and stop it cleanly."""

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM

from marcir.errors import ConfigError, needs
from marcir.files import reason
from marcir.serve.settings import REQUEST_SECONDS, STOP_SECONDS, Settings

with needs("serve"):
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from marcir.serve.middleware import security_headers
    from marcir.serve.request_log import LineFormatter

_ERROR_HEADERS = [(b"content-type", b"application/json"), (b"connection", b"close"), *security_headers()]


def serve(settings: Settings) -> None:
    """Answer requests until the process is asked to stop; running requests are finished.

    Raises:
        ConfigError: For an address that cannot be listened at.
        StoreError: Where the store cannot be opened.
    """
    listening = _listen(settings)
    with listening:
        from marcir.serve.app import create_app
        from marcir.serve.service import Service

        service = Service(settings)
        images = service.archive.store.count()
        if (warning := service.files_warning()) is not None:
            print(warning, file=sys.stderr, flush=True)
        config = uvicorn.Config(
            create_app(service),
            http=HttpProtocol,
            ws="none",
            log_config=_logging(settings.token),
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
        )
        banner = f"{_address(settings, listening)}  {images:,} images of {settings.store}"
        _Server(config, banner).run([listening])


class HttpProtocol(H11Protocol):
    """One connection, with a time limit for the heads of requests, and with errors as JSON."""

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
                h11.Response(status_code=400, headers=_ERROR_HEADERS),
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


class _Server(uvicorn.Server):
    """A server that prints its address when it is ready, and exits with 0 when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, banner: str) -> None:
        super().__init__(config)
        self._banner = banner

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._banner, flush=True)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for signal in (SIGINT, SIGTERM):
            loop.add_signal_handler(signal, self.handle_exit, signal, None)
        yield


def _listen(settings: Settings) -> socket.socket:
    """A socket at the address; bound before anything is loaded, so that errors are reported at once."""
    where = f"--host {settings.host} --port {settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{where}: no such address ({reason(error)}). Choose another --host.") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(f"{where}: cannot be used ({reason(error)}). Choose another --port.") from None
    return listening


def _address(settings: Settings, listening: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}"


def _logging(token: str | None) -> dict[str, object]:
    """Everything goes to the standard error; `RequestLogMiddleware` replaces the access log of uvicorn."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": LineFormatter, "token": token}},
        "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {
            "uvicorn.error": {"handlers": ["err"], "level": "WARNING", "propagate": False},
            "marcir.serve": {"handlers": ["err"], "level": "INFO", "propagate": False},
        },
    }
