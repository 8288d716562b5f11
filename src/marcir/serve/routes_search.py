"""Addresses that search the archive, and say what it holds."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from marcir.serve.errors import refused
from marcir.serve.exports import as_csv, as_geojson
from marcir.serve.parameters import NoParameters, PageParameters, SampleParameters, SearchParameters, Where
from marcir.serve.request_log import RequestNotes, current_notes
from marcir.serve.responses import UPLOAD, json_reply, reply
from marcir.serve.schemas import Answer, Archive, Embedded, Labels, Sample
from marcir.serve.service import Service
from marcir.serve.timing import current_times

_TABLES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/geo+json": {"schema": {"type": "object"}},
        }
    }
}


def search_routes(service: Service) -> APIRouter:
    """Routes of a service."""
    routes = APIRouter(prefix="/api", tags=["search"])
    archive, searchers = service.archive, service.searchers

    @routes.get("/archive", response_model=Archive, responses=refused(422, 503), operation_id="get_archive")
    async def get_archive(_: Annotated[NoParameters, Query()]) -> Response:
        """What the archive holds, and the limits of the service."""
        return await searchers.run(lambda: json_reply(archive.about()))

    @routes.get("/labels", response_model=Labels, responses=refused(422, 503), operation_id="count_labels")
    async def count_labels(asked: Annotated[Where, Query()]) -> Response:
        """Every label, counted among the images that a filter lets through."""
        return await searchers.run(lambda: json_reply(archive.labels(asked)))

    @routes.get("/sample", response_model=Sample, responses=refused(422, 503), operation_id="get_sample")
    async def get_sample(asked: Annotated[SampleParameters, Query()]) -> Response:
        """Some images at random, the same for the same seed."""
        return await searchers.run(lambda: json_reply(archive.sample(asked)))

    @routes.get(
        "/search",
        response_model=Answer,
        responses={**_TABLES, **refused(404, 422, 503)},
        operation_id="search",
    )
    async def search(asked: Annotated[SearchParameters, Query()]) -> Response:
        """Images like one of the archive, like an uploaded one, like examples, or with labels."""
        times, notes = current_times(), current_notes()
        notes.add_question(asked.given)
        return await searchers.run(lambda: page(archive.search(asked, times), asked, notes))

    @routes.post(
        "/search",
        response_model=Answer,
        responses={**_TABLES, **refused(408, 413, 415, 422, 503)},
        operation_id="search_by_upload",
        openapi_extra=UPLOAD,
    )
    async def search_by_upload(request: Request, asked: Annotated[PageParameters, Query()]) -> Response:
        """Images like the one that is sent: upload and search in one request."""
        times, notes = current_times(), current_notes()
        found = await service.embedded(request)
        notes.add_question(asked.given)
        return await searchers.run(
            lambda: page(archive.search_vector(found.vector, asked, times), asked, notes)
        )

    @routes.post(
        "/embed",
        response_model=Embedded,
        responses=refused(408, 413, 415, 422, 503),
        operation_id="embed",
        openapi_extra=UPLOAD,
    )
    async def embed(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        """The vector of an image that is sent, to search with."""
        return json_reply((await service.embedded(request)).as_json())

    return routes


def page(answer: dict[str, Any], asked: PageParameters, notes: RequestNotes) -> Response:
    """A page of hits in the format that was asked for; their number is noted for the log."""
    notes.hits = len(answer["hits"])
    if asked.format == "json":
        return json_reply(answer)
    if asked.format == "csv":
        return reply(as_csv(answer["hits"]), "text/csv; charset=utf-8", "marcir-search.csv")
    return reply(as_geojson(answer["hits"]), "application/geo+json", "marcir-search.geojson")
