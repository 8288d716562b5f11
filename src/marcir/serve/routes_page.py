"""The page, its files, the session of a browser, and whether the service is well."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from marcir.serve.errors import Refusal, refused
from marcir.serve.parameters import NoParameters
from marcir.serve.responses import json_reply
from marcir.serve.routes_images import unchanged
from marcir.serve.schemas import Credentials, Health
from marcir.serve.service import Service
from marcir.serve.sessions import COOKIE, Sessions
from marcir.serve.settings import SESSION_SECONDS
from marcir.serve.uploads import small_body

PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
# Read by ourselves: FastAPI would wait for a body without end, from anybody.
_SESSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Credentials.model_json_schema()}},
    }
}


def page_routes(service: Service) -> APIRouter:
    """Routes of a service."""
    routes = APIRouter()
    token = service.settings.token
    sessions = None if token is None else Sessions(token)

    @routes.get(
        "/health",
        response_model=Health,
        responses=refused(422, 503),
        operation_id="get_health",
        tags=["service"],
    )
    async def get_health(_: Annotated[NoParameters, Query()]) -> Response:
        """That the service answers and its store can be read; needs no token."""
        return await service.searchers.run(lambda: json_reply(service.archive.health()))

    @routes.post(
        "/api/session",
        status_code=204,
        responses=refused(401, 408, 413, 422),
        operation_id="begin_session",
        tags=["service"],
        openapi_extra=_SESSION,
    )
    async def begin_session(request: Request) -> Response:
        """Give the token once for a cookie, so that a browser's pictures need no header."""
        given = credentials(request, await small_body(request))
        response = Response(status_code=204)
        if sessions is None:
            return response
        if not sessions.is_token(given.token):
            raise Refusal(401, "token: not the one that the service was started with.")
        response.set_cookie(
            COOKIE,
            sessions.cookie(),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @routes.delete("/api/session", status_code=204, operation_id="end_session", tags=["service"])
    async def end_session() -> Response:
        """Let the browser forget its cookie."""
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    @routes.get("/", include_in_schema=False)
    async def get_page(request: Request) -> Response:
        """The page."""
        return page_file(request, "index.html")

    @routes.get("/page/{name}", include_in_schema=False)
    async def get_page_file(request: Request, name: str) -> Response:
        """A file of the page."""
        return page_file(request, name)

    return routes


def credentials(request: Request, body: bytes) -> Credentials:
    """The token in a body that was received."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return Credentials.model_validate_json(body if kind == "application/json" else b"")
    except ValidationError:
        text = 'the body must be JSON with the token alone: {"token": "..."}.'
        raise Refusal(422, text) from None


def page_file(request: Request, name: str) -> Response:
    """A file of the page, by its name."""
    if name not in {path.name for path in PAGE.glob("*") if path.suffix in _TYPES and path.is_file()}:
        raise Refusal(404, "there is no such file of the page.")
    content = (PAGE / name).read_bytes()
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    known = unchanged(request, tag, headers)
    return known or Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)
