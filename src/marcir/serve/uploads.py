"""Uploaded images: received with limits of size and time, and kept in memory only."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import Request
from python_multipart import FormParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import File, parse_options_header
from starlette.requests import ClientDisconnect

from marcir.serve.errors import RequestError, unavailable
from marcir.serve.request_log import escaped, shortened
from marcir.serve.settings import IDLE_SECONDS, MAX_UPLOAD_BYTES, UPLOAD_SECONDS, UPLOADS_IN_MEMORY

_FORM_BYTES = 64 * 1024  # of a form around its image
_SMALL_BYTES = 16 * 1024  # of a body that is no image
_MAX_NAME = 100  # characters of the name of a file in messages
_DRAIN_SECONDS = 2.0  # for the rest of a body that is refused to arrive


class Uploads:
    """Receives images; together they use at most `UPLOADS_IN_MEMORY` bytes."""

    def __init__(self) -> None:
        self._held = 0

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, held in memory as long as the block lasts.

        Raises:
            RequestError: 408 where it takes too long, 413 where it is too large, 415 for another type, 503
                where too many come at a time.
        """
        parts: list[bytes] = []

        def keep(part: bytes) -> None:
            if self._held + len(part) > UPLOADS_IN_MEMORY:
                raise unavailable("upload: too many images come at a time.")
            self._held += len(part)
            parts.append(part)

        too_large = f"the upload has more than {MAX_UPLOAD_BYTES >> 20} MiB. Send a smaller image."
        try:
            async with _refusing_after_body(request):
                most = MAX_UPLOAD_BYTES + _FORM_BYTES if is_form(request) else MAX_UPLOAD_BYTES
                await _receive_body(request, keep, most, too_large)
            yield b"".join(parts)
        finally:
            self._held -= sum(map(len, parts))


async def small_body(request: Request, most: int = _SMALL_BYTES) -> bytes:
    """A body that is no image, from any client, with limits of size and time.

    Raises:
        RequestError: 408 for one that takes too long, 413 for one that is too large.
    """
    parts: list[bytes] = []
    too_large = f"the body has more than {most >> 10:,} KiB."
    async with _refusing_after_body(request):
        await _receive_body(request, parts.append, most, too_large)
    return b"".join(parts)


@asynccontextmanager
async def _refusing_after_body(request: Request) -> AsyncIterator[None]:
    """Raise errors once the client can read them: it first finishes its body, or the connection is closed."""
    try:
        yield
    except RequestError as error:
        if error.status_code != 408:
            with suppress(TimeoutError, ClientDisconnect, RuntimeError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    async for _ in request.stream():
                        pass
                    raise
        headers = {**(error.headers or {}), "Connection": "close"}
        raise RequestError(error.status_code, error.detail, headers, error.log_text) from None


async def _receive_body(request: Request, keep: Callable[[bytes], None], most: int, too_large: str) -> None:
    """Receive a body part by part, with limits of size and time."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise RequestError(413, too_large)
    size, loop = 0, asyncio.get_running_loop()
    end = loop.time() + UPLOAD_SECONDS
    try:
        async with asyncio.timeout(IDLE_SECONDS) as limit:
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise RequestError(413, too_large)
                keep(part)
                limit.reschedule(min(end, loop.time() + IDLE_SECONDS))
    except TimeoutError:
        raise RequestError(408, "the body did not arrive in time. Try again, with a smaller image.") from None
    except ClientDisconnect:
        raise RequestError(400, "the body broke off.") from None


def is_form(request: Request) -> bool:
    """Whether the body is a form; otherwise it is an image. Where it is neither, it is refused (415)."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    if kind == b"multipart/form-data":
        return True
    if kind.startswith(b"image/") or kind == b"application/octet-stream":
        return False
    raise RequestError(
        415,
        "Content-Type: send the image as image/* or application/octet-stream, or a form with one file "
        "'image' (curl -F image=@file).",
    )


@dataclass(frozen=True)
class UploadedFile:
    """The image of a request: its bytes, and the name of the file where a form has one."""

    content: bytes
    name: str = ""  # shortened, without folders and control characters

    @property
    def title(self) -> str:
        """What error messages call it.

        >>> UploadedFile(b"", "query.png").title, UploadedFile(b"").title
        ("the upload 'query.png'", 'the upload')
        """
        return f"the upload '{self.name}'" if self.name else "the upload"


def uploaded_file(request: Request, body: bytes) -> UploadedFile:
    """The image in a body that was received; where there is none, it is refused (422)."""
    file = _file_of_form(request, body) if is_form(request) else UploadedFile(body)
    if not file.content:
        raise RequestError(422, f"{file.title} is empty. Send the bytes of an image.")
    return file


def _file_of_form(request: Request, body: bytes) -> UploadedFile:
    _, options = parse_options_header(request.headers.get("content-type", ""))
    files: list[File] = []

    def keep(file: File) -> None:
        if files:
            refuse(file)
        files.append(file)

    def refuse(_: object) -> None:  # at once: parsing a million parts would take a minute
        raise RequestError(422, "the form must hold one file 'image' and nothing else: curl -F image=@file")

    try:
        # In memory, however large: nothing is written to the disk.
        config = {"MAX_MEMORY_FILE_SIZE": len(body) + 1}
        boundary = options.get(b"boundary", b"")
        parser = FormParser("multipart/form-data", refuse, keep, boundary=boundary, config=config)
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise RequestError(
            422, "the form cannot be read. Send one file 'image': curl -F image=@file"
        ) from None
    if not files or files[0].field_name != b"image":
        refuse(files)
    with files[0].file_object as file:
        file.seek(0)
        return UploadedFile(file.read(), _base_name(files[0].file_name or b""))


def _base_name(name: bytes) -> str:
    r"""The last part of the name of a file that a client sends.

    >>> _base_name(b"C:\\tmp\\a.png"), _base_name(b"b\n/c\td.png")
    ('a.png', 'c\\td.png')
    """
    last = name.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
    return escaped(shortened(last, _MAX_NAME))
