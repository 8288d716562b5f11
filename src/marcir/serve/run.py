"""Start the service, and stop it cleanly."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM

from marcir.errors import ConfigError, needs
from marcir.files import reason
from marcir.serve.settings import STOP_SECONDS, Settings

with needs("serve"):
    import uvicorn

    from marcir.serve.request_log import LineFormatter


def serve(settings: Settings) -> None:
    """Answer requests until the process is asked to stop; running requests are finished.

    Raises:
        ConfigError: For an address that cannot be listened at.
        StoreError: Where the store cannot be opened.
    """
    listening = _listen(settings)
    with listening:
        from marcir.serve.app import create_app
        from marcir.serve.protocol import HttpProtocol
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
