"""Addresses of single images: description, thumbnail, file."""

import hashlib
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from marcir.errors import DataError, MissingImageError
from marcir.serve.errors import error_responses, unavailable
from marcir.serve.image_files import OpenFile, as_png, attachment
from marcir.serve.parameters import ImageParameters, OriginalParameters, WindowParameters
from marcir.serve.schemas import ImageResponse
from marcir.serve.service import Service

if TYPE_CHECKING:
    from marcir.serve.scenes import ServedScenes

_CACHED = "private, max-age=600"


def _pictures(*kinds: str) -> dict[int | str, dict[str, Any]]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
    unchanged = {"description": "Not modified: it still has the given ETag."}
    return {200: {"description": "The picture.", "content": content}, 304: unchanged}


def image_routes(service: Service) -> APIRouter:
    """The routes of a service."""
    routes = APIRouter(prefix="/api", tags=["images"])
    store, readers = service.archive.store, service.readers

    @routes.get("/image", responses=error_responses(404, 422, 503), operation_id="get_image")
    async def get_image(parameters: Annotated[ImageParameters, Query()]) -> ImageResponse:
        """What is known of an image."""
        return await service.searchers.run(service.archive.image, parameters.id)

    @routes.get(
        "/thumbnail",
        response_class=Response,
        responses={**_pictures("image/jpeg"), **error_responses(404, 422, 503)},
        operation_id="get_thumbnail",
    )
    async def get_thumbnail(request: Request, parameters: Annotated[ImageParameters, Query()]) -> Response:
        """A JPEG of at most 256 pixels."""
        content = await readers.run(store.thumbnail, parameters.id)
        if not content.startswith(b"\xff\xd8"):
            raise MissingImageError(f"'{parameters.id}' has no thumbnail.")
        tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
        return not_modified(request, tag) or Response(
            content, media_type="image/jpeg", headers=cache_headers(tag)
        )

    @routes.get(
        "/original",
        response_class=Response,
        responses={
            **_pictures("image/jpeg", "image/png", "image/webp", "image/gif", "application/octet-stream"),
            **error_responses(404, 422, 503),
        },
        operation_id="get_original",
    )
    async def get_original(request: Request, parameters: Annotated[OriginalParameters, Query()]) -> Response:
        """The file of an image, or a PNG of it where no browser would show the file."""
        file = await readers.run(open_original, parameters.id)
        try:
            tag = f'"{file.tag}"'
            if (unchanged := not_modified(request, tag)) is not None:
                file.close()
                return unchanged
            if parameters.download:
                headers = {**cache_headers(tag), "Content-Disposition": attachment(parameters.id)}
                return OpenFileResponse(file, "application/octet-stream", headers)
            if file.media_type != "image/tiff":
                return OpenFileResponse(file, file.media_type, cache_headers(tag))
            return Response(
                await service.converters.run(as_png, file, parameters.id),
                media_type="image/png",
                headers=cache_headers(tag),
            )
        except BaseException:
            file.close()
            raise

    @routes.get(
        "/window",
        response_class=Response,
        responses={**_pictures("image/png"), **error_responses(404, 422, 503)},
        operation_id="get_window",
    )
    async def get_window(request: Request, parameters: Annotated[WindowParameters, Query()]) -> Response:
        """A PNG of a window of a scene, with its surroundings, in any of the scene's bands."""
        scenes = await readers.run(scenes_of, parameters.id)
        shown = await readers.run(scenes.find, parameters.id, parameters.bands, parameters.around)
        tag = f'"{shown.tag}"'
        return not_modified(request, tag) or Response(
            await service.converters.run(scenes.picture, shown),
            media_type="image/png",
            headers=cache_headers(tag),
        )

    @routes.get(
        "/scene",
        response_class=Response,
        responses={**_pictures("application/octet-stream"), **error_responses(404, 422, 503)},
        operation_id="get_scene",
    )
    async def get_scene(request: Request, parameters: Annotated[ImageParameters, Query()]) -> Response:
        """The file of the scene that a window was cut from, as an attachment."""
        scenes = await readers.run(scenes_of, parameters.id)
        file = await readers.run(scenes.open, parameters.id)
        tag = f'"{file.tag}"'
        if (unchanged := not_modified(request, tag)) is not None:
            file.close()
            return unchanged
        name = attachment(parameters.id.rpartition("@")[0])
        return OpenFileResponse(
            file, "application/octet-stream", {**cache_headers(tag), "Content-Disposition": name}
        )

    def scenes_of(image: str) -> "ServedScenes":
        store.describe([image])  # only ids of the store
        if service.scenes is None:
            raise MissingImageError("the service was started without --scenes and shows no windows.")
        return service.scenes

    def open_original(image: str) -> OpenFile:
        store.describe([image])  # only ids of the store
        if service.originals is None:
            raise MissingImageError("the service was started without --images and shows no files.")
        try:
            return service.originals.open(image)
        except DataError as error:
            text = "the file cannot be read from object storage now. The reason is in the log of the service."
            raise unavailable(text, log_text=str(error)) from None

    return routes


def cache_headers(tag: str) -> dict[str, str]:
    """Headers of what a browser may cache."""
    return {"ETag": tag, "Cache-Control": _CACHED}


def not_modified(request: Request, tag: str) -> Response | None:
    """The response for a browser that has it already."""
    given = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return Response(status_code=304, headers=cache_headers(tag)) if tag in given else None


class OpenFileResponse(StreamingResponse):
    """A file that was opened safely; closed also where the client disconnects.

    Starlette's FileResponse opens a path, and would follow a link that was put there meanwhile.
    """

    def __init__(self, file: OpenFile, media_type: str, headers: dict[str, str]) -> None:
        length = {"Content-Length": str(file.size)}
        super().__init__(file.chunks(), media_type=media_type, headers={**headers, **length})
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
