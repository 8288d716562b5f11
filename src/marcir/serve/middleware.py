"""Access checks before every request, and security headers on every response."""

import hashlib
import hmac
import time

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marcir.serve.basemap import Basemap
from marcir.serve.errors import RequestError, error_response, internal_error
from marcir.serve.request_log import current_notes, log
from marcir.serve.settings import SESSION_SECONDS, Settings, is_loopback

COOKIE = "marcir_session"
# Addresses without data of the archive: they need no token.
PUBLIC = ("/", "/health", "/api/openapi.json", "/api/session")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def security_headers(basemap: Basemap | None = None) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of every response; pages may ask the service, and the tiles of a base map, for content."""
    tiles = "" if basemap is None else f" {basemap.origin}"
    pictures = "" if basemap is None or basemap.image_origin is None else f" {basemap.image_origin}"
    policy = (
        f"default-src 'none'; img-src 'self' data: blob:{pictures}; style-src 'self'; script-src 'self'; "
        f"connect-src 'self'{tiles}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )


class Sessions:
    """Checks tokens and signed cookies, which are not stored: replicas with one token accept each other's."""

    def __init__(self, token: str) -> None:
        self._token = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"marcir session", "sha256")

    def is_token(self, given: str) -> bool:
        """Whether it is the token; takes equally long for every other text."""
        return hmac.compare_digest(hashlib.sha256(given.encode("utf-8", "replace")).digest(), self._token)

    def cookie(self) -> str:
        """A new cookie, from which the token cannot be derived."""
        until = str(int(time.time()) + SESSION_SECONDS)
        return f"{until}.{self._sign(until)}"

    def is_cookie(self, given: str) -> bool:
        """Whether it is a cookie of this service that is still valid."""
        until, _, signature = given.partition(".")
        signed = hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(until).encode())
        return signed and int(until) > time.time()

    def _sign(self, until: str) -> str:
        return hmac.digest(self._key, until.encode("utf-8", "replace"), "sha256").hex()


class SecurityMiddleware:
    """Checks host, origin and token, adds headers, and hides the details of internal errors.

    Starlette's TrustedHostMiddleware knows neither all loopback addresses (127.0.0.0/8) nor JSON errors.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._headers = security_headers(settings.basemap)
        self._sessions = None if settings.token is None else Sessions(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, notes, started = time.perf_counter(), current_notes(), False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = [*message["headers"], *self._headers]
                headers.append((b"server-timing", notes.server_timing(time.perf_counter() - start)))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        try:
            answer = self._refuse(scope) or self._app
            await answer(scope, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                await internal_error()(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_site(scope, headers)
            self._check_token(scope, headers)
        except RequestError as error:
            return error_response(error.status_code, error.detail, dict(error.headers or {}))
        return None

    def _check_host(self, headers: Headers) -> None:
        """A web site whose name leads to this machine (DNS rebinding) must not read the archive."""
        if not self._settings.loopback_names_only:
            return
        name = headers.get("host", "")
        host = name[: name.index("]") + 1] if name.startswith("[") and "]" in name else name.split(":")[0]
        if not is_loopback(host):
            raise RequestError(
                400,
                "Host: names another machine than this one. Ask for localhost; or start marcir serve with "
                "--token, or with --no-auth behind a proxy that authenticates its users.",
            )

    def _check_site(self, scope: Scope, headers: Headers) -> None:
        """Pages of other sites must not cause work or changes."""
        if scope["method"] in _SAFE_METHODS:
            return
        site = headers.get("sec-fetch-site")
        if site in ("cross-site", "same-site"):
            raise RequestError(
                403, "Sec-Fetch-Site: a page of another site sent this request. Use the service's own."
            )
        origin, host = headers.get("origin"), headers.get("host", "").lower()
        # Browsers leave the site out where neither TLS nor a loopback address protects the connection.
        if site is None and origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RequestError(
                403,
                "Origin: another site than Host sent this request. Use the service's own page; a proxy must "
                "pass the Host of the browser on.",
            )

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if self._sessions is None or path in PUBLIC or path.startswith("/page/"):
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._sessions.is_token(token.strip()):
            return
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if cookie is None or not self._sessions.is_cookie(cookie):
            raise RequestError(
                401,
                "Authorization: the token is missing or wrong. Send 'Authorization: Bearer TOKEN'.",
                {"WWW-Authenticate": "Bearer"},
            )
