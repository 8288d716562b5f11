"""Every refusal as one sentence in JSON, and nothing of our insides in it."""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from marcir.errors import MarcirError, MissingImageError, UnusableStoreError
from marcir.serve.answers import Problem
from marcir.serve.settings import RETRY_SECONDS

log = logging.getLogger("marcir.serve")


class Refusal(Exception):  # noqa: N818  it is an answer
    """A request that is refused.

    Args:
        status: HTTP status.
        text: Where, what was found, what to do.
        headers: More headers.
    """

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


def busy(text: str) -> Refusal:
    """A refusal of now, not of ever."""
    return Refusal(503, f"{text} Try again in a moment.", {"Retry-After": str(RETRY_SECONDS)})


def refused(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Refusals of an operation, for its description."""
    return {status: {"model": Problem, "description": _MEANING[status]} for status in statuses}


_MEANING = {
    400: "The request cannot be understood, or names a host that is not this machine.",
    401: "The token is missing or wrong.",
    403: "A page of another site sent the request.",
    404: "There is no such image.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is neither an image nor a form with one.",
    422: "A parameter or the image cannot be used; the text says which and why.",
    503: "Too many requests are waiting, or the store cannot be read. Try again.",
}


def problem(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal as a response."""
    return JSONResponse({"error": text}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """Turn everything that is raised into refusals."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(MarcirError, _marcir_error)
    app.add_exception_handler(RequestValidationError, _bad_parameter)
    app.add_exception_handler(HTTPException, _http_error)


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # noqa: S101
    return problem(error.status, error.text, error.headers)


async def _marcir_error(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, MissingImageError):
        return problem(404, str(error))
    if isinstance(error, UnusableStoreError):
        log.error("%s", error)
        return problem(503, "the store cannot be read now. Its keeper finds the reason in the service's log.")
    return problem(422, str(error))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    text = {
        404: "there is no such address. /api/openapi.json lists those that there are.",
        405: f"{request.method} is not for this address. /api/openapi.json says what is.",
    }
    headers = dict(error.headers or {})
    if error.status_code == 405:  # Starlette names the methods of the first route alone
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return problem(error.status_code, text.get(error.status_code, str(error.detail)), headers)


def _methods(request: Request) -> set[str]:
    paths = request.app.openapi()["paths"].get(request.url.path, {})
    return {method.upper() for method in paths} or {"GET"}


async def _bad_parameter(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    text = str(first["msg"])
    if first["type"] == "sentence":
        return problem(422, text)
    where, *path = (str(part) for part in first["loc"])
    return problem(422, f"{path[0] if path else where}: {text[:1].lower()}{text[1:].rstrip('.')}.")
