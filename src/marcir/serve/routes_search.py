"""Addresses that search the archive, and show what it holds."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from marcir.serve.errors import error_responses
from marcir.serve.parameters import (
    FilterParameters,
    NoParameters,
    PageParameters,
    SampleParameters,
    SearchParameters,
)
from marcir.serve.request_log import current_notes
from marcir.serve.schemas import (
    ArchiveResponse,
    EmbedResponse,
    LabelsResponse,
    SampleResponse,
    SearchResponse,
)
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
        }
    }
}


def search_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["search"])
    archive, searchers = service.archive, service.searchers

    @routes.get("/archive", responses=error_responses(422, 503), operation_id="get_archive")
    async def get_archive(_: Annotated[NoParameters, Query()]) -> ArchiveResponse:
        """What the archive holds, and the limits of the service."""
        return await searchers.run(archive.about)

    @routes.get("/labels", responses=error_responses(422, 503), operation_id="count_labels")
    async def count_labels(parameters: Annotated[FilterParameters, Query()]) -> LabelsResponse:
        """Every label, counted among the images that pass a filter."""
        return await searchers.run(archive.labels, parameters)

    @routes.get("/sample", responses=error_responses(422, 503), operation_id="get_sample")
    async def get_sample(parameters: Annotated[SampleParameters, Query()]) -> SampleResponse:
        """Random images, the same for the same seed."""
        return await searchers.run(archive.sample, parameters)

    @routes.get(
        "/search",
        response_model=SearchResponse,
        responses={**_EXPORTS, **error_responses(404, 422, 503)},
        operation_id="search",
    )
    async def search(parameters: Annotated[SearchParameters, Query()]) -> Any:
        """Images like one of the archive, like an uploaded one, like examples, or with labels."""
        notes = current_notes()
        notes.add_parameters(parameters.given)
        return await searchers.run(archive.search, parameters, notes)

    @routes.post(
        "/search",
        response_model=SearchResponse,
        responses={**_EXPORTS, **error_responses(408, 413, 415, 422, 503)},
        operation_id="search_by_upload",
        openapi_extra=_UPLOAD,
    )
    async def search_by_upload(request: Request, parameters: Annotated[PageParameters, Query()]) -> Any:
        """Images like the one that is sent: upload and search in one request."""
        notes = current_notes()
        image = await service.embed_upload(request)
        notes.add_parameters(parameters.given)
        return await searchers.run(archive.search_vector, image.vector, parameters, notes)

    @routes.post(
        "/embed",
        responses=error_responses(408, 413, 415, 422, 503),
        operation_id="embed",
        openapi_extra=_UPLOAD,
    )
    async def embed(request: Request, _: Annotated[NoParameters, Query()]) -> EmbedResponse:
        """The vector of an image that is sent, to search with."""
        return EmbedResponse.model_validate((await service.embed_upload(request)).as_json())

    return routes
