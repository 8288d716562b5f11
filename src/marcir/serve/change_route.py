"""An address that changes collections or labels."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from marcir.serve.edit_bodies import described, json_body
from marcir.serve.errors import error_responses
from marcir.serve.parameters import NoParameters
from marcir.serve.request_log import RequestNotes, current_notes
from marcir.serve.service import Service

B = TypeVar("B", bound=BaseModel)
R = TypeVar("R", bound=BaseModel | None)


def add_change(
    routes: APIRouter,
    service: Service,
    path: str,
    body: type[B],
    work: Callable[[B, RequestNotes], R],
    response: type[R] | None,
    name: str,
    status: int = 200,
) -> None:
    """Add an address: a POST with JSON, only where changes are allowed.

    Args:
        routes: What it is added to.
        service: The service.
        path: The address.
        body: What a request says.
        work: Does it, in the thread for changes.
        response: What it returns; None for nothing.
        name: Name of the operation.
        status: Of a success.
    """

    async def change(request: Request, _: Annotated[NoParameters, Query()]) -> Any:
        service.edits.check_editable()
        given = await json_body(request, body)
        return await service.editors.run(work, given, current_notes())

    routes.add_api_route(
        path,
        change,
        methods=["POST"],
        status_code=status,
        response_model=response,
        responses=error_responses(403, 404, 408, 413, 415, 422, 503),
        operation_id=name,
        summary=name.replace("_", " ").capitalize(),
        description=work.__doc__,
        openapi_extra=described(body),
    )
