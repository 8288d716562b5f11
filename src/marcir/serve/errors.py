"""Every refusal as one sentence in JSON, and nothing of our insides in it."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from marcir.errors import MarcirError, MissingImageError, UnusableStoreError
from marcir.serve.request_log import current_notes
from marcir.serve.schemas import Problem
from marcir.serve.settings import RETRY_SECONDS


class Refusal(Exception):  # noqa: N818  it is an answer
    """A request that is refused.

    Args:
        status: HTTP status.
        text: Where, what was found, what to do.
        headers: More headers.
        reason: What is logged instead of the text, where the client must not see it.
    """

    def __init__(
        self, status: int, text: str, headers: dict[str, str] | None = None, reason: str | None = None
    ) -> None:
        super().__init__(text)
        self.status, self.text, self.headers, self.reason = status, text, headers, reason


def busy(text: str, reason: str | None = None) -> Refusal:
    """A refusal of now, not of ever."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Refusal(503, f"{text} Try again in a moment.", headers, reason)


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


def problem(
    status: int, text: str, headers: dict[str, str] | None = None, reason: str | None = None
) -> JSONResponse:
    """A refusal as a response; its text, or the reason instead, is logged."""
    current_notes().reason = text if reason is None else reason
    return JSONResponse({"error": text}, status, headers)


def bug() -> JSONResponse:
    """The response where the service failed."""
    return problem(500, "something went wrong in the service. The reason is in its log.")


def add_handlers(app: FastAPI) -> None:
    """Turn everything that is raised into refusals."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(MarcirError, _marcir_error)
    app.add_exception_handler(RequestValidationError, _bad_parameter)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)  # raised again by Starlette, and logged by Guard


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # noqa: S101
    return problem(error.status, error.text, error.headers, error.reason)


async def _bug(_: Request, error: Exception) -> JSONResponse:
    return bug()


async def _marcir_error(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, MissingImageError):
        return problem(404, str(error))
    if isinstance(error, UnusableStoreError):
        text = "the store cannot be read now. The reason is in the log of the service."
        return problem(503, text, reason=str(error))
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
