"""Addresses that list images, suggest labels, and draw the map of the archive."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from marcir.serve import browse_parameters as parameters
from marcir.serve import browse_schemas as schemas
from marcir.serve.errors import error_responses
from marcir.serve.map_points import MapPoints
from marcir.serve.service import Service
from marcir.serve.suggestions import Suggestions

_POINTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "x, y (float32), row and label bits (uint32) of all points, little-endian.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def browse_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["browse"])
    archive, searchers, suggesters = service.archive, service.searchers, service.suggesters
    suggestions, points = Suggestions(archive, service.statements), MapPoints(archive)

    @routes.get("/images", responses=error_responses(404, 422, 503), operation_id="list_images")
    async def list_images(given: Annotated[parameters.ListParameters, Query()]) -> schemas.ListResponse:
        """All images that pass a filter, in the order of their ids or dates."""
        return await searchers.run(archive.images, given)

    @routes.get("/suggestions", responses=error_responses(404, 422, 503), operation_id="suggest")
    async def suggest(
        given: Annotated[parameters.SuggestionParameters, Query()],
    ) -> schemas.SuggestionsResponse:
        """Images that may have a label, learned from those that are known to have it or not."""
        return await suggesters.run(suggestions.page, given)

    @routes.get("/suggestions/ids", responses=error_responses(404, 422, 503), operation_id="suggest_ids")
    async def suggest_ids(
        given: Annotated[parameters.ThresholdParameters, Query()],
    ) -> schemas.SuggestedIdsResponse:
        """Ids of images that probably have a label, the most probable first: at most 100,000."""
        return await suggesters.run(suggestions.ids, given)

    @routes.get("/suggestions/scores", responses=error_responses(422, 503), operation_id="score_suggestions")
    async def score_suggestions(
        given: Annotated[parameters.ScoreParameters, Query()],
    ) -> schemas.ScoresResponse:
        """How well labels can be suggested: cross-validated average precision, and its curve."""
        # One by one, so that suggestions need not wait for all of them.
        return schemas.ScoresResponse(
            scores=[await suggesters.run(suggestions.score, label) for label in dict.fromkeys(given.label)]
        )

    @routes.get(
        "/map",
        response_class=Response,
        responses={**_POINTS, **error_responses(404, 422, 503)},
        operation_id="get_map",
    )
    async def get_map(given: Annotated[parameters.MapParameters, Query()]) -> Response:
        """The map of the images that pass a filter: at most 200,000 points, of more a random part."""
        return await searchers.run(points.points, given)

    @routes.get("/map/ids", responses=error_responses(409, 422, 503), operation_id="get_map_ids")
    async def get_map_ids(given: Annotated[parameters.MapIdsParameters, Query()]) -> schemas.MapIdsResponse:
        """Ids of the images of some points."""
        return await searchers.run(points.ids, given)

    return routes
