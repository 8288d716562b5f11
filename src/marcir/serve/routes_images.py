"""Addresses of single images: what is known of them, thumbnails, files."""

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from marcir.errors import MissingImageError
from marcir.serve.errors import refused
from marcir.serve.image_files import OpenFile, as_png, attachment
from marcir.serve.parameters import ImageParameters, OriginalParameters
from marcir.serve.responses import json_reply
from marcir.serve.schemas import Image
from marcir.serve.service import Service

_KEPT = "private, max-age=600"


def _pictures(*kinds: str) -> dict[int | str, dict[str, Any]]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
    unchanged = {"description": "As it was when it had the given ETag."}
    return {200: {"description": "The picture.", "content": content}, 304: unchanged}


def image_routes(service: Service) -> APIRouter:
    """Routes of a service."""
    routes = APIRouter(prefix="/api", tags=["images"])
    store, readers = service.archive.store, service.readers

    @routes.get("/image", response_model=Image, responses=refused(404, 422, 503), operation_id="get_image")
    async def get_image(asked: Annotated[ImageParameters, Query()]) -> Response:
        """What is known of an image."""
        return await service.searchers.run(lambda: json_reply(service.archive.image(asked.id)))

    @routes.get(
        "/thumbnail",
        response_class=Response,
        responses={**_pictures("image/jpeg"), **refused(404, 422, 503)},
        operation_id="get_thumbnail",
    )
    async def get_thumbnail(request: Request, asked: Annotated[ImageParameters, Query()]) -> Response:
        """A JPEG of at most 256 pixels."""
        content = await readers.run(store.thumbnail, asked.id)
        if not content.startswith(b"\xff\xd8"):
            raise MissingImageError(f"'{asked.id}' has no thumbnail.")
        tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
        return unchanged(request, tag) or Response(content, media_type="image/jpeg", headers=kept(tag))

    @routes.get(
        "/original",
        response_class=Response,
        responses={
            **_pictures("image/jpeg", "image/png", "image/webp", "image/gif", "application/octet-stream"),
            **refused(404, 422, 503),
        },
        operation_id="get_original",
    )
    async def get_original(request: Request, asked: Annotated[OriginalParameters, Query()]) -> Response:
        """The file of an image, or a PNG of it where no browser would show the file."""
        file = await readers.run(opened, asked.id)
        try:
            tag = f'"{file.tag}"'
            if (known := unchanged(request, tag)) is not None:
                file.close()
                return known
            if asked.download:
                headers = {**kept(tag), "Content-Disposition": attachment(asked.id)}
                return FileReply(file, "application/octet-stream", headers)
            if file.kind != "image/tiff":
                return FileReply(file, file.kind, kept(tag))
            return Response(
                await service.painters.run(as_png, file, asked.id), media_type="image/png", headers=kept(tag)
            )
        except BaseException:
            file.close()
            raise

    def opened(image: str) -> OpenFile:
        store.describe([image])  # only what the store names
        if service.originals is None:
            raise MissingImageError("the service was started without --images and shows no files.")
        return service.originals.open(image)

    return routes


def kept(tag: str) -> dict[str, str]:
    """Headers of what a browser may keep."""
    return {"ETag": tag, "Cache-Control": _KEPT}


def unchanged(request: Request, tag: str, headers: dict[str, str] | None = None) -> Response | None:
    """The answer for a browser that has it already."""
    given = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return Response(status_code=304, headers=headers or kept(tag)) if tag in given else None


class FileReply(StreamingResponse):
    """A file, a part at a time; closed also where nobody waits for it any more.

    Args:
        file: What is sent.
        kind: Its media type.
        headers: More headers.
    """

    def __init__(self, file: OpenFile, kind: str, headers: dict[str, str]) -> None:
        length = {"Content-Length": str(file.size)}
        super().__init__(file.chunks(), media_type=kind, headers={**headers, **length})
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
