"""The page and its files, the session of a browser, and the health check."""

import mimetypes
import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from marcir.serve.errors import RequestError, error_responses
from marcir.serve.middleware import COOKIE, Sessions
from marcir.serve.parameters import NoParameters
from marcir.serve.schemas import HealthResponse, SessionRequest
from marcir.serve.service import Service
from marcir.serve.settings import SESSION_SECONDS
from marcir.serve.uploads import small_body

PAGE = Path(__file__).parent / "page"
for suffix in (".js", ".mjs"):  # whatever the system has registered: browsers do not guess here
    mimetypes.add_type("text/javascript", suffix)
# The body is read with limits: FastAPI would wait for one without end, from any client.
_SESSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SessionRequest.model_json_schema()}},
    }
}


def page_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter()
    token = service.settings.token
    sessions = None if token is None else Sessions(token)
    files = PageFiles(directory=PAGE)

    @routes.get("/health", responses=error_responses(422, 503), operation_id="get_health", tags=["service"])
    async def get_health(_: Annotated[NoParameters, Query()]) -> HealthResponse:
        """That the service answers and its store can be read; needs no token."""
        return await service.searchers.run(service.archive.health)

    @routes.post(
        "/api/session",
        status_code=204,
        responses=error_responses(401, 408, 413, 422),
        operation_id="begin_session",
        tags=["service"],
        openapi_extra=_SESSION,
    )
    async def begin_session(request: Request) -> Response:
        """Exchange the token for a cookie, so that the images of a browser need no header."""
        given = session_request(request, await small_body(request))
        response = Response(status_code=204)
        if sessions is None:
            return response
        if not sessions.is_token(given.token):
            raise RequestError(401, "token: not the one that the service was started with.")
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
        """Remove the cookie of the browser."""
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    @routes.get("/", include_in_schema=False)
    async def get_page(request: Request) -> Response:
        """The page."""
        return await files.get_response("index.html", request.scope)

    @routes.get("/page/{name:path}", include_in_schema=False)
    async def get_page_file(request: Request, name: str) -> Response:
        """A file of the page."""
        return await files.get_response(name, request.scope)

    return routes


def session_request(request: Request, body: bytes) -> SessionRequest:
    """The token in a body that was received."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return SessionRequest.model_validate_json(body if media_type == "application/json" else b"")
    except ValidationError:
        text = 'the body must be JSON with the token alone: {"token": "..."}.'
        raise RequestError(422, text) from None


class PageFiles(StaticFiles):
    """The files of the page; browsers check at every use whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file by its name."""
        try:
            return await super().get_response(path, scope)
        except HTTPException:
            raise RequestError(404, "there is no such file of the page.") from None

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file that must be checked before it is used again."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response
