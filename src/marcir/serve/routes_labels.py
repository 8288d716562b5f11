"""Addresses that give labels to images, and show what was given."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from marcir.serve import annotation_schemas as schemas
from marcir.serve import edit_bodies as bodies
from marcir.serve import parameters
from marcir.serve.change_route import add_change
from marcir.serve.errors import error_responses
from marcir.serve.service import Service

_TABLE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The label table.", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


def label_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["labels"])
    edits, searchers = service.edits, service.searchers

    add_change(
        routes, service, "/labels", bodies.SetLabels, edits.set_labels, schemas.EditResponse, "set_labels"
    )
    add_change(
        routes, service, "/labels/undo", bodies.UndoLabels, edits.undo, schemas.UndoResponse, "undo_labels"
    )

    @routes.get("/labels/history", responses=error_responses(404, 422, 503), operation_id="get_history")
    async def get_history(given: Annotated[parameters.ImageParameters, Query()]) -> schemas.HistoryResponse:
        """Every change of the labels of an image, with its time and author."""
        return await searchers.run(edits.history, given.id)

    @routes.get(
        "/labels/export",
        response_class=Response,
        responses={**_TABLE, **error_responses(422, 503)},
        operation_id="export_labels",
    )
    async def export_labels(_: Annotated[parameters.NoParameters, Query()]) -> Response:
        """The labels of the archive's table and of the page as one label table, as an attachment."""
        return await searchers.run(edits.export_labels)

    @routes.get("/retrain", responses=error_responses(403, 422, 503), operation_id="get_retrain")
    async def get_retrain(_: Annotated[parameters.NoParameters, Query()]) -> schemas.RetrainResponse:
        """The commands that train a model on these labels, index with it, and compare it."""
        edits.check_editable()
        return await searchers.run(edits.retrain)

    return routes
