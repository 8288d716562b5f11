"""What stands before every request, and what goes with every response."""

import time

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marcir.serve.errors import Refusal, bug, problem
from marcir.serve.request_log import log
from marcir.serve.sessions import COOKIE, Sessions
from marcir.serve.settings import Settings, is_loopback
from marcir.serve.timing import header, start_times

SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'none'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# What anybody may see: no data of the archive.
_OPEN = ("/", "/health", "/api/openapi.json", "/api/session")
_READING = ("GET", "HEAD", "OPTIONS")


class Guard:
    """Asks for the token, refuses foreign host names, adds headers, and hides what went wrong inside.

    Args:
        app: What answers.
        settings: How the service was started.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._sessions = None if settings.token is None else Sessions(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, times, started = time.perf_counter(), start_times(), False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                took = (b"server-timing", header(times, time.perf_counter() - start))
                message["headers"] = [*message["headers"], *SECURITY, took]
            await send(message)

        refusal = self._refusal(scope)
        try:
            if refusal is not None:
                await refusal(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                await bug()(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_site(scope, headers)
            self._check_token(scope, headers)
        except Refusal as refusal:
            return problem(refusal.status, refusal.text, refusal.headers)
        return None

    def _check_host(self, headers: Headers) -> None:
        """A web site whose name leads to this machine (DNS rebinding) must not read the archive."""
        if not self._settings.loopback_names_only:
            return
        name = headers.get("host", "")
        host = name[: name.index("]") + 1] if name.startswith("[") and "]" in name else name.split(":")[0]
        if not is_loopback(host):
            raise Refusal(
                400,
                "Host: names another machine than this one. Ask for localhost; or start marcir serve with "
                "--token, or with --no-auth behind a proxy that asks who they are.",
            )

    def _check_site(self, scope: Scope, headers: Headers) -> None:
        """Pages of other sites may not make us work."""
        if scope["method"] not in _READING and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise Refusal(
                403, "Sec-Fetch-Site: a page of another site sent this request. Use the service's own."
            )

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if self._sessions is None or path in _OPEN or path.startswith("/page/"):
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._sessions.is_token(token.strip()):
            return
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if cookie is None or not self._sessions.is_cookie(cookie):
            raise Refusal(
                401,
                "Authorization: the token is missing or wrong. Send 'Authorization: Bearer TOKEN'.",
                {"WWW-Authenticate": "Bearer"},
            )
