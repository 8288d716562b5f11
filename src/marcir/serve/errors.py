"""Errors as responses: one sentence in JSON, without details of the implementation."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from marcir.errors import (
    DependencyError,
    MarcirError,
    MissingCollectionError,
    MissingImageError,
    UnusableAnnotationsError,
    UnusableStoreError,
)
from marcir.serve.request_log import current_notes
from marcir.serve.schemas import ErrorResponse
from marcir.serve.settings import RETRY_SECONDS

_MEANING = {
    400: "The request cannot be understood, or names a host that is not this machine.",
    401: "The token is missing or wrong.",
    403: "A page of another site sent the request, or the service does not allow changes.",
    404: "There is no such image, or no such collection.",
    408: "The body took too long.",
    409: "The store has changed meanwhile.",
    413: "The body is too large.",
    415: "The body is neither an image nor a form with one, or is not JSON where changes are asked for.",
    422: "A parameter or the image cannot be used; the text says which and why.",
    503: "Too many requests are waiting, or the store cannot be read. Try again.",
}


class RequestError(HTTPException):
    """A request that is refused; `log_text` is logged instead of a text, where the client must not see it."""

    def __init__(
        self, status: int, text: str, headers: dict[str, str] | None = None, log_text: str | None = None
    ) -> None:
        super().__init__(status, text, headers)
        self.log_text = log_text


def unavailable(text: str, log_text: str | None = None) -> RequestError:
    """A temporary refusal (503)."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return RequestError(503, f"{text} Try again in a moment.", headers, log_text)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of an operation, for its OpenAPI description."""
    return {status: {"model": ErrorResponse, "description": _MEANING[status]} for status in statuses}


def error_response(
    status: int, text: str, headers: dict[str, str] | None = None, log_text: str | None = None
) -> JSONResponse:
    """An error as a response; its text, or `log_text` instead, is logged."""
    current_notes().reason = text if log_text is None else log_text
    return JSONResponse(ErrorResponse(error=text).model_dump(), status, headers)


def internal_error(log_text: str | None = None) -> JSONResponse:
    """The response where the service failed (500)."""
    return error_response(
        500, "something went wrong in the service. The reason is in its log.", None, log_text
    )


def add_handlers(app: FastAPI) -> None:
    """Turn everything that is raised into responses."""
    app.add_exception_handler(MarcirError, _marcir_error)
    app.add_exception_handler(RequestValidationError, _invalid_parameter)
    app.add_exception_handler(HTTPException, _http_error)
    # Starlette raises it again, and the security middleware logs it.
    app.add_exception_handler(Exception, _internal_error)


async def _internal_error(_: Request, error: Exception) -> JSONResponse:
    return internal_error()


async def _marcir_error(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, (MissingImageError, MissingCollectionError)):
        return error_response(404, str(error))
    if isinstance(error, UnusableStoreError):
        text = "the store cannot be read now. The reason is in the log of the service."
        return error_response(503, text, log_text=str(error))
    if isinstance(error, UnusableAnnotationsError):
        text = "collections and labels cannot be used now. The reason is in the log of the service."
        return error_response(503, text, log_text=str(error))
    if isinstance(error, DependencyError):
        return internal_error(str(error))
    return error_response(422, str(error))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    status, text, headers = error.status_code, str(error.detail), dict(error.headers or {})
    if isinstance(error, RequestError):
        return error_response(status, text, headers, error.log_text)
    if status == 404:
        text = "there is no such address. /api/openapi.json lists those that there are."
    if status == 405:
        text = f"{request.method} is not for this address. /api/openapi.json says what is."
        # Starlette names the methods of the first route alone.
        methods = request.app.openapi()["paths"].get(request.url.path, {"get": {}})
        headers["Allow"] = ", ".join(sorted(method.upper() for method in methods))
    return error_response(status, text, headers)


async def _invalid_parameter(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    text = str(first["msg"])
    if first["type"] == "sentence":
        return error_response(422, text)
    where, *path = (str(part) for part in first["loc"])
    return error_response(422, f"{path[0] if path else where}: {text[:1].lower()}{text[1:].rstrip('.')}.")
