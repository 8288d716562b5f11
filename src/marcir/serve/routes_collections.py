"""Addresses of collections."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from marcir.serve import annotation_schemas as schemas
from marcir.serve import edit_bodies as bodies
from marcir.serve import parameters
from marcir.serve.change_route import add_change
from marcir.serve.errors import error_responses
from marcir.serve.service import Service

_EXPORTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The whole collection.",
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/geo+json": {"schema": {"type": "object"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    }
}


def collection_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["collections"])
    edits, searchers = service.edits, service.searchers

    @routes.get("/collections", responses=error_responses(422, 503), operation_id="list_collections")
    async def list_collections(
        _: Annotated[parameters.NoParameters, Query()],
    ) -> schemas.CollectionsResponse:
        """All collections, by name."""
        return await searchers.run(edits.collections)

    @routes.get("/collection", responses=error_responses(404, 422, 503), operation_id="get_collection")
    async def get_collection(
        given: Annotated[parameters.MembersParameters, Query()],
    ) -> schemas.MembersResponse:
        """Images of a collection, in the order in which they were added."""
        return await searchers.run(edits.members, given)

    @routes.get(
        "/collection/export",
        response_class=Response,
        responses={**_EXPORTS, **error_responses(404, 422, 503)},
        operation_id="export_collection",
    )
    async def export_collection(
        given: Annotated[parameters.CollectionExportParameters, Query()],
    ) -> Response:
        """A whole collection as CSV, GeoJSON or a list of paths, as an attachment."""
        return await searchers.run(edits.export, given.name, given.format)

    changed = schemas.ChangedCollectionResponse
    add_change(
        routes,
        service,
        "/collections",
        bodies.CreateCollection,
        edits.create,
        changed,
        "create_collection",
        status=201,
    )
    add_change(
        routes,
        service,
        "/collections/rename",
        bodies.RenameCollection,
        edits.rename,
        changed,
        "rename_collection",
    )
    add_change(
        routes,
        service,
        "/collections/add",
        bodies.ChangeCollection,
        edits.add,
        changed,
        "add_to_collection",
    )
    add_change(
        routes,
        service,
        "/collections/remove",
        bodies.ChangeCollection,
        edits.remove,
        schemas.RemovedImagesResponse,
        "remove_from_collection",
    )
    add_change(
        routes,
        service,
        "/collections/delete",
        bodies.DeleteCollection,
        edits.delete,
        None,
        "delete_collection",
        status=204,
    )
    return routes
