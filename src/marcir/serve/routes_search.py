"""Addresses that search the archive, and show what it holds."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from marcir.serve import parameters, schemas
from marcir.serve.errors import error_responses
from marcir.serve.request_log import current_notes
from marcir.serve.service import Service

_BINARY = {"schema": {"type": "string", "format": "binary"}}
# The body of an operation that takes an image. FastAPI would write a large one to the disk.
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of an image, or a form with one file.",
        "content": {
            "application/octet-stream": _BINARY,
            "image/*": _BINARY,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"image": _BINARY["schema"]},
                    "required": ["image"],
                }
            },
        },
    }
}
_EXPORTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/geo+json": {"schema": {"type": "object"}},
            "application/vnd.apache.parquet": _BINARY,
        }
    }
}


def search_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["search"])
    archive, searchers = service.archive, service.searchers

    @routes.get("/archive", responses=error_responses(422, 503), operation_id="get_archive")
    async def get_archive(_: Annotated[parameters.NoParameters, Query()]) -> schemas.ArchiveResponse:
        """What the archive holds, and the limits of the service."""
        return await searchers.run(archive.about)

    @routes.get("/labels", responses=error_responses(404, 422, 503), operation_id="count_labels")
    async def count_labels(given: Annotated[parameters.FilterParameters, Query()]) -> schemas.LabelsResponse:
        """Every label, counted among the images that pass a filter."""
        return await searchers.run(archive.labels, given)

    @routes.get("/sample", responses=error_responses(404, 422, 503), operation_id="get_sample")
    async def get_sample(given: Annotated[parameters.SampleParameters, Query()]) -> schemas.SampleResponse:
        """Random images, the same for the same seed."""
        return await searchers.run(archive.sample, given)

    @routes.get(
        "/search",
        response_model=schemas.SearchResponse,
        responses={**_EXPORTS, **error_responses(404, 422, 503)},
        operation_id="search",
    )
    async def search(given: Annotated[parameters.SearchParameters, Query()]) -> Any:
        """Images like one of the archive, like an uploaded one, like examples, or with labels."""
        notes = current_notes()
        notes.add_parameters(given.non_defaults)
        return await searchers.run(archive.search, given, notes)

    @routes.post(
        "/search",
        response_model=schemas.SearchResponse,
        responses={**_EXPORTS, **error_responses(404, 408, 413, 415, 422, 503)},
        operation_id="search_by_upload",
        openapi_extra=_UPLOAD,
    )
    async def search_by_upload(request: Request, given: Annotated[parameters.PageParameters, Query()]) -> Any:
        """Images like the one that is sent: upload and search in one request."""
        notes = current_notes()
        vector, _ = await service.embed_upload(request)
        notes.add_parameters(given.non_defaults)
        return await searchers.run(archive.search_vector, vector, given, notes)

    @routes.post(
        "/embed",
        responses=error_responses(408, 413, 415, 422, 503),
        operation_id="embed",
        openapi_extra=_UPLOAD,
    )
    async def embed(
        request: Request, _: Annotated[parameters.NoParameters, Query()]
    ) -> schemas.EmbedResponse:
        """The vector of an image that is sent, to search with."""
        return (await service.embed_upload(request))[1]

    return routes
