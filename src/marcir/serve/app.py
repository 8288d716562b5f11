"""The service as an ASGI application."""

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from marcir import __version__
from marcir.serve.errors import add_handlers, error_responses
from marcir.serve.middleware import PUBLIC, SecurityMiddleware
from marcir.serve.parameters import check_duplicates
from marcir.serve.request_log import RequestLogMiddleware
from marcir.serve.routes_browse import browse_routes
from marcir.serve.routes_collections import collection_routes
from marcir.serve.routes_images import image_routes
from marcir.serve.routes_labels import label_routes
from marcir.serve.routes_page import page_routes
from marcir.serve.routes_search import search_routes
from marcir.serve.service import Service

_ABOUT = """
Search an archive of remote-sensing images by content. Ids of images are paths and may contain any character;
they are query parameters. Where the service was started with a token, send `Authorization: Bearer TOKEN`.
Every error is `{"error": "..."}` with one sentence.
"""


def create_app(service: Service) -> ASGIApp:
    """The application of a service."""
    app = FastAPI(
        title="marcir",
        version=__version__,
        description=_ABOUT,
        openapi_url="/api/openapi.json",
        docs_url=None,  # it would need files of other hosts
        redoc_url=None,
        lifespan=service.lifespan,
        redirect_slashes=False,
        responses=error_responses(400, 401),
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    add_handlers(app)
    for routes in (
        search_routes(service),
        image_routes(service),
        browse_routes(service),
        collection_routes(service),
        label_routes(service),
    ):
        app.include_router(routes, dependencies=[Depends(check_duplicates)])
    app.include_router(page_routes(service))
    if service.settings.token is not None:
        _describe_token(app)
    secured = SecurityMiddleware(app, service.settings)
    return RequestLogMiddleware(secured, service.settings.token)


def _describe_token(app: FastAPI) -> None:
    """Add the token to the OpenAPI description."""
    schema = app.openapi()  # FastAPI caches it
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in PUBLIC else [{"token": []}]
